"""The SDK's models, built before they are needed.

It builds them while it reads the first answer: up to some seconds of pure computing, which the provider of that answer
would be charged for.
"""

import functools
import importlib
import json
from contextlib import suppress
from typing import Any, Final

from loguru import logger

from turnout.adapters.transport import http_libraries
from turnout.calls import ApiProtocol

_MESSAGE: Final = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ""}]}
#: An answer in which every kind of field is used that most answers use.
_RESPONSE: Final[dict[str, Any]] = {
    "id": "r",
    "object": "response",
    "status": "completed",
    "output": [_MESSAGE, {"type": "reasoning", "summary": []}, {"type": "function_call", "name": "f"}],
    "tools": [{"type": "function", "name": "f"}],
    "tool_choice": "auto",
    "text": {"format": {"type": "text"}},
    "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
}
_CHAT: Final[dict[str, Any]] = {
    "id": "c",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": ""}}],
}
_CHUNK: Final[dict[str, Any]] = {
    "id": "c",
    "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}],
}


@functools.cache
def build_models(protocol: ApiProtocol) -> None:
    """Import what calls of ``protocol`` need and have the SDK read one answer of each kind, once per process.

    Never raises: what is not installed is told of by the call that needs it, and what fails here may do so there.
    """
    try:
        with suppress(ImportError):
            _read_answers(protocol)
    except Exception as error:
        logger.debug("the openai SDK's models for {} were not built ahead: {!r}", protocol, error)


def _read_answers(protocol: ApiProtocol) -> None:
    openai: Any = importlib.import_module("openai")
    http, _ = http_libraries(openai.DefaultHttpxClient)
    match protocol:
        case ApiProtocol.OPENAI_CHAT:
            types = importlib.import_module("openai.types.chat")
            whole, event, answer, piece = types.ChatCompletion, types.ChatCompletionChunk, _CHAT, _CHUNK
        case ApiProtocol.OPENAI_RESPONSES:
            types = importlib.import_module("openai.types.responses")
            whole, event, answer = types.Response, types.ResponseStreamEvent, _RESPONSE
            piece = {"type": "response.created", "response": _RESPONSE, "sequence_number": 0}

    class Canned(openai.DefaultHttpxClient):  # type: ignore[misc]
        """Answers instead of sending: no connection, and no line in anybody's log of requests."""

        def send(self, request: Any, *, stream: bool = False, **_: Any) -> Any:
            told = f"data: {json.dumps(piece)}\n\ndata: [DONE]\n\n" if stream else json.dumps(answer)
            kind = "text/event-stream" if stream else "application/json"
            return http.Response(200, request=request, headers={"content-type": kind}, text=told)

    # With a transport of its own it looks for no proxies and no certificates.
    http_client = Canned(transport=http.MockTransport(lambda request: None))
    with openai.OpenAI(
        api_key="none", base_url="http://localhost/v1", max_retries=0, http_client=http_client
    ) as client:
        # Imported when they are looked up.
        _ = client.chat.completions if protocol is ApiProtocol.OPENAI_CHAT else client.responses
        # The other way round it takes thrice as long.
        client.post("/canned", cast_to=whole, body={})
        for _ in client.post("/canned", cast_to=whole, body={}, stream=True, stream_cls=openai.Stream[event]):
            pass
