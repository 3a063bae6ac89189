"""One SDK client for each provider: built at the first call, shared by all threads, replaced when the key changes."""

import importlib
import os
import weakref
from typing import Any

from turnout.adapters.openai_end import EndTransport
from turnout.adapters.transport import http_libraries
from turnout.adapters.wire import Here
from turnout.config import ProviderConfig
from turnout.errors import MissingApiKeyError, ProviderError, ProviderSDKNotInstalledError, named
from turnout.faults import Fault

_OPENAI_URL = "https://api.openai.com/v1"

# A child of fork() must never use, close or collect what its parent opened: locks in it may be held for ever.
_living: "weakref.WeakSet[Any]" = weakref.WeakSet()
_inherited: list[Any] = []


def keep_over_fork(opened: Any) -> None:
    """Remember an open client or stream, so that a forked child keeps it untouched to its own end."""
    _living.add(opened)


def _keep_inherited() -> None:
    _inherited.extend(_living)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep_inherited)


class SdkClient:
    """An SDK client with its connections. It is closed when it is retired and its last user has left.

    Users are counted by the length of a list, whose ``append`` and ``pop`` are atomic: no caller waits for another.
    """

    def __init__(self, key: str, sdk: Any, here: Here, stream_type: type) -> None:
        self.key = key
        self.pid = os.getpid()
        self.sdk = sdk
        self.here = here
        self.stream_type = stream_type
        self.retired = False
        self._users: list[None] = []
        self._open: list[None] = [None]
        self._operations: dict[str, Any] = {}
        keep_over_fork(self)

    def enter(self) -> bool:
        """Become a user, for a call or as long as a stream is open; False if the client was retired meanwhile."""
        self._users.append(None)
        if self.retired:
            self.leave()
            return False
        return True

    def leave(self) -> None:
        self._users.pop()
        if self.retired and not self._users:
            self._close()

    def retire(self) -> None:
        self.retired = True
        if not self._users:
            self._close()

    def operation(self, path: str) -> Any:
        """The SDK method at a dotted path, or None where no public method is."""
        found = self._operations.get(path)
        if found is None:
            found = _resolved(self.sdk, path)
            if found is not None:
                self._operations[path] = found
        return found

    def _close(self) -> None:
        try:
            self._open.pop()
        except IndexError:
            return
        if os.getpid() == self.pid:
            self.sdk.close()


def _resolved(sdk: Any, path: str) -> Any:
    names = path.split(".")
    if len(names) < 2 or any(name.startswith("_") or not name.isidentifier() for name in names):
        return None
    found = sdk
    for name in names:
        found = getattr(found, name, None)
        if found is None:
            return None
    return found if callable(found) and not isinstance(found, type) else None


class ClientSource:
    """Hands out a provider's SDK client."""

    def __init__(self, config: ProviderConfig) -> None:
        self._config = config
        self._current: SdkClient | None = None
        self._published: dict[tuple[int, str], SdkClient] = {}

    def take(self) -> SdkClient:
        """The client for the key as it stands now, entered; the taker must leave it."""
        while True:
            key = self._key()
            client = self._current
            if client is None or client.retired or client.key != key or client.pid != os.getpid():
                client = self._replaced(key)
            if client.enter():
                return client

    def close(self) -> None:
        """Retire the client: it closes with its last user. A later call would build another."""
        self._current = None
        self._retire_all_but(None)

    def _replaced(self, key: str) -> SdkClient:
        identity = (os.getpid(), key)
        client = self._published.get(identity)
        if client is None:
            built = build_client(self._config, key)
            # Of two builders that raced, the first to publish wins; the other's client was never used.
            client = self._published.setdefault(identity, built)
            if client is not built:
                built.retire()
        self._current = client
        self._retire_all_but(identity)
        return client

    def _retire_all_but(self, identity: tuple[int, str] | None) -> None:
        for other in list(self._published):
            if other != identity:
                old = self._published.pop(other, None)
                if old is not None:
                    old.retire()

    def _key(self) -> str:
        key = self._config.resolved_key()
        if key is None:
            config = self._config
            where = f"set {config.api_key_env}" if config.api_key_env else "give api_key or api_key_env"
            raise MissingApiKeyError(f"{named(config.name, config.provider_id)} has no API key; {where}")
        return key.get_secret_value()


def build_client(config: ProviderConfig, key: str) -> SdkClient:
    """A new SDK client over the limited transport, with the SDK's own retries off."""
    who = f"{named(config.name, config.provider_id)}, model {config.model},"
    known: dict[str, Any] = {
        "provider_id": config.provider_id,
        "provider_name": config.name,
        "model": config.model,
    }
    if not _fits_a_header(key):
        # Told here: the SDK and the HTTP library would only say that some header is wrong, and quote it.
        raise ProviderError(
            f"{who} cannot be asked: its key cannot be sent in a header; check its api_key or api_key_env",
            fault=Fault.AUTH,
            **known,
        )
    try:
        openai: Any = importlib.import_module("openai")
    except ImportError as error:
        raise ProviderSDKNotInstalledError(
            f'{who} needs the openai SDK: pip install "turnout[openai]"', original=error, **known
        ) from error
    url = config.base_url or os.environ.get("OPENAI_BASE_URL") or _OPENAI_URL
    here = Here()
    http, core = http_libraries(openai.DefaultHttpxClient)
    transport = EndTransport(http, core, here, url=url)
    sdk = openai.OpenAI(
        api_key=key,
        base_url=url,
        max_retries=0,
        http_client=openai.DefaultHttpxClient(transport=transport),
    )
    return SdkClient(key, sdk, here, openai.Stream)


def _fits_a_header(key: str) -> bool:
    """Whether a key is plain ASCII without control characters. A blank at its end would end the header's value."""
    return key.isascii() and key.isprintable() and not key.endswith(" ")
