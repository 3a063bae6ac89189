"""Who uses a ledger in PostgreSQL, and how one has it alone.

A connection that is used holds an advisory lock of its ledger, shared, as long as it lasts, be it at rest; who migrates
the ledger takes it alone. A pooler that hands connections on after each transaction keeps no such lock: there each
transaction reads the version first, which waits for a migration under way and is none of another version's then.
"""

from typing import TYPE_CHECKING, Any, Final

from turnout.storage.schema import COMPONENT, VERSION
from turnout.storage.schema.verdict import TABLES, VERSIONS

if TYPE_CHECKING:
    from psycopg import Connection

#: "turn" in ASCII, and the table that no two ledgers of a database have in common, as PostgreSQL tells of it.
_TURN: Final = 0x7475726E
_TABLE: Final = f"to_regclass('{VERSIONS}')::oid"
_KEYS: Final = f"{_TURN}, {_TABLE}::bigint::bit(32)::integer"
_SHARED: Final = f"SELECT pg_advisory_lock_shared({_KEYS})"
_ALONE: Final = f"SELECT pg_try_advisory_xact_lock({_KEYS})"
_LOCKED: Final = f"LOCK TABLE {', '.join(TABLES)} IN ACCESS EXCLUSIVE MODE"
VERSION_SQL: Final = f"SELECT version FROM {VERSIONS} WHERE component = '{COMPONENT}'"
_USERS: Final = f"""
SELECT DISTINCT pid, coalesce(nullif(application_name, ''), 'unnamed'), usename
FROM pg_catalog.pg_locks JOIN pg_catalog.pg_stat_activity USING (pid)
WHERE granted AND pid <> pg_backend_pid()
    AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
    AND (
        locktype = 'advisory' AND classid = {_TURN} AND objid = {_TABLE} AND objsubid = 2
        OR locktype = 'relation' AND relation IN ({", ".join(f"to_regclass('{name}')::oid" for name in TABLES)})
    )
ORDER BY pid
"""


def share(connection: "Connection[Any]") -> None:
    """Keep the ledger from being migrated as long as the connection lasts. Waits for a migration that is under way."""
    connection.execute(_SHARED.encode())


def is_in_use(versions: list[tuple[Any, ...]]) -> bool:
    """Whether what ``VERSION_SQL`` gave is the version in use."""
    return versions == [(VERSION,)]


def took_alone(connection: "Connection[Any]") -> bool:
    """Have the ledger alone until the transaction ends; False, at once, where another connection shares it. Raises
    ``LockNotAvailable`` where someone else than turnout holds a table until the lock timeout."""
    if connection.execute(_ALONE.encode()).fetchall() != [(True,)]:
        return False
    with connection.transaction():
        connection.execute(_LOCKED.encode())
    return True


def users(connection: "Connection[Any]") -> str:
    """Who else uses the ledger, in words, and how the last of them is ended; nothing where nobody does any more."""
    found = connection.execute(_USERS.encode()).fetchall()
    told = [f"process {pid} ({name}, role {role})" for pid, name, role in found]
    if not told:
        return ""
    return (
        f"{', '.join(told)}; one that nobody can stop is ended by SELECT pg_terminate_backend({found[-1][0]})"
    )
