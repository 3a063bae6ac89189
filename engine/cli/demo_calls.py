"""The calls of the demonstration, made as a program of threads makes them."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Event
from time import monotonic
from typing import Any, Final

from turnout.calls import ApiProtocol, CallType, CallVariant, Report
from turnout.errors import told
from turnout.future import InvocationFuture
from turnout.router import ProviderRouter
from turnout.runtime.strand import Strand, begin
from turnout.streaming import RouterStream

CALLERS: Final = 8
_SUBJECTS: Final = ("a lighthouse", "a night train", "an old bridge", "a harbour in fog", "a field of snow")


@dataclass(frozen=True, slots=True)
class DemoCall:
    """One question, written for both protocols: whichever provider is next can take it."""

    number: int
    question: str
    streaming: bool

    def variants(self) -> tuple[CallVariant, CallVariant]:
        call_type = CallType.STREAMING if self.streaming else CallType.REGULAR
        chat: dict[str, Any] = {"messages": [{"role": "user", "content": self.question}]}
        responses: dict[str, Any] = {"input": self.question}
        if self.streaming:
            chat["stream"] = responses["stream"] = True
        return (
            CallVariant(ApiProtocol.OPENAI_CHAT, "chat.completions.create", call_type, chat),
            CallVariant(ApiProtocol.OPENAI_RESPONSES, "responses.create", call_type, responses),
        )


@dataclass(frozen=True, slots=True)
class CallEnd:
    """What became of a call. ``problem`` is empty where it got its whole answer. ``seconds`` run from the submit."""

    call: DemoCall
    report: Report
    restarts: int
    seconds: float
    problem: str = ""


def questions(count: int, rng: random.Random) -> Iterator[DemoCall]:
    """So many calls; about half of them are streams."""
    for number in range(1, count + 1):
        yield DemoCall(number, f"Question {number}: describe {rng.choice(_SUBJECTS)}.", rng.random() < 0.5)


class Callers:
    """Threads that each take the next call, submit it, wait for the answer, and read it to its end."""

    def __init__(self, router: ProviderRouter, calls: Iterator[DemoCall]) -> None:
        self._router = router
        self._stopping = Event()
        self._pending: dict[int, InvocationFuture] = {}
        # Both bounded by the number of calls, which the user has chosen.
        self._waiting: SimpleQueue[DemoCall] = SimpleQueue()
        self.ended: SimpleQueue[CallEnd] = SimpleQueue()
        for call in calls:
            self._waiting.put(call)
        self._threads = [
            Strand(f"turnout-demo-caller-{number}", self._run) for number in range(1, CALLERS + 1)
        ]

    def start(self) -> None:
        for thread in self._threads:
            begin(thread)

    def stop(self, timeout_seconds: float) -> None:
        """Begin no other call, give up those under way, and end the threads."""
        self._stopping.set()
        for future in list(self._pending.values()):
            future.cancel()
        until = monotonic() + timeout_seconds
        for thread in self._threads:
            if not thread.is_void():
                thread.ends_within(max(until - monotonic(), 0.0))

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                call = self._waiting.get_nowait()
            except Empty:
                return
            self._make(call)

    def _make(self, call: DemoCall) -> None:
        began = monotonic()
        reading = _Reading(self._stopping)
        future = self._router.submit(call.variants(), on_restart=lambda _: reading.start_over())
        self._pending[call.number] = future
        problem = ""
        try:
            reading.read(future.result())
        except Exception as error:
            problem = told(error)
        finally:
            self._pending.pop(call.number, None)
        if self._stopping.is_set():
            return
        report = future.report()
        problem = problem or _unlike(reading.text(), call, report)
        self.ended.put(CallEnd(call, report, reading.restarts, monotonic() - began, problem))


class _Reading:
    """An answer as it comes. When a stream breaks and is started over, what came before is thrown away."""

    def __init__(self, stopping: Event) -> None:
        self._stopping = stopping
        self._pieces: list[str] = []
        self.restarts = 0

    def start_over(self) -> None:
        self._pieces.clear()

    def text(self) -> str:
        return "".join(self._pieces)

    def read(self, answer: Any) -> None:
        if not isinstance(answer, RouterStream):
            self._pieces.append(_whole_text(answer))
            return
        with answer:
            for chunk in answer:
                self._pieces.append(_chunk_text(chunk))
                if self._stopping.is_set():
                    return
        self.restarts = answer.restarts


def _whole_text(answer: Any) -> str:
    """The text of a Chat completion or of a Response: the SDK's own objects."""
    choices = getattr(answer, "choices", None)
    return str(answer.output_text if choices is None else choices[0].message.content)


def _chunk_text(chunk: Any) -> str:
    """The text in a Chat chunk or a Responses event."""
    choices = getattr(chunk, "choices", None)
    if choices is None:
        return str(chunk.delta) if chunk.type == "response.output_text.delta" else ""
    return (choices[0].delta.content or "") if choices else ""


def _unlike(text: str, call: DemoCall, report: Report) -> str:
    """How an answer differs from the one its provider gives; nothing where it is whole."""
    answered_by = report.answered_by
    if answered_by is None:
        return "nobody answered"
    wanted = f"{answered_by.name}: {call.question}"
    return "" if text == wanted else f"{text!r} came instead of {wanted!r}"
