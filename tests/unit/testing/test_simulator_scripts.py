"""Scripts: which behaviour the n-th call gets."""

from collections import Counter
from typing import Any

import openai
import pytest

from turnout.testing.simulator import (
    Answer,
    Behaviour,
    Computed,
    Cycle,
    SimulatedProvider,
    Simulator,
    Status,
    Steps,
    Weighted,
    first,
    flapping,
)

ASK: Any = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
GOOD, BAD = Answer(), Status(500)


def statuses(client: openai.OpenAI, count: int) -> list[int]:
    """The HTTP statuses of so many calls."""
    seen = []
    for _ in range(count):
        try:
            client.chat.completions.create(**ASK)
            seen.append(200)
        except openai.APIStatusError as error:
            seen.append(error.status_code)
    return seen


def test_steps_go_on_with_the_last_or_with_what_comes_then() -> None:
    assert [Steps((BAD, GOOD)).at(n) for n in range(4)] == [BAD, GOOD, GOOD, GOOD]
    assert [Steps((BAD,), then=GOOD).at(n) for n in range(3)] == [BAD, GOOD, GOOD]
    assert [first(BAD, BAD).at(n) for n in range(3)] == [BAD, BAD, Answer()]
    assert first(then=BAD).at(0) == BAD


def test_a_cycle_begins_again() -> None:
    assert [Cycle((GOOD, BAD)).at(n) for n in range(5)] == [GOOD, BAD, GOOD, BAD, GOOD]
    assert [flapping(2, 1, BAD).at(n) for n in range(6)] == [GOOD, GOOD, BAD, GOOD, GOOD, BAD]


def test_a_weighted_draw_can_be_repeated_and_follows_its_weights() -> None:
    script = Weighted(((GOOD, 3.0), (BAD, 1.0), (Status(429), 0.0)), seed=7)
    drawn = [script.at(n) for n in range(400)]

    assert drawn == [script.at(n) for n in range(400)]
    assert drawn != [Weighted(script.choices, seed=8).at(n) for n in range(400)]
    counts = Counter("good" if behaviour == GOOD else "bad" for behaviour in drawn)
    assert 250 < counts["good"] < 350
    assert Status(429) not in drawn


@pytest.mark.parametrize(
    "make",
    [
        lambda: Steps(()),
        lambda: Cycle(()),
        lambda: Weighted(()),
        lambda: Weighted(((GOOD, 0.0),)),
        lambda: Weighted(((GOOD, -1.0), (BAD, 2.0))),
    ],
)
def test_a_script_that_can_say_nothing_is_refused(make: Any) -> None:
    with pytest.raises(ValueError, match=r"script|cycle"):
        make()


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (BAD, [500, 500, 500]),
        ([BAD, GOOD], [500, 200, 200]),
        (Cycle((GOOD, BAD)), [200, 500, 200]),
        (lambda n: Status(400 + n), [400, 401, 402]),
        (Computed(lambda n: GOOD if n else BAD), [500, 200, 200]),
    ],
)
def test_calls_follow_any_form_of_script(
    simulate: Any, connect: Any, script: Any, expected: list[int]
) -> None:
    assert statuses(connect(simulate(script)), 3) == expected


def test_each_provider_counts_its_own_calls(connect: Any) -> None:
    with Simulator([SimulatedProvider("a", [BAD, GOOD]), SimulatedProvider("b", [BAD, GOOD])]) as sim:
        assert statuses(connect(sim, "a"), 2) == [500, 200]
        assert statuses(connect(sim, "b"), 2) == [500, 200]


def test_a_new_script_begins_at_its_first_behaviour(simulate: Any, connect: Any) -> None:
    sim = simulate([BAD, Status(429)])
    client = connect(sim)
    before = statuses(client, 2)
    sim.script("a", [Status(404), GOOD])

    assert before + statuses(client, 3) == [500, 429, 404, 200, 200]


def test_the_log_says_what_the_script_said(simulate: Any, connect: Any) -> None:
    sim = simulate([BAD, GOOD])
    statuses(connect(sim), 2)

    logged: list[Behaviour | None] = [request.behaviour for request in sim.requests("a")]
    assert logged == [BAD, GOOD]


def test_a_script_that_raises_is_an_error_that_says_so(simulate: Any, connect: Any) -> None:
    def broken(n: int) -> Behaviour:
        raise LookupError("nothing left")

    with pytest.raises(openai.InternalServerError, match="LookupError: nothing left"):
        connect(simulate(broken)).chat.completions.create(**ASK)


def test_a_refused_request_uses_up_no_behaviour(simulate: Any, connect: Any) -> None:
    sim = simulate([BAD, GOOD], require_key="right")
    with pytest.raises(openai.AuthenticationError):
        connect(sim, api_key="wrong").chat.completions.create(**ASK)

    assert statuses(connect(sim, api_key="right"), 2) == [500, 200]
