"""Of two at random the less loaded one: what leads, what follows, and what makes somebody costly."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.attempts import attempt, has, identities, ids
from turnout import (
    CallType,
    ConfigError,
    Fault,
    LeastLoadedPolicy,
    Outcome,
    RoutingContext,
    StickyRoutingPolicy,
)
from turnout.decisions.load import drawn
from turnout.policies.bounds import is_built_in
from turnout.policies.least_loaded import LeastLoaded
from turnout.policies.wiring import ReadsClock, ReadsLoad
from turnout.testing import ManualClock

REGULAR, STREAMING = RoutingContext(CallType.REGULAR), RoutingContext(CallType.STREAMING)
NAMES = "abcdefgh"
COSTS = st.dictionaries(st.sampled_from(NAMES), st.floats(0.0, 100.0))
LOADS = st.fixed_dictionaries({name: st.integers(0, 20) for name in NAMES})


def planned(ranking: Any, eligible: str, ticket: int, context: RoutingContext = REGULAR) -> str:
    return ids(ranking.plan(identities(eligible), context, ticket))


@given(st.permutations(NAMES), st.integers(1, len(NAMES)), COSTS, LOADS, st.integers(0, 2**40))
def test_the_cheaper_of_the_two_drawn_leads_and_everybody_else_stands_by(
    names: list[str], many: int, costs: dict[str, float], loads: dict[str, int], ticket: int
) -> None:
    eligible = "".join(names[:many])
    plan = planned(LeastLoaded(loads.__getitem__, costs, {}), eligible, ticket)

    assert sorted(plan) == sorted(eligible)
    if many > 1:
        assert set(plan[:2]) == {eligible[place] for place in drawn(ticket, many)}
        leads, follows = ((loads[name] + 1) * costs.get(name, 0.0) for name in plan[:2])
        assert leads <= follows
    # The others in turn: those from the ticket's place on, then those before it.
    first = ticket % many
    turned = eligible[first:] + eligible[:first]
    assert plan[2:] == "".join(name for name in turned if name not in plan[:2])


def started(clock: ManualClock, decay_seconds: float = 10.0, **load: int) -> Any:
    policy: Any = LeastLoadedPolicy(decay_seconds)
    policy.bind_clock(clock)
    policy.bind_load(lambda name: load.get(name, 0))
    policy.ranking(identities("ab"))
    return policy


def leader(ranking: Any, context: RoutingContext = REGULAR) -> str:
    """Who leads of a and b, whatever the draw."""
    leaders = {planned(ranking, "ab", ticket, context)[0] for ticket in range(20)}
    return leaders.pop() if len(leaders) == 1 else "either"


def told_of(policy: Any, clock: ManualClock, name: str, latency: float, **settings: Any) -> Any:
    return policy.observe([attempt(name, latency, began=clock.wall(), **settings)])


def test_nobody_is_preferred_before_anything_is_known(clock: ManualClock) -> None:
    assert leader(started(clock).ranking(identities("ab"))) == "either"


def test_what_is_in_flight_decides_between_two_of_whom_nothing_is_known(clock: ManualClock) -> None:
    assert leader(started(clock, a=2, b=1).ranking(identities("ab"))) == "b"


def test_who_was_never_heard_of_is_tried_first(clock: ManualClock) -> None:
    assert leader(told_of(started(clock, b=9), clock, "a", 0.001)) == "b"


def test_between_equals_what_is_in_flight_decides(clock: ManualClock) -> None:
    policy = started(clock, a=3)
    told_of(policy, clock, "a", 0.25)
    assert leader(told_of(policy, clock, "b", 1.0)) == "b"


@pytest.mark.parametrize(("in_flight", "leads"), [(1, "a"), (2, "a"), (4, "b")])
def test_each_attempt_in_flight_costs_a_latency(clock: ManualClock, in_flight: int, leads: str) -> None:
    policy = started(clock, a=in_flight)
    told_of(policy, clock, "a", 0.25)
    assert leader(told_of(policy, clock, "b", 1.0)) == leads


def test_a_slow_answer_costs_at_once_and_is_forgotten_in_time(clock: ManualClock) -> None:
    policy = started(clock)
    told_of(policy, clock, "a", 1.0)
    told_of(policy, clock, "b", 1.1)
    assert leader(told_of(policy, clock, "a", 20.0)) == "b"
    # Until it was not heard of for as long as its share of the cost has sunk below that of the other.
    for _ in range(28):
        clock.advance(1.0)
        ranking = told_of(policy, clock, "b", 1.1)
    assert leader(ranking) == "b"
    for _ in range(2):
        clock.advance(1.0)
        ranking = told_of(policy, clock, "b", 1.1)
    assert leader(ranking) == "a"


def test_a_failure_never_makes_its_provider_cheaper(clock: ManualClock) -> None:
    policy = started(clock)
    told_of(policy, clock, "a", 1.0)
    told_of(policy, clock, "b", 0.9)
    assert told_of(policy, clock, "a", 0.001, fault=Fault.CONNECTION) is None
    assert leader(told_of(policy, clock, "b", 30.0, fault=Fault.TIMEOUT)) == "a"


def test_what_was_nobodys_answer_says_nothing(clock: ManualClock) -> None:
    policy = started(clock)
    assert told_of(policy, clock, "a", 99.0, outcome=Outcome.IGNORED) is None


def test_streams_are_measured_by_themselves_and_to_their_first_chunk(clock: ManualClock) -> None:
    policy = started(clock)
    told_of(policy, clock, "a", 5.0)
    told_of(policy, clock, "b", 1.0)
    told_of(policy, clock, "a", 0.1, streaming=True)
    ranking = told_of(policy, clock, "b", 0.2, streaming=True)
    assert (leader(ranking), leader(ranking, STREAMING)) == ("b", "a")


def test_what_was_published_never_changes(clock: ManualClock) -> None:
    policy = started(clock)
    told_of(policy, clock, "a", 1.0)
    before = told_of(policy, clock, "b", 2.0)
    told_of(policy, clock, "a", 9.0)
    assert leader(before) == "a"


def test_costs_compare_alike_over_any_time(clock: ManualClock) -> None:
    policy = started(clock, decay_seconds=0.1)
    told_of(policy, clock, "a", 1.0)
    ranking = told_of(policy, clock, "b", 2.0)
    for _ in range(50):
        # Days of a tenth of a second.
        clock.advance(40_000.0)
        told_of(policy, clock, "b", 1.0)
        ranking = told_of(policy, clock, "a", 2.0)
        assert leader(ranking) == "b"


def test_a_few_slow_ones_in_a_large_fleet_are_left_alone(clock: ManualClock) -> None:
    policy = started(clock)
    for name in NAMES:
        ranking = told_of(policy, clock, name, 10.0 if name in "ab" else 0.1)
    leads = "".join(planned(ranking, NAMES, ticket)[0] for ticket in range(5000))
    # Drawn together, and that alone: 2 of 56 pairs.
    assert 0.02 < sum(map(leads.count, "ab")) / 5000 < 0.055
    # The others alike.
    assert all(0.13 < leads.count(name) / 5000 < 0.19 for name in "cdefgh")


def test_it_orders_the_rest_behind_a_fixed_preference(clock: ManualClock) -> None:
    policy: Any = StickyRoutingPolicy(["c"], LeastLoadedPolicy())
    assert has(policy, ReadsLoad)
    assert has(policy, ReadsClock)
    assert is_built_in(policy)
    policy.bind_clock(clock)
    policy.bind_load({"a": 1, "b": 0}.__getitem__)
    ranking = policy.ranking(identities("abc"))
    assert {planned(ranking, "abc", ticket) for ticket in range(20)} == {"cba"}


def test_without_a_load_latencies_decide(clock: ManualClock) -> None:
    policy: Any = LeastLoadedPolicy(clock=clock)
    policy.ranking(identities("ab"))
    told_of(policy, clock, "a", 0.2)
    assert leader(told_of(policy, clock, "b", 0.1)) == "b"


@pytest.mark.parametrize("wrong", [0, -1.0, True, "10", float("nan")])
def test_a_decay_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="decay_seconds must be a number above 0"):
        LeastLoadedPolicy(wrong)
