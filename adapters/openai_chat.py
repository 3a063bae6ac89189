"""OpenAI Chat Completions, and whatever else the SDK's client can do with a model."""

from typing import Any, Final

from turnout.adapters.openai_call import OpenAIAdapter
from turnout.adapters.openai_stream import WatchedStream
from turnout.adapters.openai_words import field

#: The finish reason with which some relays say that the provider behind them failed.
_FAILED: Final = "error"


class ChatStream(WatchedStream):
    """Chat chunks. The answer is whole once as many choices as were asked for, and all that appeared, have a finish
    reason. One that says more after its own is open again: servers with tools of their own finish more than once."""

    def __init__(self, *known: Any, **named: Any) -> None:
        super().__init__(*known, **named)
        self._unfinished: set[int] = set()
        #: Whoever ever had a finish reason.
        self._finished: set[int] = set()

    @property
    def _marked(self) -> bool:
        return len(self._finished) >= self._asked and not self._unfinished

    @property
    def _closed_off(self) -> bool:
        # Some servers know no ``n``, and some write remarks after the finish as if they were content.
        return bool(self._finished) and self._unfinished <= self._finished

    def _note(self, chunk: Any) -> bool:
        usage = getattr(chunk, "usage", None)
        if usage is not None:
            self._usage = usage
        choices = getattr(chunk, "choices", None)
        if not choices and usage is None:
            self._refuse_error(chunk)
        if not isinstance(choices, list):
            # Of a known shape it is a remark; the events of pictures and transcripts have usage and no choices, too.
            named = getattr(chunk, "model_fields_set", ())
            remark = self._known and (usage is not None or "choices" in named)
            return not remark and self._strange_chunk(chunk)
        self._readable = True
        says = False
        for choice in choices:
            index = getattr(choice, "index", 0)
            speaks = _holds_content(choice)
            if finish := getattr(choice, "finish_reason", None):
                if finish == _FAILED:
                    raise self._seam.declared(_failure_in(choice))
                self._finished.add(index)
                self._unfinished.discard(index)
            elif speaks or index not in self._finished:
                self._unfinished.add(index)
            says = says or speaks
        return says


class OpenAIChatAdapter(OpenAIAdapter):
    """Calls ``chat.completions.create`` and other public operations of the SDK's client."""

    stream_class = ChatStream
    known_operation = "chat.completions.create"

    def _refusal(self, operation: str) -> str | None:
        return None

    def _judge(self, answer: Any, operation: str) -> None:
        choices = getattr(answer, "choices", None)
        listed = isinstance(choices, list)
        if choices and listed:
            for choice in choices:
                if getattr(choice, "finish_reason", None) == _FAILED:
                    raise self._seam.declared(_failure_in(choice))
            return
        if not operation.startswith("chat.completions."):
            return
        if isinstance(answer, str):
            raise self._seam.unreadable()
        self._refuse_error(answer)
        if operation == self.known_operation and not listed:
            raise self._seam.no_answer()


def _failure_in(choice: Any) -> object:
    """What a choice that ended in a failure says of it; not all say more."""
    return field(choice, "error") or {
        "type": "server_error",
        "message": "the answer ended with finish_reason error",
    }


def _holds_content(choice: Any) -> bool:
    """Whether a choice's piece says anything but whose turn it is."""
    if getattr(choice, "text", None):
        return True
    delta = getattr(choice, "delta", None)
    if delta is None:
        return False
    if getattr(delta, "content", None):
        return True
    known = getattr(delta, "__dict__", None) or {}
    extra = getattr(delta, "model_extra", None) or {}
    return any(value for name, value in (*known.items(), *extra.items()) if name != "role")
