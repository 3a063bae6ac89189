"""Which PostgreSQL a URL leads to, how it is named to people, and whether the way there is encrypted."""

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, get_args
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from pydantic import SecretStr

from turnout.errors import ConfigError
from turnout.postgres_config import PostgresConfig, SslMode

URL_VARIABLE: Final = "TURNOUT_POSTGRES_URL"
_SSL_MODES: Final[tuple[str, ...]] = get_args(SslMode)
_UNENCRYPTED: Final = ("disable", "allow", "prefer")
#: Parameters of a URL that say where the database is.
_WHERE: Final = ("service", "host", "hostaddr", "port")
_BROKEN_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")
_SECRET_LENGTH: Final = 4
_PORT: Final = re.compile(r"[0-9]{0,5}")


@dataclass(frozen=True, slots=True)
class Target:
    """A database to connect to. ``str`` of it names it without the password."""

    name: str
    url: SecretStr = field(repr=False)
    #: What goes before the URL's own parameters.
    parameters: Mapping[str, str | int]
    #: The password as the URL has it, and as the server gets it.
    secrets: tuple[str, ...] = field(repr=False)

    def __str__(self) -> str:
        return self.name

    def without_password(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def url_in(variable: str | None = None) -> SecretStr:
    """The URL in this environment variable, ``TURNOUT_POSTGRES_URL`` by default."""
    name = variable or URL_VARIABLE
    url = os.environ.get(name, "")
    if not url:
        raise ConfigError(
            f"no PostgreSQL is named: set the environment variable {name} to its URL, like "
            "postgresql://user:password@host:5432/database"
        )
    return SecretStr(url)


def target_of(url: str | SecretStr | None, config: PostgresConfig) -> Target:
    """Where ``url`` leads, or, where that is None, the environment.

    Raises ``ConfigError``, which shows nothing of a URL that cannot be read: any part of it may be the password.
    """
    url = url_in() if url is None else url
    text = url.get_secret_value() if isinstance(url, SecretStr) else url
    if not isinstance(text, str):
        raise ConfigError(f"the PostgreSQL URL must be a text, not {type(text).__name__}")
    text = text.strip()
    parts, options = _read(text)
    parameters: dict[str, str | int] = {
        "sslmode": _ssl_mode(options.get("sslmode"), config),
        "connect_timeout": math.ceil(config.connect_timeout_seconds),
        "client_encoding": "utf8",
        "fallback_application_name": "turnout",
    }
    if config.sslrootcert is not None:
        root = config.sslrootcert
        parameters["sslrootcert"] = root if root == "system" else str(Path(root).expanduser())
    return Target(_named(parts, options), SecretStr(text), parameters, _secrets(parts, options))


def _read(text: str) -> tuple[SplitResult, dict[str, str]]:
    try:
        parts = urlsplit(text)
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        raise _unreadable("cannot be read") from None
    if parts.scheme not in ("postgresql", "postgres"):
        raise _unreadable("must begin with postgresql://")
    # Where such a character stands bare in a password, what is left of it is taken for host, port or database: libpq
    # would name it in its errors.
    if parts.fragment or " " in text or not text.isprintable() or _BROKEN_PERCENT.search(text):
        raise _unreadable("holds a # or % or a space or control character as it is")
    if parts.netloc.count("@") > 1 or "@" in parts.path or "@" in parts.query:
        raise _unreadable("holds an @ besides the one before the host")
    hosts = parts.netloc.rpartition("@")[2].split(",")
    if not all(_PORT.fullmatch(_port(host)) for host in hosts):
        raise _unreadable("names a port that is no number")
    return parts, options


def _unreadable(why: str) -> ConfigError:
    return ConfigError(
        f"the PostgreSQL URL {why}; it looks like postgresql://user:password@host:5432/database, where each of "
        ": / ? # [ ] @ % and space in a user or password is percent-encoded (@ as %40)"
    )


def _port(host: str) -> str:
    """What stands behind the colon, which an IPv6 address in brackets has more of."""
    return host.rpartition("]")[2].rpartition(":")[2] if ":" in host.rpartition("]")[2] else ""


def _named(parts: SplitResult, options: Mapping[str, str]) -> str:
    credentials, _, hosts = parts.netloc.rpartition("@")
    user, _, password = credentials.partition(":")
    user, database = user or options.get("user", ""), parts.path.strip("/") or options.get("dbname", "")
    secret = ":***" if password or "password" in options else ""
    who = f"{user}{secret}@" if user or secret else ""
    elsewhere = "&".join(f"{name}={options[name]}" for name in _WHERE if name in options)
    return f"postgresql://{who}{hosts}/{database}{'?' if elsewhere else ''}{elsewhere}"


def _secrets(parts: SplitResult, options: Mapping[str, str]) -> tuple[str, ...]:
    _, _, password = parts.netloc.rpartition("@")[0].partition(":")
    found = {password, unquote(password), options.get("password", "")}
    # A shorter one stands in any text.
    return tuple(sorted((secret for secret in found if len(secret) >= _SECRET_LENGTH), key=len, reverse=True))


def _ssl_mode(stated: str | None, config: PostgresConfig) -> str:
    if stated is not None and stated not in _SSL_MODES:
        raise ConfigError(f"the PostgreSQL URL's sslmode must be one of {', '.join(_SSL_MODES)}")
    given = [mode for mode in (stated, config.sslmode) if mode is not None]
    mode = max(given, key=_SSL_MODES.index, default="require")
    if mode in _UNENCRYPTED and not config.allow_unencrypted:
        raise ConfigError(
            f"sslmode={mode} may send rows and the password unencrypted; use require or verify-full, or confirm it "
            "with allow_unencrypted=True (on a command line --allow-unencrypted)"
        )
    return mode
