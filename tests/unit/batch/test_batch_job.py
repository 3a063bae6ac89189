"""`run_batch`: every line once, few under way at a time, and an orderly end whatever happens."""

import json
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import pytest

from turnout import ConfigError, ProviderRouter
from turnout.batch import BatchCounts, Ending, LineEnd, run_batch
from turnout.testing import ScriptedAdapters

Line = Callable[..., bytes]
Routed = Callable[..., tuple[ProviderRouter, ScriptedAdapters]]
ANSWER = {"text": "hi"}
WAIT_SECONDS = 20


class Output(list[Any]):
    """Collects lines, parsed."""

    def write(self, line: bytes) -> None:
        assert line.endswith(b"\n")
        self.append(json.loads(line))

    def ids(self) -> list[Any]:
        return sorted(each["custom_id"] for each in self)


def test_every_line_gets_one_line(line: Line, routed: Routed) -> None:
    router, adapters = routed(ANSWER)
    out = Output()
    counts = run_batch(router, [line(f"{n}") for n in range(50)], out.write)
    assert counts == BatchCounts(answered=50)
    assert out.ids() == sorted(f"{n}" for n in range(50))
    assert {each["response"]["status_code"] for each in out} == {200}
    assert {call.arguments["model"] for call in adapters.calls} == {"m"}


def test_failures_and_bad_lines_are_written_and_the_rest_runs(line: Line, routed: Routed) -> None:
    def by_content(call: Any) -> Any:
        if call.arguments["messages"] == ["fail"]:
            raise ConnectionError("gone")
        return ANSWER

    router, _ = routed(by_content, health={"failure_threshold": 100})
    ends: list[LineEnd] = []
    out = Output()
    lines = [line("a"), b"rubbish\n", line("b", body={"messages": ["fail"]}), line("a"), line("c")]
    counts = run_batch(router, lines, out.write, on_line=ends.append)
    assert counts == BatchCounts(answered=2, failed=1, invalid=2)
    assert sorted((end.number, end.custom_id, end.ending) for end in ends) == [
        (1, "a", Ending.ANSWERED),
        (2, None, Ending.INVALID),
        (3, "b", Ending.FAILED),
        (4, None, Ending.INVALID),
        (5, "c", Ending.ANSWERED),
    ]
    by_id = {each["custom_id"]: each for each in out}
    assert by_id["b"]["error"] == {
        "code": "unknown",
        "message": 'no provider answered after 1 attempt:\n  1. P (id="p"): ConnectionError: gone',
    }
    problems = {end.number: end.problem for end in ends}
    assert problems[3] == "ConnectionError: gone"
    assert problems[4] == "custom_id: 'a' is that of line 1 already"


def test_an_answers_id_is_that_of_its_invocation(line: Line, routed: Routed) -> None:
    router, _ = routed(ANSWER)
    out = Output()
    run_batch(router, [line("a"), line("b")], out.write)
    assert len({each["id"] for each in out}) == 2
    # The version digit of a UUIDv7 stands where the ledger's invocation_id has it.
    assert all(each["id"].startswith("batch_req_") and each["id"][22] == "7" for each in out)


def test_lines_answered_before_are_skipped(line: Line, routed: Routed) -> None:
    router, adapters = routed(ANSWER)
    out = Output()
    ends: list[LineEnd] = []
    lines = [line("a"), line("b"), line("c")]
    counts = run_batch(router, lines, out.write, answered_before={"a", "c"}, on_line=ends.append)
    assert counts == BatchCounts(answered=1, skipped=2)
    assert out.ids() == ["b"]
    assert len(adapters.calls) == 1
    assert len(ends) == 3


def test_lines_are_read_only_as_far_as_there_are_places(line: Line, routed: Routed) -> None:
    go = threading.Event()
    arrived: SimpleQueue[None] = SimpleQueue()

    def wait(call: Any) -> Any:
        arrived.put(None)
        assert go.wait(WAIT_SECONDS)
        return ANSWER

    router, _ = routed(wait, pool={"max_workers": 2})
    read: list[int] = []
    out = Output()

    def lines() -> Iterator[bytes]:
        for number in range(100):
            read.append(number)
            if number == 5:
                # The sixth line is read while five hold the five places; it waits for one.
                arrived.get(timeout=WAIT_SECONDS)
                arrived.get(timeout=WAIT_SECONDS)
                assert len(read) == 6
                assert out == []
                go.set()
            yield line(f"{number}")

    assert run_batch(router, lines(), out.write, in_flight=5) == BatchCounts(answered=100)


def test_bad_lines_alone_need_no_more_than_their_places(routed: Routed) -> None:
    router, _ = routed(ANSWER)
    out = Output()
    assert run_batch(router, [b"x\n"] * 1000, out.write, in_flight=1) == BatchCounts(invalid=1000)
    assert len(out) == 1000


def test_an_interrupt_cancels_what_is_under_way_and_keeps_what_is_done(line: Line, routed: Routed) -> None:
    never = threading.Event()
    stuck: SimpleQueue[None] = SimpleQueue()

    def first_answers(call: Any) -> Any:
        if call.arguments["messages"] == ["quick"]:
            return ANSWER
        stuck.put(None)
        never.wait(WAIT_SECONDS)
        return ANSWER

    router, adapters = routed(first_answers, pool={"max_workers": 2})
    out = Output()
    written = threading.Event()

    def lines() -> Iterator[bytes]:
        yield line("quick", body={"messages": ["quick"]})
        for number in range(6):
            yield line(f"{number}")
        stuck.get(timeout=WAIT_SECONDS)
        stuck.get(timeout=WAIT_SECONDS)
        assert written.wait(WAIT_SECONDS)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_batch(router, lines(), out.write, on_line=lambda end: written.set())
    never.set()
    assert out.ids() == ["quick"]
    assert len(adapters.calls) == 3


def test_what_the_output_raises_ends_the_batch(line: Line, routed: Routed) -> None:
    router, _ = routed(ANSWER)
    written: list[bytes] = []

    def full(data: bytes) -> None:
        if len(written) == 3:
            raise OSError(28, "No space left on device")
        written.append(data)

    def endless() -> Iterator[bytes]:
        number = 0
        while True:
            number += 1
            yield line(f"{number}")

    with pytest.raises(OSError, match="No space left"):
        run_batch(router, endless(), full)
    assert len(written) == 3


def test_what_the_output_raises_at_the_last_line_is_raised_too(line: Line, routed: Routed) -> None:
    router, _ = routed(ANSWER)

    def broken(data: bytes) -> None:
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        run_batch(router, [line("a")], broken)


def test_what_the_input_raises_ends_the_batch_and_what_is_done_is_kept(line: Line, routed: Routed) -> None:
    router, _ = routed(ANSWER)
    out = Output()
    written = threading.Event()

    def lines() -> Iterator[bytes]:
        yield line("a")
        assert written.wait(WAIT_SECONDS)
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        run_batch(router, lines(), out.write, on_line=lambda end: written.set())
    assert out.ids() == ["a"]


def test_a_call_that_finds_no_place_at_the_routers_door_in_time_fails_alone(
    line: Line, routed: Routed
) -> None:
    go = threading.Event()

    def wait(call: Any) -> Any:
        assert go.wait(WAIT_SECONDS)
        return ANSWER

    router, _ = routed(wait, pool={"max_workers": 1, "max_queue": 1}, default_timeout_seconds=0.05)
    out = Output()

    def told(end: LineEnd) -> None:
        go.set()

    counts = run_batch(router, [line(f"{n}") for n in range(6)], out.write, on_line=told)
    assert counts.answered + counts.failed == 6
    assert counts.failed >= 1
    assert {each["error"]["code"] for each in out if each["error"]} == {"deadline_exceeded"}


@pytest.mark.parametrize("in_flight", [0, -1])
def test_a_batch_needs_a_place(routed: Routed, in_flight: int) -> None:
    router, _ = routed(ANSWER)
    with pytest.raises(ConfigError, match="in_flight must be at least 1"):
        run_batch(router, [], print, in_flight=in_flight)
