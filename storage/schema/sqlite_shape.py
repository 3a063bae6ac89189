"""What a SQLite database holds of the schema, and what that should be."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from typing import Final

from turnout.storage import schema
from turnout.storage.schema.facts import StorageBackend
from turnout.storage.schema.quoting import quoted
from turnout.storage.schema.verdict import (
    RELATIONS,
    VERSIONS,
    Found,
    Shape,
    Verdict,
    component_versions,
    verdict_of,
)

_CHECK: Final = re.compile(r"\bCHECK\s*\(", re.IGNORECASE)
_AS: Final = re.compile(r"\bAS\b", re.IGNORECASE)


def look(connection: sqlite3.Connection) -> Verdict:
    """What the database is that ``connection`` is to. Changes nothing; raises ``sqlite3.DatabaseError`` where it cannot
    be read."""
    shape = shape_of(connection)
    versions = None
    if {"component TEXT NOT NULL", "version INTEGER NOT NULL"} <= {*shape.get(VERSIONS, ())}:
        versions = component_versions(connection.execute(f"SELECT component, version FROM {VERSIONS}"))
    names = {
        name
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
    }
    others = any(name not in RELATIONS and not name.startswith("sqlite_") for name in names)
    return verdict_of(Found(shape, versions, others), expected)


def shape_of(connection: sqlite3.Connection) -> Shape:
    """Two databases that are alike give equal shapes."""
    shape = {}
    for name in RELATIONS:
        there = connection.execute("SELECT type, sql FROM sqlite_master WHERE name = ?", (name,)).fetchall()
        for kind, sql in there:
            shape[name] = [
                kind,
                *_columns(connection, name),
                *_checks(sql or ""),
                *sorted(_indexes(connection, name)),
                *_query(kind, sql or ""),
            ]
    return shape


@cache
def expected(version: int) -> Shape:
    """The shape of ``version``, as this SQLite tells of it."""
    with closing(sqlite3.connect(":memory:")) as reference:
        reference.executescript(schema.whole(StorageBackend.SQLITE, version))
        return shape_of(reference)


def _columns(connection: sqlite3.Connection, name: str) -> Iterator[str]:
    try:
        columns = connection.execute(f"PRAGMA table_xinfo({name})").fetchall()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        # A view of what is no more.
        yield str(error)
        return
    for _, column, kind, not_null, default, _, hidden in columns:
        yield (
            f"{column} {kind}{' NOT NULL' * bool(not_null)}"
            f"{'' if default is None else f' DEFAULT {default}'}{' GENERATED' * bool(hidden)}"
        )
    key = sorted((rank, column) for _, column, *_, rank, _ in columns if rank)
    if key:
        yield f"PRIMARY KEY ({', '.join(column for _, column in key)})"


def _query(kind: str, sql: str) -> Iterator[str]:
    """A view's, as the text that it was made with has it, but for the white space."""
    if kind == "view":
        yield " ".join(["AS", *_AS.split(sql, 1)[-1].split()])


def _checks(sql: str) -> Iterator[str]:
    """SQLite tells of a CHECK by the text alone that its table was made with."""
    for found in _CHECK.finditer(sql):
        depth, end = 1, found.end()
        while depth and end < len(sql):
            depth += {"(": 1, ")": -1}.get(sql[end], 0)
            end += 1
        yield f"CHECK ({' '.join(sql[found.end() : end - 1].split())})"


def _indexes(connection: sqlite3.Connection, table: str) -> Iterator[str]:
    for _, name, unique, origin, partial in connection.execute(f"PRAGMA index_list({table})").fetchall():
        if origin == "pk":
            continue
        columns = [
            f"{column or 'an expression'}{' DESC' * descending}{'' if collation == 'BINARY' else f' {collation}'}"
            for _, _, column, descending, collation, is_key in connection.execute(
                f"PRAGMA index_xinfo({quoted(name)})"
            )
            if is_key
        ]
        yield f"{'UNIQUE ' * unique}INDEX ({', '.join(columns)}){' of some rows' * partial}"
