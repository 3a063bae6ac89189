"""The tables of a metrics database, as numbered SQL for each backend, side by side."""

from importlib.resources import files
from typing import Final, Literal

from turnout.errors import SchemaMismatchError
from turnout.storage.schema.postgres_ddl import (
    CREATE_PROVIDER_ATTEMPTS_TABLE_POSTGRES_SQL as CREATE_PROVIDER_ATTEMPTS_TABLE_POSTGRES_SQL,
)
from turnout.storage.schema.postgres_ddl import (
    CREATE_SCHEMA_VERSIONS_TABLE_POSTGRES_SQL as CREATE_SCHEMA_VERSIONS_TABLE_POSTGRES_SQL,
)

Backend = Literal["duckdb", "sqlite", "postgres"]

COMPONENT: Final = "metrics"
VERSION: Final = 1


def script(backend: Backend, version: int = VERSION) -> str:
    """The SQL that brings a database of this backend to ``version`` from the one before."""
    return files(__name__).joinpath(f"{backend}_{version:04d}.sql").read_text("utf-8")


def refuse_other_version(path: str, versions: list[int]) -> None:
    """Raise ``SchemaMismatchError`` unless ``versions``, as the database at ``path`` states them, is the one in use."""
    if versions == [VERSION]:
        return
    if versions and max(versions) > VERSION:
        why = f"is of version {max(versions)}, made by a newer turnout; this one knows version {VERSION}"
    else:
        why = f"does not state version {VERSION} of the turnout metrics schema"
    raise mismatch(path, why)


def mismatch(path: str, why: str) -> SchemaMismatchError:
    """The error for a database that was found and cannot be used; it says what to do."""
    return SchemaMismatchError(
        f"the database {path} {why}; it was left untouched. Give the store another path, or move that file away"
    )
