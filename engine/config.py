"""What a router can be told: its providers, and how it treats them."""

import itertools
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, PrivateAttr, SecretStr, field_validator, model_validator

from turnout.calls import ApiProtocol
from turnout.errors import UnsupportedProtocolError
from turnout.postgres_config import PostgresConfig
from turnout.settings import Flag, Number, Settings, Whole

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: A year: what is longer overflows the clocks of the system somewhere on its way.
LONGEST_SECONDS: Final = 31_536_000.0
MOST_WORKERS: Final = 10_000
#: A shorter key is a placeholder, and its letters stand in any text.
_SECRET_LENGTH: Final = 8
#: How many keys a provider's error may still hold: a call in flight keeps the one that it began with.
_KEYS_KNOWN: Final = 8


class _Keys:
    """The keys that were read of late. Nothing of them is compared, shown or pickled.

    Any thread may remember one: each step is one operation on a dict, and no caller waits for another.
    """

    def __init__(self) -> None:
        self._ticket = itertools.count()
        self._read: dict[str, int] = {}

    def remember(self, key: str) -> None:
        self._read[key] = next(self._ticket)
        if len(self._read) > _KEYS_KNOWN:
            oldest, _ = min(list(self._read.items()), key=lambda read: read[1])
            self._read.pop(oldest, None)

    def known(self) -> list[str]:
        return list(self._read)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keys)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type["_Keys"], tuple[()]]:
        return _Keys, ()


class HealthConfig(Settings):
    """When a provider is benched, and for how long. Seconds.

    After a bench ``half_open_probes`` calls at a time find out whether the provider answers again; each that fails
    multiplies the next cooldown, up to ``max_cooldown_seconds`` (a quota's own is never shortened). Retry-After is
    obeyed up to ``max_retry_after_seconds``. Where every provider is benched, a call raises, waits for the first bench
    to end (within its timeout), or tries the provider whose bench ends ``soonest``: ``when_all_benched``, which is the
    router's alone.
    """

    failure_threshold: Whole = Field(default=3, ge=1)
    failure_cooldown_seconds: Number = Field(default=60.0, ge=0, le=LONGEST_SECONDS)
    rate_limit_cooldown_seconds: Number = Field(default=60.0, ge=0, le=LONGEST_SECONDS)
    quota_cooldown_seconds: Number = Field(default=3600.0, ge=0, le=LONGEST_SECONDS)
    cooldown_multiplier: Number = Field(default=2.0, ge=1, le=1000)
    max_cooldown_seconds: Number = Field(default=300.0, ge=0, le=LONGEST_SECONDS)
    honor_retry_after: Flag = True
    max_retry_after_seconds: Number = Field(default=3600.0, ge=0, le=LONGEST_SECONDS)
    half_open_probes: Whole = Field(default=1, ge=1, le=MOST_WORKERS)
    when_all_benched: Literal["raise", "wait", "soonest"] = "raise"

    def merged_with(self, own: "HealthConfig | None") -> "HealthConfig":
        """These settings, with those that a provider's ``own`` were given."""
        return self if own is None else self.model_copy(update=own.model_dump(exclude_unset=True))


class ProviderConfig(Settings):
    """One provider: who it is, how it is reached, and its limits.

    ``provider_id`` is its lasting identity (health, ledger), ``name`` what people read. The key comes from ``api_key``
    or, read anew at each call, from the environment variable ``api_key_env``. ``timeout_seconds`` bounds one attempt at
    a regular answer. Of a stream, ``first_token_timeout_seconds`` bounds the wait for the first content (text, refusal,
    reasoning, tool call) and ``idle_timeout_seconds`` the wait for each next, whatever else is sent meanwhile; both run
    only while someone reads, and are ``timeout_seconds`` where not given. ``max_concurrency`` bounds the attempts in
    flight; without it, and with other providers beside it, workers make at most half of their number at a time. Each
    attempt begins at least ``min_interval_seconds`` after the one before.
    ``context_window``, in tokens, is what the model can take: a request that was too long for one provider
    goes on only to a larger window. ``extra_body`` is merged into the call's own ``extra_body`` where the caller gave
    no such key. What ``health`` says goes before the router's own, and so does ``retry``: a RetryPolicy, the fields of
    ``SameProviderRetryPolicy`` as a dict, or False for none.
    """

    provider_id: str = Field(min_length=1)
    name: str = Field(min_length=1)
    protocol: ApiProtocol
    model: str = Field(min_length=1)
    base_url: str | None = None
    api_key: SecretStr | None = None
    api_key_env: str | None = None
    enabled: Flag = True
    timeout_seconds: Number = Field(default=120.0, gt=0, le=LONGEST_SECONDS)
    first_token_timeout_seconds: Number | None = Field(default=None, gt=0, le=LONGEST_SECONDS)
    idle_timeout_seconds: Number | None = Field(default=None, gt=0, le=LONGEST_SECONDS)
    max_concurrency: Whole | None = Field(default=None, ge=1, le=MOST_WORKERS)
    min_interval_seconds: Number = Field(default=0.0, ge=0, le=LONGEST_SECONDS)
    context_window: Whole | None = Field(default=None, ge=1)
    extra_body: Mapping[str, Any] = Field(default_factory=dict)
    _keys: _Keys = PrivateAttr(default_factory=_Keys)

    health: HealthConfig | None = None
    retry: Any = None

    @field_validator("health")
    @classmethod
    def _leaves_the_route_alone(cls, value: HealthConfig | None) -> HealthConfig | None:
        if value is not None and "when_all_benched" in value.model_fields_set:
            raise ValueError("when_all_benched is the router's to say, not one provider's")
        return value

    @field_validator("provider_id", "name", "model", "base_url", "api_key_env")
    @classmethod
    def _not_blank(cls, value: str | None) -> str | None:
        if value is not None and not value.strip():
            raise ValueError("must not be blank")
        return value

    @field_validator("protocol", mode="before")
    @classmethod
    def _is_spoken(cls, value: object) -> object:
        known = [protocol.value for protocol in ApiProtocol]
        if isinstance(value, str) and value not in known:
            raise UnsupportedProtocolError(f"must be one of {', '.join(known)}")
        return value

    @field_validator("api_key_env")
    @classmethod
    def _names_a_variable(cls, value: str | None) -> str | None:
        # Not echoed: what stands here instead of a name is most often the key.
        if value is not None and not _VARIABLE.fullmatch(value):
            raise ValueError("must be the name of an environment variable, not a key")
        return value

    @field_validator("base_url")
    @classmethod
    def _leads_to_a_host(cls, value: str | None) -> str | None:
        # Not echoed: a URL may hold a password.
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("must start with http:// or https://")
        if value is not None and not _names_a_host(value):
            raise ValueError("must be a URL that names a host, like https://api.example.com/v1")
        return value

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, _without_password(value) if name == "base_url" and value else value

    def resolved_key(self) -> SecretStr | None:
        """The key as it stands now, or None where there is none."""
        if self.api_key is not None:
            return self.api_key if self.api_key.get_secret_value() else None
        value = os.environ.get(self.api_key_env) if self.api_key_env else None
        if not value:
            return None
        self._keys.remember(value)
        return SecretStr(value)

    def without_key(self, text: str) -> str:
        """``text`` with the key taken out, as it stands now and as calls in flight may have read it; keys too short
        to be secrets are left."""
        key = self.resolved_key()
        keys = [*self._keys.known(), "" if key is None else key.get_secret_value()]
        # The longest first: one key may be the beginning of another.
        for secret in sorted({key.strip() for key in keys}, key=len, reverse=True):
            if len(secret) >= _SECRET_LENGTH:
                text = text.replace(secret, "[key]")
        return text

    def has_key(self) -> bool:
        """Whether a key can be had now."""
        if self.api_key is not None:
            return bool(self.api_key.get_secret_value())
        return bool(self.api_key_env and os.environ.get(self.api_key_env))


def _without_password(url: str) -> str:
    password = urlsplit(url).password
    return url.replace(f":{password}@", ":***@", 1) if password else url


def _names_a_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        # Reading the port is what tells that it is none.
        return url.isprintable() and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


class BudgetConfig(Settings):
    """How many attempts may be made beyond the first at each provider, over all calls together: retries, restarts after
    content, hedges. A bucket of at most ``max_tokens`` gains ``ratio`` for each call and ``per_second``; where it is
    empty, the walk goes on to the next provider instead. ``max_attempts_per_call`` bounds a single call, whatever it is
    made of."""

    ratio: Number = Field(default=0.2, ge=0, le=1000)
    per_second: Number = Field(default=10.0, ge=0, le=1e6)
    max_tokens: Number = Field(default=100.0, ge=0, le=1e9)
    max_attempts_per_call: Whole = Field(default=16, ge=1, le=1000)


class PoolConfig(Settings):
    """The worker pool. ``max_queue`` bounds the submitted work that no worker has taken yet."""

    max_workers: Whole = Field(default=32, ge=1, le=MOST_WORKERS)
    max_queue: Whole = Field(default=10_000, ge=1, le=1_000_000)
    idle_seconds: Number = Field(default=10.0, gt=0, le=LONGEST_SECONDS)


class LedgerConfig(Settings):
    """The batched writer: a batch is written at ``batch_rows`` or after ``flush_seconds``, whichever is first.

    With ``durability="committed"`` a call is answered once its rows are safe, whatever becomes of the machine; all
    calls that wait then share one commit. While the store fails, or takes long, rows go to files in ``spool_dir`` (by
    default beside the database, where it is one of turnout's own), from where the next router that can takes them in.
    What no file takes waits in memory, at most ``max_rows`` rows; what comes on top is dropped and counted.
    """

    batch_rows: Whole = Field(default=5_000, ge=1)
    flush_seconds: Number = Field(default=0.05, gt=0, le=LONGEST_SECONDS)
    max_rows: Whole = Field(default=100_000, ge=1)
    durability: Literal["batched", "committed"] = "batched"
    spool_dir: str | None = Field(default=None, min_length=1)

    @property
    def is_durable(self) -> bool:
        """Whether calls wait for the commit of their rows."""
        return self.durability == "committed"

    @model_validator(mode="after")
    def _a_batch_fits(self) -> Self:
        if self.batch_rows > self.max_rows:
            raise ValueError("batch_rows must not exceed max_rows")
        return self


class StoreConfig(Settings):
    """Where the router keeps a ledger of its own. ``path``, for DuckDB and SQLite, may start with ``~``; DuckDB's has a
    default. The URL of a PostgreSQL, which holds a password, stands in the environment's variable ``url_env``
    (``TURNOUT_POSTGRES_URL`` by default), its other settings in ``postgres``."""

    backend: Literal["duckdb", "sqlite", "postgres", "none"] = "duckdb"
    path: str | None = None
    url_env: str | None = None
    postgres: PostgresConfig | None = None

    @field_validator("url_env")
    @classmethod
    def _names_a_variable(cls, value: str | None) -> str | None:
        # Not echoed: what stands here instead of a name is most often the URL.
        if value is not None and not _VARIABLE.fullmatch(value):
            raise ValueError("must be the name of an environment variable, not a URL")
        return value

    @model_validator(mode="after")
    def _fits_its_backend(self) -> Self:
        if self.backend == "sqlite" and self.path is None:
            raise ValueError("path is needed for sqlite")
        if self.backend == "postgres" and self.path is not None:
            raise ValueError(
                "path is for duckdb and sqlite; the environment's url_env says where a postgres is"
            )
        if self.backend != "postgres" and (self.url_env is not None or self.postgres is not None):
            raise ValueError(f'url_env and postgres are for backend = "postgres", not "{self.backend}"')
        return self
