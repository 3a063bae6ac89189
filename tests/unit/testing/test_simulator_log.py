"""The request log, and waiting for it."""

import threading
from typing import Any

import openai
import pytest

from turnout.testing.simulator import (
    Answer,
    Cut,
    Ending,
    LoggedRequest,
    Silence,
    SimulatedProvider,
    Simulator,
    Status,
    key_mark,
)

ASK: Any = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
BODY = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
CHAT = "/a/v1/chat/completions"


def test_the_log_has_what_was_sent_and_how_it_ended(simulate: Any, connect: Any) -> None:
    sim = simulate()
    connect(sim).chat.completions.create(**ASK)
    (logged,) = sim.requests("a")

    assert (logged.number, logged.provider, logged.method, logged.path) == (1, "a", "POST", CHAT)
    assert logged.body == BODY
    assert logged.headers["content-type"] == "application/json"
    assert (logged.status, logged.outcome) == (200, Ending.ANSWERED)
    assert logged.closed_at is not None
    assert logged.closed_at >= logged.at


def test_the_log_shows_a_mark_for_a_key_and_never_the_key(simulate: Any, connect: Any) -> None:
    sim = simulate()
    connect(sim, api_key="sk-secret", default_headers={"api-key": "sk-other"}).chat.completions.create(**ASK)
    headers = sim.requests("a")[0].headers

    assert headers["authorization"] == f"Bearer {key_mark('sk-secret')}"
    assert headers["api-key"] == key_mark("sk-other")
    assert "sk-" not in str(dict(headers))
    assert "sha256" not in repr(sim.requests("a")[0])


def test_the_log_keeps_the_newest_requests(connect: Any) -> None:
    with Simulator([SimulatedProvider("a")], log_bound=3) as sim:
        client = connect(sim)
        for _ in range(5):
            client.chat.completions.create(**ASK)

        assert [request.number for request in sim.requests("a")] == [3, 4, 5]
        assert sim.total("a") == 5


def test_a_request_the_log_has_dropped_ends_quietly(connect: Any, bare: Any) -> None:
    with Simulator([SimulatedProvider("a", [Silence(), Answer()])], log_bound=1) as sim:
        silent = bare(sim)
        silent.send(BODY)
        sim.wait_for(lambda: sim.total("a") == 1)
        connect(sim).chat.completions.create(**ASK)
        silent.close()
        sim.wait_for(lambda: sim.connections() == 1)

        assert [request.outcome for request in sim.requests("a")] == [Ending.ANSWERED]


def test_whoever_has_an_answer_finds_it_logged(simulate: Any, connect: Any) -> None:
    sim = simulate([Answer(), Status(500), Answer(), Cut(1)])
    client = connect(sim)
    outcomes = []
    for stream in (False, False, True, True):
        try:
            answer = client.chat.completions.create(**ASK, stream=stream)
            if stream:
                list(answer)
        except Exception:
            assert stream or sim.total("a") == 2
        outcomes.append(sim.requests("a")[-1].outcome)

    assert outcomes == [Ending.ANSWERED, Ending.REFUSED, Ending.ANSWERED, Ending.CUT]


def test_a_listener_is_told_of_every_end(connect: Any) -> None:
    told: list[LoggedRequest] = []
    with Simulator([SimulatedProvider("a", [Answer(), Status(500)])], on_ended=told.append) as sim:
        client = connect(sim)
        client.chat.completions.create(**ASK)
        with pytest.raises(openai.InternalServerError):
            client.chat.completions.create(**ASK)

    assert [(request.number, request.outcome) for request in told] == [
        (1, Ending.ANSWERED),
        (2, Ending.REFUSED),
    ]


def test_wait_for_returns_what_the_predicate_said_or_times_out(simulate: Any) -> None:
    sim = simulate()

    assert sim.wait_for(lambda: "yes") == "yes"
    with pytest.raises(TimeoutError, match=r"not seen within 0.001 s; logged: \{'a': 0\}"):
        sim.wait_for(lambda: False, timeout_seconds=0.001)


def test_wait_for_is_woken_by_a_request(simulate: Any, connect: Any) -> None:
    sim = simulate()
    seen: list[Any] = []
    waiter = threading.Thread(target=lambda: seen.append(sim.wait_for(lambda: sim.requests("a"), 20)))
    waiter.start()
    connect(sim).chat.completions.create(**ASK)
    waiter.join(20)

    assert len(seen) == 1


@pytest.mark.parametrize(
    "ask", [Simulator.base_url, Simulator.requests, Simulator.total, Simulator.connections]
)
def test_asking_for_a_provider_that_is_not_there_says_which_are(simulate: Any, ask: Any) -> None:
    with pytest.raises(ValueError, match="no simulated provider 'b'; there are: a"):
        ask(simulate(), "b")
