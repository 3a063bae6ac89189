"""Orders by score: learnt at once, equals in turn, corrected by what a store knows, and sound without one."""

import gc
from datetime import UTC, datetime, timedelta
from typing import Any
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.attempts import SCOPE, Kept, attempt, has, identities, ids, refresh
from turnout import (
    CallType,
    ConfigError,
    Fault,
    HistoryScope,
    LeastLoadedPolicy,
    OrderingPolicy,
    Outcome,
    PreferencePolicy,
    RoundRobinPolicy,
    RoutingContext,
    ScoreBasedPolicy,
    ScoreWeights,
    StickyRoutingPolicy,
    StorageError,
    aggregate_stats,
    calculate_provider_score,
)
from turnout.calls import EPOCH
from turnout.policies.bounds import is_built_in
from turnout.policies.contract import ReadsHistory
from turnout.policies.wiring import ReadsClock, ReadsLoad
from turnout.storage.attempts import AttemptRows
from turnout.testing import ManualClock

REGULAR, STREAMING = RoutingContext(CallType.REGULAR), RoutingContext(CallType.STREAMING)
ABC = identities("abc")
HOUR = 3600.0


def started(policy: Any, clock: ManualClock, history: Kept | None = None, providers: str = "abc") -> Any:
    """As an engine starts a policy; its first ranking."""
    policy.bind_clock(clock)
    policy.bind(history)
    return policy.ranking(identities(providers))


def order(ranking: Any, context: RoutingContext = REGULAR, ticket: int = 0) -> str:
    return ids(ranking.plan(ABC, context, ticket))


def test_equals_take_turns(clock: ManualClock) -> None:
    ranking = started(ScoreBasedPolicy(), clock)
    assert [order(ranking, ticket=ticket) for ticket in range(4)] == ["abc", "bca", "cab", "abc"]


def test_each_attempt_counts_at_once_and_for_its_call_type_alone(clock: ManualClock) -> None:
    policy = ScoreBasedPolicy(tie_break_policy=PreferencePolicy())
    started(policy, clock)
    now = clock.wall()
    ranking = policy.observe(
        [
            attempt("b", 0.001, began=now),
            attempt("a", fault=Fault.SERVER_ERROR, began=now),
            attempt("c", 0.001, began=now, streaming=True),
        ]
    )
    assert (order(ranking), order(ranking, STREAMING)) == ("bca", "cab")


def test_a_streams_speed_is_the_time_to_its_first_chunk(clock: ManualClock) -> None:
    policy = ScoreBasedPolicy()
    started(policy, clock)
    # Both last half a minute.
    ranking = policy.observe(
        [
            attempt("a", 2.0, began=clock.wall(), streaming=True),
            attempt("b", 0.1, began=clock.wall(), streaming=True),
        ]
    )
    assert order(ranking, STREAMING) == "bca"


def test_what_was_published_never_changes(clock: ManualClock) -> None:
    policy = ScoreBasedPolicy(tie_break_policy=PreferencePolicy())
    first = started(policy, clock)
    second = policy.observe([attempt("a", fault=Fault.TIMEOUT, began=clock.wall())])
    third = policy.observe([attempt("b", fault=Fault.TIMEOUT, began=clock.wall())])
    assert [order(ranking) for ranking in (first, second, third)] == ["abc", "bca", "cab"]


def test_what_was_nobodys_success_or_failure_teaches_nothing(clock: ManualClock) -> None:
    policy = ScoreBasedPolicy()
    started(policy, clock)
    ignored = attempt("a", began=clock.wall(), outcome=Outcome.IGNORED, fault=Fault.CANCELLED)
    assert policy.observe([ignored, attempt("z", began=clock.wall())]) is None


def test_a_degraded_answer_is_a_success_and_an_invalid_one_is_none(clock: ManualClock) -> None:
    policy = ScoreBasedPolicy()
    started(policy, clock)
    ranking = policy.observe(
        [
            attempt("a", 0.1, began=clock.wall(), outcome=Outcome.INVALID, fault=Fault.INVALID_RESULT),
            attempt("c", 0.1, began=clock.wall(), outcome=Outcome.DEGRADED),
        ]
    )
    assert order(ranking) == "cba"


ATTEMPTS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.floats(0.0, 60.0),
        st.sampled_from([None, None, Fault.TIMEOUT, Fault.RATE_LIMIT]),
        st.booleans(),
        # Within a bucket of the lookback.
        st.floats(0.0, 2 * HOUR),
    ),
    max_size=30,
)


@given(ATTEMPTS, st.none() | st.floats(1.0, 1000.0), st.integers(0, 30), st.integers(0, 5))
def test_the_order_is_that_of_the_scores_over_all_rows_told_or_read(
    attempts: list[Any], half_life_hours: float | None, read: int, ticket: int
) -> None:
    """Whether attempts were observed, read from the store, or both."""
    clock = ManualClock()
    weights = ScoreWeights(success_weight=2.0)
    history = Kept()
    policy: Any = ScoreBasedPolicy(weights=weights, half_life_hours=half_life_hours)
    ranking, now, over = started(policy, clock, history), clock.wall(), []
    steps = sorted(attempts, key=lambda one: one[-1])
    for place, (name, latency, fault, streaming, passed) in enumerate(steps):
        clock.advance(max(now + passed - clock.wall(), 0.0))
        over.append(attempt(name, latency, fault, began=clock.wall(), streaming=streaming))
        history.record(over[-1])
        ranking = policy.observe(over[-1:])
        if place == read:
            ranking = refresh(policy, history)
    ranking = policy.aged()

    for context in (REGULAR, STREAMING):
        at = EPOCH + timedelta(seconds=clock.wall())
        stats = aggregate_stats(
            AttemptRows(over, SCOPE), ABC, context.call_type, now=at, half_life_hours=half_life_hours
        )
        scores = {
            name: calculate_provider_score(one, weights, context.call_type).total
            for name, one in stats.items()
        }
        known = ranking.regular if context is REGULAR else ranking.streaming
        assert known == pytest.approx(scores, rel=1e-9)
        assert order(ranking, context, ticket) == ids(
            sorted(
                [*ABC[ticket % 3 :], *ABC[: ticket % 3]], key=lambda one: known[one.provider_id], reverse=True
            )
        )


def test_what_was_observed_before_the_stores_answer_is_not_counted_twice(clock: ManualClock) -> None:
    history = Kept()
    policy = ScoreBasedPolicy()
    started(policy, clock, history)
    failed = attempt("a", fault=Fault.TIMEOUT, began=clock.wall())
    history.record(failed)
    once: Any = policy.observe([failed])
    again = refresh(policy, history)
    assert again.regular == pytest.approx(once.regular, rel=1e-12)


def test_rows_of_before_and_of_other_processes_count_once_they_are_read(clock: ManualClock) -> None:
    history = Kept()
    history.record(*(attempt("c", 0.01, began=clock.wall() - HOUR) for _ in range(20)))
    policy = ScoreBasedPolicy()
    assert order(started(policy, clock, history)) == "abc"
    assert order(refresh(policy, history)) == "cab"


def test_both_call_types_are_asked_of_all_providers_as_of_one_instant(clock: ManualClock) -> None:
    policy = ScoreBasedPolicy(lookback_hours=2.0)
    started(policy, clock, Kept("mine"))
    regular, streaming = policy.questions()
    reference = EPOCH + timedelta(seconds=clock.wall())
    assert (regular.call_type, streaming.call_type) == (CallType.REGULAR, CallType.STREAMING)
    for question in (regular, streaming):
        assert [tuple(one) for one in question.partitions] == [
            (name, f"model-{name}", "openai_chat") for name in "abc"
        ]
        assert (question.since, question.reference) == (reference - timedelta(hours=2), reference)
        assert (question.metrics_scope, question.half_life_hours) == ("mine", None)


def test_all_scopes_are_asked_where_all_are_wanted(clock: ManualClock) -> None:
    policy = ScoreBasedPolicy(history_scope="all")
    history = Kept()
    history.record(attempt("c", 0.01, began=clock.wall()), scope="elsewhere")
    started(policy, clock, history)
    assert order(refresh(policy, history)) == "cab"
    assert {question.metrics_scope for question in history.asked} == {None}


def test_a_half_life_takes_the_place_of_the_lookback(clock: ManualClock) -> None:
    policy = ScoreBasedPolicy(half_life_hours=72.0, lookback_hours=1.0)
    started(policy, clock, Kept())
    question = policy.questions()[0]
    assert question.reference - question.since == timedelta(hours=6 * 72)
    assert question.half_life_hours == 72.0


def test_a_window_never_reaches_back_before_any_time_that_databases_know(clock: ManualClock) -> None:
    policy = ScoreBasedPolicy(half_life_hours=87_600.0)
    started(policy, clock, Kept())
    assert policy.questions()[0].since == EPOCH


def test_scores_fade_also_without_attempts(clock: ManualClock) -> None:
    policy: Any = ScoreBasedPolicy(half_life_hours=1.0)
    started(policy, clock)
    after = policy.observe([attempt("a", fault=Fault.TIMEOUT, began=clock.wall())])
    assert after.regular["a"] < 0.75
    clock.advance(HOUR)
    faded = policy.aged()
    assert after.regular["a"] < faded.regular["a"] < 0.75
    clock.advance(7 * HOUR)
    assert policy.aged().regular["a"] == 0.75


def test_without_a_ledger_a_router_has_what_it_saw_itself(clock: ManualClock) -> None:
    policy = ScoreBasedPolicy(max_staleness_seconds=60.0)
    started(policy, clock, None)
    assert policy.questions() == ()
    clock.advance(10 * HOUR)
    assert order(policy.observe([attempt("c", 0.01, began=clock.wall())])) == "cab"


def test_a_store_that_cannot_say_anything_is_told_of_once_an_outage(clock: ManualClock, told: Any) -> None:
    history = Kept()
    policy = ScoreBasedPolicy()
    started(policy, clock, history)
    policy.observe([attempt("c", 0.01, began=clock.wall())])
    history.down = StorageError("gone away")
    assert [order(refresh(policy, history)) for _ in range(3)] == ["cab"] * 3
    history.down = None
    for _ in range(2):
        refresh(policy, history)
    history.down = StorageError("again")
    refresh(policy, history)
    assert told.levels == ["WARNING", "DEBUG", "DEBUG", "INFO", "WARNING"]
    assert "gone away" in told.texts[0]


def test_scores_that_are_too_old_order_nobody_until_the_store_answers_again(
    clock: ManualClock, told: Any
) -> None:
    history = Kept()
    policy = ScoreBasedPolicy(max_staleness_seconds=90.0)
    started(policy, clock, history)
    best = attempt("c", 0.01, began=clock.wall())
    history.record(best)
    assert order(refresh(policy, history)) == "cab"

    clock.advance(90.0)
    assert order(policy.aged()) == "cab"
    clock.advance(1.0)
    stale = policy.aged()
    assert [order(stale, ticket=ticket) for ticket in range(3)] == ["abc", "bca", "cab"]
    assert order(policy.observe([best])) == "abc"
    assert told.levels == ["WARNING"]

    assert order(refresh(policy, history)) == "cab"
    clock.advance(91.0)
    assert order(policy.aged()) == "abc"
    assert told.levels == ["WARNING"] * 2


def test_where_the_store_never_answers_scores_are_too_old_from_when_it_could_have(
    clock: ManualClock, told: Any
) -> None:
    policy = ScoreBasedPolicy(max_staleness_seconds=90.0)
    started(policy, clock, Kept())
    clock.advance(60.0)
    best = attempt("c", 0.01, began=clock.wall())
    assert order(policy.observe([best])) == "cab"
    clock.advance(60.0)
    assert order(policy.observe([best])) == "abc"


def test_time_is_the_routers_unless_it_is_given(clock: ManualClock) -> None:
    given = datetime(2026, 1, 1, tzinfo=UTC)
    policy = ScoreBasedPolicy(now=lambda: given)
    started(policy, clock, Kept())
    assert policy.questions()[0].reference == given


def test_a_time_without_a_zone_is_refused(clock: ManualClock) -> None:
    policy = ScoreBasedPolicy(now=lambda: datetime(2026, 1, 1))
    with pytest.raises(ConfigError, match="time zone"):
        started(policy, clock)


class Fixed:
    """Plans the same, whoever is eligible: with omissions, repetitions and strangers."""

    learns = False

    def __init__(self, names: str) -> None:
        self.names = names

    def ranking(self, providers: Any) -> Any:
        return self

    def plan(self, eligible: Any, context: Any, ticket: int) -> Any:
        return identities(self.names)

    def observe(self, attempts: Any) -> None:
        return None


class FixedWhenAsked(Fixed):
    ranking = None  # type: ignore[assignment]

    def order(self, eligible: Any, context: Any) -> Any:
        return identities(self.names)


@given(st.lists(st.sampled_from("abcz"), max_size=8), st.permutations("abc"))
def test_omissions_and_repetitions_of_the_tie_break_stay_and_equals_keep_its_order(
    tied: list[str], best_first: list[str]
) -> None:
    clock = ManualClock()
    policy = ScoreBasedPolicy(tie_break_policy=Fixed("".join(tied)))
    started(policy, clock)
    # The first two of them are told apart.
    ranking = policy.observe(
        [
            attempt(best_first[0], 0.01, began=clock.wall()),
            attempt(best_first[2], fault=Fault.TIMEOUT, began=clock.wall()),
        ]
    )
    assert order(ranking) == "".join(sorted((name for name in tied if name != "z"), key=best_first.index))


def test_a_tie_break_that_learns_is_told_of_attempts(clock: ManualClock) -> None:
    ties = LeastLoadedPolicy()
    policy: Any = ScoreBasedPolicy(tie_break_policy=ties, weights={"speed_weight": 0.0})
    assert has(policy, ReadsLoad)
    policy.bind_load({"a": 5, "b": 5, "c": 0}.__getitem__)
    started(policy, clock)
    over = [
        attempt(name, latency, began=clock.wall()) for name, latency in [("a", 0.1), ("b", 9.0), ("c", 9.0)]
    ]
    ranking = policy.observe(over)
    # Nobody has failed: whoever of the two that are drawn is less loaded leads.
    firsts = {order(ranking, ticket=ticket)[0] for ticket in range(100)}
    assert firsts == {"a", "c"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (ScoreBasedPolicy(), "reads the store itself"),
        (StickyRoutingPolicy(["a"], ScoreBasedPolicy()), "reads the store itself"),
        (FixedWhenAsked("abc"), "goes with ask_store_each_time=True"),
        ("round_robin", "str is none: it must be an object"),
        (object(), "object is none: it must be an object"),
    ],
)
def test_what_cannot_break_ties_is_refused(given: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ScoreBasedPolicy(tie_break_policy=given)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"lookback_hours": 0}, "lookback_hours must be a number above 0, up to 87600, not 0"),
        ({"lookback_hours": True}, "lookback_hours must be a number"),
        ({"lookback_hours": float("nan")}, "lookback_hours must be a number"),
        ({"half_life_hours": -1.0}, "half_life_hours must be a number above 0"),
        ({"half_life_hours": "72"}, "half_life_hours must be a number"),
        ({"half_life_hours": 1e6}, "half_life_hours must be a number above 0, up to 87600"),
        ({"history_scope": "mine"}, "history_scope must be one of current, all, not 'mine'"),
        ({"refresh_seconds": 0.0}, "refresh_seconds must be a number above 0"),
        ({"max_staleness_seconds": 30.0}, "max_staleness_seconds must be above refresh_seconds, which is 30"),
        ({"max_staleness_seconds": float("inf")}, "max_staleness_seconds must be a number"),
        ({"ask_store_each_time": 1}, "ask_store_each_time must be True or False"),
        ({"now": 5}, "now must be callable"),
        ({"weights": 1.0}, "weights must be ScoreWeights or its fields"),
        ({"weights": {"speed": 1.0}}, "weights: speed is no known field; there are success_weight, speed_"),
        ({"weights": {"speed_weight": -1}}, "speed_weight must be a number from 0"),
    ],
)
def test_a_setting_out_of_range_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ScoreBasedPolicy(**wrong)


def test_weights_may_be_a_plain_dict() -> None:
    assert ScoreBasedPolicy(weights={"speed_weight": 0.0}).weights == ScoreWeights(speed_weight=0.0)


def test_it_reads_history_and_is_turnouts_own_unless_it_asks_the_store_or_ties_are_broken_by_another() -> (
    None
):
    policy = ScoreBasedPolicy()
    assert has(policy, ReadsHistory)
    assert has(policy, ReadsClock)
    assert not has(policy, OrderingPolicy | ReadsLoad)
    assert is_built_in(policy)
    assert is_built_in(ScoreBasedPolicy(tie_break_policy=RoundRobinPolicy()))
    assert not is_built_in(ScoreBasedPolicy(tie_break_policy=Fixed("a")))
    assert not is_built_in(ScoreBasedPolicy(ask_store_each_time=True))
    assert not is_built_in(StickyRoutingPolicy(["a"], ScoreBasedPolicy(ask_store_each_time=True)))


@pytest.mark.parametrize("asks", [False, True])
def test_nothing_of_a_router_is_kept_by_a_policy_that_is_dropped(clock: ManualClock, asks: bool) -> None:
    gc.disable()
    try:
        history = Kept()
        policy = StickyRoutingPolicy(["a"], ScoreBasedPolicy(ask_store_each_time=asks))
        started(policy, clock, history)
        gone = ref(history)
        del history, policy
        assert gone() is None
    finally:
        gc.enable()


def test_a_second_start_forgets_the_first(clock: ManualClock) -> None:
    policy = ScoreBasedPolicy()
    started(policy, clock)
    policy.observe([attempt("c", 0.01, began=clock.wall())])
    assert order(started(policy, clock)) == "abc"


@pytest.mark.parametrize(
    ("scope", "asked"),
    [("current", SCOPE), (HistoryScope.CURRENT, SCOPE), ("all", None), (HistoryScope.ALL, None)],
)
def test_the_scope_is_a_word_or_its_member(
    clock: ManualClock, scope: HistoryScope | str, asked: str | None
) -> None:
    policy = ScoreBasedPolicy(history_scope=scope)
    started(policy, clock, Kept())
    assert {question.metrics_scope for question in policy.questions()} == {asked}
