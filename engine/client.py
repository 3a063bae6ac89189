"""The shape of ``openai.OpenAI``, for code that was written for it."""

from collections.abc import Callable
from typing import Any

from turnout.calls import ApiProtocol, CallType, CallVariant

Invoke = Callable[[CallVariant], Any]


class Shape:
    """A part of that client. What it has not is told with what there is instead."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        # Copying, pickling and the like ask for names of their own, before there is a path.
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(
            f"{self._path}.{name} is not there: a router's client has chat.completions.create and "
            "responses.create. Give other operations of the SDK as a CallVariant to router.invoke(), a time as its "
            "timeout=, and keys, addresses and headers to each ProviderConfig",
            name=name,
            obj=self,
        )


class RoutedClient(Shape):
    """``client.chat.completions.create(...)`` and ``client.responses.create(...)``, with a router behind them.

    The arguments are the SDK's own; ``model`` may be given, as the SDK demands it, and is replaced by that of the
    provider that answers. With ``stream=True`` a ``RouterStream`` of the SDK's chunks comes back; it is started over
    only while nothing of its content was handed out, so code that knows nothing of restarts never joins two answers.
    """

    def __init__(self, invoke: Invoke) -> None:
        super().__init__("client")
        self.chat = Chat(invoke)
        self.responses = Endpoint(invoke, ApiProtocol.OPENAI_RESPONSES, "responses.create")


class Chat(Shape):
    def __init__(self, invoke: Invoke) -> None:
        super().__init__("client.chat")
        self.completions = Endpoint(invoke, ApiProtocol.OPENAI_CHAT, "chat.completions.create")


class Endpoint(Shape):
    """One operation of one protocol."""

    def __init__(self, invoke: Invoke, protocol: ApiProtocol, operation: str) -> None:
        super().__init__(f"client.{operation.removesuffix('.create')}")
        self._invoke = invoke
        self._protocol = protocol
        self._operation = operation

    def create(self, **arguments: Any) -> Any:
        """The SDK's own answer, or a stream of its chunks."""
        arguments.pop("model", None)
        call_type = CallType.STREAMING if arguments.get("stream") else CallType.REGULAR
        return self._invoke(CallVariant(self._protocol, self._operation, call_type, arguments))
