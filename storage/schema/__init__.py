"""The tables of a metrics database, as numbered SQL for each backend, side by side."""

from importlib.resources import files
from typing import Final

from turnout.storage.schema.facts import StorageBackend as StorageBackend
from turnout.storage.schema.postgres_ddl import (
    CREATE_PROVIDER_ATTEMPTS_TABLE_POSTGRES_SQL as CREATE_PROVIDER_ATTEMPTS_TABLE_POSTGRES_SQL,
)
from turnout.storage.schema.postgres_ddl import (
    CREATE_PROVIDER_FAILOVERS_VIEW_POSTGRES_SQL as CREATE_PROVIDER_FAILOVERS_VIEW_POSTGRES_SQL,
)
from turnout.storage.schema.postgres_ddl import (
    CREATE_SCHEMA_VERSIONS_TABLE_POSTGRES_SQL as CREATE_SCHEMA_VERSIONS_TABLE_POSTGRES_SQL,
)

COMPONENT: Final = "metrics"
VERSION: Final = 2


def script(backend: StorageBackend, version: int) -> str:
    """The SQL that brings a database of this backend from the version before to ``version``, and states that there."""
    return files(__name__).joinpath(f"{backend.value}_{version:04d}.sql").read_text("utf-8")


def whole(backend: StorageBackend, version: int = VERSION) -> str:
    """The SQL that makes ``version`` in a database without tables. It opens no transaction of its own."""
    return "\n".join(script(backend, step) for step in range(1, version + 1))
