"""OpenAI Responses: ``responses.create``, whole and streamed."""

from typing import Any

from loguru import logger

from turnout.adapters.openai_call import OpenAIAdapter
from turnout.adapters.openai_stream import WatchedStream
from turnout.adapters.openai_words import field
from turnout.config import ProviderConfig
from turnout.errors import ProviderResponsesError, named

_FAILURES = frozenset({"response.failed", "error"})
_ENDS = frozenset({"response.completed", "response.incomplete"})
#: A tuple: where a server writes no word, it need not be hashable.
_SERVED = ("completed", "queued", "in_progress", "cancelled")
#: Events that announce, or keep the connection alive, and say nothing yet.
_PRELUDE = frozenset(
    {
        "response.created",
        "response.queued",
        "response.in_progress",
        "response.heartbeat",
        "response.keepalive",
        "response.ping",
    }
)


class ResponsesStream(WatchedStream):
    """Typed events. The answer is whole with ``response.completed`` or ``response.incomplete``."""

    _done = False

    @property
    def _marked(self) -> bool:
        return self._done

    def _note(self, event: Any) -> bool:
        kind = getattr(event, "type", None)
        if not isinstance(kind, str):
            self._refuse_error(event)
            return self._strange_chunk(event)
        if not kind.startswith("response.") and getattr(event, "object", None) == "error":
            # Its type is then the error's own.
            self._refuse_error(event)
        self._readable = True
        if kind in _ENDS or kind in _FAILURES:
            self._end_with(kind, event)
            return False
        if kind.endswith(".delta"):
            # A delta of a kind that has no such field is taken at its word.
            return bool(getattr(event, "delta", True))
        # What is not of the response is none of the model's words: ping, keepalive, a server's own remarks.
        return kind.startswith("response.") and kind not in _PRELUDE and not kind.endswith(".added")

    def _end_with(self, kind: str, event: Any) -> None:
        # Not asked of every event: a field that is not there is what costs most.
        response = getattr(event, "response", None)
        self._usage = getattr(response, "usage", None)
        if kind in _FAILURES:
            raise self._seam.failed(event, response)
        # It holds the whole answer, but nothing is gained by waiting for more.
        self._done = self._content = True
        if kind == "response.incomplete":
            warn_incomplete(self._seam.config, response)


class OpenAIResponsesAdapter(OpenAIAdapter):
    """Calls ``responses.create``; everything else about responses belongs to the account that made them."""

    stream_class = ResponsesStream
    known_operation = "responses.create"
    declared_as = ProviderResponsesError

    def _refusal(self, operation: str) -> str | None:
        return (
            None
            if operation == self.known_operation
            else "of the Responses API only responses.create is routed"
        )

    def _judge(self, answer: Any, operation: str) -> None:
        status = getattr(answer, "status", None)
        if status in _SERVED:
            return
        if isinstance(answer, str):
            raise self._seam.unreadable()
        if status == "failed":
            raise self._seam.failed(None, answer)
        if status == "incomplete":
            warn_incomplete(self._config, answer)
            return
        self._refuse_error(answer)
        if not isinstance(getattr(answer, "output", None), list):
            raise self._seam.no_answer()


def warn_incomplete(config: ProviderConfig, response: Any) -> None:
    """An answer that the provider itself left unfinished is served, and told of once."""
    logger.warning(
        "{}, model {}: response {} is incomplete: {}",
        named(config.name, config.provider_id),
        config.model,
        field(response, "id"),
        field(field(response, "incomplete_details"), "reason") or "no reason given",
    )
