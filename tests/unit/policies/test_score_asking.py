"""Orders by a store that is asked each time."""

from datetime import timedelta
from typing import Any

import pytest

from tests.attempts import Kept, attempt, has, identities, ids
from turnout import (
    CallType,
    ConfigError,
    Fault,
    LeastLoadedPolicy,
    OrderingPolicy,
    PreferencePolicy,
    RoutingContext,
    ScoreBasedPolicy,
    StickyRoutingPolicy,
    StorageError,
)
from turnout.calls import EPOCH
from turnout.testing import ManualClock

REGULAR, STREAMING = RoutingContext(CallType.REGULAR), RoutingContext(CallType.STREAMING)


class Repeats:
    """An ordering of the user's own, with an omission, a repetition and a stranger."""

    def order(self, eligible: Any, context: Any) -> Any:
        return identities("bzcb")


def asking(clock: ManualClock, history: Kept | None, tie_break: Any = None, **settings: Any) -> Any:
    policy: Any = ScoreBasedPolicy(ask_store_each_time=True, tie_break_policy=tie_break, **settings)
    policy.bind_clock(clock)
    policy.bind(history)
    return policy


def order(policy: Any, eligible: str = "abc", context: RoutingContext = REGULAR) -> str:
    return ids(policy.order(identities(eligible), context))


def test_each_order_is_made_from_what_the_store_knows_by_then(clock: ManualClock) -> None:
    history = Kept()
    policy = asking(clock, history, PreferencePolicy())
    assert has(policy, OrderingPolicy)
    assert not policy.learns
    assert order(policy) == "abc"
    history.record(
        attempt("c", 0.01, began=clock.wall()), attempt("a", fault=Fault.TIMEOUT, began=clock.wall())
    )
    assert order(policy) == "cba"
    assert order(policy, context=STREAMING) == "abc"
    # One question a time.
    assert len(history.asked) == 3


def test_equals_take_turns(clock: ManualClock) -> None:
    policy = asking(clock, Kept())
    assert [order(policy) for _ in range(4)] == ["abc", "bca", "cab", "abc"]


def test_one_question_is_about_the_distinct_eligible_ones_as_of_one_instant(clock: ManualClock) -> None:
    history = Kept("mine")
    policy = asking(clock, history, Repeats(), half_life_hours=1.0)
    assert order(policy) == "bcb"
    (question,) = history.asked
    assert [one.provider_id for one in question.partitions] == ["b", "c"]
    assert question.reference == EPOCH + timedelta(seconds=clock.wall())
    assert question.since == question.reference - timedelta(hours=6)
    assert (question.metrics_scope, question.half_life_hours) == ("mine", 1.0)


def test_every_occurrence_of_a_repeated_one_is_placed_by_its_score(clock: ManualClock) -> None:
    history = Kept()
    history.record(attempt("c", 0.01, began=clock.wall()))
    assert order(asking(clock, history, Repeats())) == "cbb"


@pytest.mark.parametrize("error", [StorageError("gone away"), OSError("broken")])
def test_where_the_store_cannot_say_anything_the_order_is_the_tie_breaks(
    clock: ManualClock, told: Any, error: Exception
) -> None:
    history = Kept()
    history.record(attempt("c", 0.01, began=clock.wall()))
    policy = asking(clock, history)
    history.down = error
    assert [order(policy) for _ in range(3)] == ["abc", "bca", "cab"]
    history.down = None
    assert order(policy) == "cab"
    assert told.levels == ["WARNING", "DEBUG", "DEBUG", "INFO"]


def test_without_a_ledger_or_anybody_to_order_nothing_is_asked(clock: ManualClock) -> None:
    assert order(asking(clock, None), "ab") == "ab"
    history = Kept()
    assert order(asking(clock, history, Repeats()), "a") == ""
    assert history.asked == []


def test_it_neither_learns_nor_refreshes(clock: ManualClock) -> None:
    policy = asking(clock, Kept())
    policy.ranking(identities("abc"))
    assert policy.questions() == ()
    assert policy.observe([attempt("a", began=clock.wall())]) is None
    assert policy.answered([]) is policy.aged() is policy.unanswered("why") is None


def test_a_tie_break_that_knows_its_providers_is_told_all_of_them(clock: ManualClock) -> None:
    policy = asking(clock, Kept(), StickyRoutingPolicy(["c"]))
    policy.ranking(identities("abc"))
    assert order(policy, "ab") == "ab"
    assert order(policy, "abc") == "cba"


def test_one_around_it_asks_it_for_the_rest(clock: ManualClock) -> None:
    history = Kept()
    history.record(attempt("c", 0.01, began=clock.wall()))
    policy: Any = StickyRoutingPolicy(["a"], ScoreBasedPolicy(ask_store_each_time=True))
    policy.bind_clock(clock)
    policy.bind(history)
    policy.ranking(identities("abc"))
    assert order(policy) == "acb"
    assert [one.provider_id for one in history.asked[0].partitions] == ["b", "c"]


def test_a_tie_break_that_learns_is_refused_where_nobody_tells_it_anything() -> None:
    with pytest.raises(ConfigError, match="LeastLoadedPolicy learns from attempts, of which nobody is told"):
        ScoreBasedPolicy(ask_store_each_time=True, tie_break_policy=LeastLoadedPolicy())
