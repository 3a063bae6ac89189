"""What a DuckDB database holds of the schema, and what that should be."""

from contextlib import closing
from functools import cache
from typing import TYPE_CHECKING

from turnout.storage import schema
from turnout.storage.schema.duckdb_file import driver
from turnout.storage.schema.facts import StorageBackend
from turnout.storage.schema.verdict import (
    RELATIONS,
    VERSIONS,
    Found,
    Shape,
    Verdict,
    component_versions,
    verdict_of,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_WANTED = f"database_name = current_database() AND schema_name = 'main' AND table_name IN {RELATIONS}"
_SHAPE_SQL = f"""
WITH relations AS (
    SELECT database_name, schema_name, table_name, 'table' AS kind FROM duckdb_tables()
    UNION ALL SELECT database_name, schema_name, view_name, 'view' FROM duckdb_views()
)
SELECT table_name, part FROM (
    SELECT table_name, 0 AS rank, 0 AS place, kind AS part FROM relations WHERE {_WANTED}
UNION ALL
    SELECT table_name, 1, column_index, concat(
        column_name, ' ', data_type, CASE WHEN NOT is_nullable THEN ' NOT NULL' END, ' DEFAULT ' || column_default
    )
    FROM duckdb_columns() WHERE {_WANTED}
UNION ALL
    SELECT table_name, 2, 0, concat(
        constraint_type, ' (', coalesce(expression, array_to_string(constraint_column_names, ', ')), ')'
    )
    FROM duckdb_constraints() WHERE {_WANTED} AND constraint_type <> 'NOT NULL'
UNION ALL
    SELECT table_name, 3, 0, concat(CASE WHEN is_unique THEN 'UNIQUE ' END, 'INDEX ', expressions)
    FROM duckdb_indexes() WHERE {_WANTED}
UNION ALL
    SELECT view_name, 4, 0, regexp_replace(sql, '^.*? AS ', 'AS ')
    FROM duckdb_views() WHERE {_WANTED.replace("table_name", "view_name")}
) ORDER BY table_name, rank, place, part
"""
_OTHERS_SQL = "SELECT count(*) > 0 FROM ({}) WHERE name NOT IN {}".format(
    " UNION ALL ".join(
        f"SELECT {kind}_name AS name FROM duckdb_{kind}s() WHERE database_name = current_database() AND NOT internal"
        for kind in ("table", "view")
    ),
    RELATIONS,
)


def look(connection: "DuckDBPyConnection") -> Verdict:
    """What the database is that ``connection`` is to. Changes nothing."""
    shape = shape_of(connection)
    versions = None
    if {"component VARCHAR NOT NULL", "version INTEGER NOT NULL"} <= {*shape.get(VERSIONS, ())}:
        rows = connection.execute(f"SELECT component, version FROM {VERSIONS}").fetchall()
        versions = component_versions(rows)
    ((others,),) = connection.execute(_OTHERS_SQL).fetchall()
    return verdict_of(Found(shape, versions, others), expected)


def shape_of(connection: "DuckDBPyConnection") -> Shape:
    """Two databases that are alike give equal shapes."""
    shape: dict[str, list[str]] = {}
    for name, part in connection.execute(_SHAPE_SQL).fetchall():
        shape.setdefault(name, []).append(part)
    return shape


@cache
def expected(version: int) -> Shape:
    """The shape of ``version``, as this driver tells of it."""
    with closing(driver().connect(":memory:", config={"threads": 1})) as reference:
        reference.execute(schema.whole(StorageBackend.DUCKDB, version))
        return shape_of(reference)
