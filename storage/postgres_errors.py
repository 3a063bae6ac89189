"""What PostgreSQL and its driver say, as errors that name the database and the next step. Imported with the driver."""

from typing import Final

from psycopg import DataError, Error, IntegrityError, OperationalError, errors
from psycopg_pool import PoolTimeout

from turnout.errors import StorageError, StorageLockedError
from turnout.storage.postgres_target import Target


class SilentServerError(OperationalError):
    """The server said nothing for too long."""


GRANTS: Final = (
    "have the owner of the schema GRANT this role USAGE on it, INSERT and SELECT on provider_attempts, and SELECT on "
    "turnout_schema_versions"
)
#: What PostgreSQL calls the place where a policy refuses a row. Its error has the code of a missing grant, and its text
#: the language of the server.
_POLICIES_AT: Final = "ExecWithCheckOptions"
_POLICY: Final = (
    "no policy of its row level security lets this role keep the row: have the owner CREATE POLICY ... ON "
    "provider_attempts TO this role USING (true) WITH CHECK (true), or let the role bypass it"
)
_PREPARED: Final = (
    'a pooler between the two loses prepared statements; set pool_mode="transaction_pooler", which uses none'
)
#: The first whose errors it is says what to do.
_NEXT: Final[tuple[tuple[tuple[type[Error], ...], str], ...]] = (
    ((errors.QueryCanceled,), "raise statement_timeout_seconds, or see what holds the database up"),
    ((errors.LockNotAvailable,), "it is being migrated, or locked otherwise; try again later"),
    ((errors.InsufficientPrivilege,), GRANTS),
    ((errors.DuplicatePreparedStatement, errors.InvalidSqlStatementName), _PREPARED),
    (
        (errors.UndefinedTable, errors.UndefinedColumn, errors.InvalidSchemaName),
        "its schema was changed while it was in use: run `turnout storage inspect --backend postgres`",
    ),
    (
        (errors.ReadOnlySqlTransaction,),
        "it takes no writes: name the primary server, or add target_session_attrs=read-write to the URL",
    ),
    ((errors.InsufficientResources,), "make room on the server, or lower max_pool_size"),
    ((DataError, IntegrityError), "a value does not fit its column"),
    (
        (SilentServerError,),
        "it was given up: see whether it, and the network on the way, still work",
    ),
    (
        (PoolTimeout,),
        "raise checkout_timeout_seconds or max_pool_size, or see whether the server takes more connections",
    ),
)
_ANY: Final = "see the server's log; try again later"
_ENCRYPTION: Final = (
    "have the server speak TLS, or, where nobody can listen on the way, confirm sslmode=disable with "
    "allow_unencrypted=True"
)
_TRUST: Final = (
    "name the file of the authority that signed its certificate as sslrootcert, and its host as it is there"
)
_REACH: Final = "see whether it runs there, and whether host, port, database, user and password are right"


def failed(error: Error, target: Target) -> StorageError:
    """The error to raise for what went wrong on a connection."""
    then = next((then for kinds, then in _NEXT if isinstance(error, kinds)), _ANY)
    if error.diag.source_function == _POLICIES_AT:
        then = _POLICY
    kind = StorageLockedError if isinstance(error, errors.LockNotAvailable) else StorageError
    return kind(target.without_password(f"the database {target} failed: {_said(error)}; {then}"))


def unreachable(error: Error, target: Target) -> StorageError:
    """The error to raise where no connection came about."""
    said = _said(error)
    if "does not support SSL" in said or "SSL was required" in said:
        then = _ENCRYPTION
    elif "certificate" in said:
        then = _TRUST
    elif isinstance(error, errors.ConnectionTimeout):
        then = f"raise connect_timeout_seconds, or {_REACH}"
    else:
        then = _REACH
    return _named(f"the database {target} cannot be connected to: {said}; {then}", target)


def cause_of(error: Error, target: Target) -> Error | None:
    """``error``, for the traceback, unless the password stands in it."""
    text = str(error)
    return error if target.without_password(text) == text else None


def _named(text: str, target: Target) -> StorageError:
    return StorageError(target.without_password(text))


def _said(error: Error) -> str:
    # What follows the first line of the server's are values.
    return " ".join((error.diag.message_primary or str(error)).split())
