"""How a PostgreSQL is reached."""

from typing import Final, Literal, Self

from pydantic import Field, model_validator

from turnout.settings import Flag, Number, Settings, Whole

SslMode = Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]
#: Half an hour: whoever waits longer for a database has other things to mend.
_LONGEST_SECONDS: Final = 1800.0
_MOST_CONNECTIONS: Final = 1000


class PostgresConfig(Settings):
    """How the store uses its PostgreSQL.

    ``pool_mode`` says what the URL leads to, which nobody can find out from outside: the server itself (``direct``), a
    pooler that keeps a server connection for each client (``session_pooler``), or one that hands it on after each
    transaction (``transaction_pooler``: Supabase's port 6543, PgBouncer), where no statement is prepared on the server
    and the statement timeout is set in each transaction.

    A new connection may take ``connect_timeout_seconds`` (libpq counts whole ones, at least 2), a statement
    ``statement_timeout_seconds`` on the server, and the wait for one of the ``max_pool_size`` connections
    ``checkout_timeout_seconds``. A server that says nothing at all is given up after the first two together.

    ``sslmode`` is ``require`` where neither this nor the URL says otherwise; where both do, the stricter holds.
    ``require`` encrypts, and takes any server for the right one: ``verify-full`` with ``sslrootcert``, a file of
    certificate authorities, does not. Modes that may go unencrypted are refused without ``allow_unencrypted``. (On a
    Unix socket libpq encrypts nothing, whatever the mode.)
    """

    pool_mode: Literal["direct", "session_pooler", "transaction_pooler"] = "direct"
    connect_timeout_seconds: Number = Field(default=5.0, gt=0, le=_LONGEST_SECONDS)
    statement_timeout_seconds: Number = Field(default=2.0, ge=0.001, le=_LONGEST_SECONDS)
    checkout_timeout_seconds: Number = Field(default=2.0, gt=0, le=_LONGEST_SECONDS)
    min_pool_size: Whole = Field(default=1, ge=0, le=_MOST_CONNECTIONS)
    max_pool_size: Whole = Field(default=4, ge=1, le=_MOST_CONNECTIONS)
    sslmode: SslMode | None = None
    sslrootcert: str | None = Field(default=None, min_length=1)
    allow_unencrypted: Flag = False

    @model_validator(mode="after")
    def _pool_can_be_filled(self) -> Self:
        if self.min_pool_size > self.max_pool_size:
            raise ValueError("min_pool_size must not exceed max_pool_size")
        return self
