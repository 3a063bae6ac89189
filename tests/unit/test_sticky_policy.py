"""StickyRoutingPolicy: who leads, what is left to the wrapped policy, and what that one cannot do."""

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.attempts import has
from turnout import ConfigError, OrderingPolicy, PreferencePolicy, ProviderRouter, StickyRoutingPolicy
from turnout.actors.ordering import Ordering
from turnout.calls import Attempt, CallType, Identity, Outcome, Reason
from turnout.policies.contract import Ranking, ReadsHistory, RoutingContext
from turnout.policies.wiring import ReadsClock, ReadsLoad
from turnout.runtime.drivers import walk_here
from turnout.runtime.threads import ThreadRuntime
from turnout.testing import ManualClock

WAIT = 20.0
CONTEXT = RoutingContext(CallType.REGULAR)
IDS = "abcdef"


def identities(names: Sequence[str]) -> list[Identity]:
    return [Identity(name, name) for name in names]


IDENTITIES = identities(IDS)


def targets(ids: Sequence[str]) -> list[Any]:
    return [SimpleNamespace(provider_id=name, identity=Identity(name, name)) for name in ids]


def ids(plan: Sequence[Any]) -> list[str]:
    return [provider.provider_id for provider in plan]


def attempt_at(name: str) -> Attempt:
    by = Identity(name, name)
    return Attempt(1, 1, 1, Reason.PRIMARY, by, CallType.REGULAR, 0.0, 0.1, 0.0, Outcome.OK, 0)


class Saying:
    """Answers with these, whoever is eligible, and throws away what it was given."""

    def __init__(self, answer: Sequence[str]) -> None:
        self.answer = answer
        self.given: list[list[str]] = []
        self.threads: set[str] = set()

    def answered(self, eligible: Any) -> list[Any]:
        self.given.append(ids(eligible))
        self.threads.add(threading.current_thread().name)
        eligible[:] = targets(self.answer)
        return list(eligible)


class Asked(Saying):
    def order(self, eligible: Any, context: RoutingContext) -> Any:
        return self.answered(eligible)


class Ranks(Saying):
    learns = False

    def ranking(self, providers: Sequence[Identity]) -> Ranking:
        return self

    def plan(self, eligible: Any, context: RoutingContext, ticket: int) -> Any:
        return self.answered(eligible)

    def observe(self, attempts: Sequence[Attempt]) -> Ranking | None:
        return None


def planned(policy: Any, eligible: Sequence[str], ticket: int = 0) -> list[str]:
    """The plan, made as the ordering makes it, without its thread."""
    if isinstance(policy, OrderingPolicy):
        return ids(policy.order(identities(eligible), CONTEXT))
    return ids(policy.ranking(IDENTITIES).plan(targets(eligible), CONTEXT, ticket))


SOME = st.lists(st.sampled_from(IDS), min_size=1, max_size=len(IDS), unique=True)
ANSWERS = st.lists(st.sampled_from([*IDS, "unknown"]), max_size=9)


@given(SOME, SOME, st.integers(0, 1000))
def test_the_eligible_preferred_ones_lead_in_their_own_order_and_the_rest_rotates(
    sticky: list[str], eligible: list[str], ticket: int
) -> None:
    plan = planned(StickyRoutingPolicy(sticky), eligible, ticket)

    head = [name for name in sticky if name in eligible]
    rest = [name for name in eligible if name not in sticky]
    first = ticket % len(rest) if rest else 0
    assert plan == [*head, *rest[first:], *rest[:first]]


@given(st.sampled_from([Asked, Ranks]), SOME, SOME, ANSWERS)
def test_a_wrapped_policys_answer_is_kept_but_for_those_that_it_was_not_given(
    kind: Any, sticky: list[str], eligible: list[str], answer: list[str]
) -> None:
    wrapped = kind(answer)

    plan = planned(StickyRoutingPolicy(sticky, wrapped), eligible)

    rest = [name for name in eligible if name not in sticky]
    assert plan == [
        *(name for name in sticky if name in eligible),
        *(name for name in answer if name in rest),
    ]
    assert wrapped.given == ([rest] if rest else [])


@given(st.sampled_from([Asked, Ranks]), SOME, SOME, SOME, ANSWERS)
def test_one_around_another_leads_with_its_own_and_then_with_the_others(
    kind: Any, outer: list[str], inner: list[str], eligible: list[str], answer: list[str]
) -> None:
    policy = StickyRoutingPolicy(outer, StickyRoutingPolicy(inner, kind(answer)))

    both = list(dict.fromkeys([*outer, *inner]))
    assert planned(policy, eligible) == planned(StickyRoutingPolicy(both, kind(answer)), eligible)


@pytest.fixture
def runtime() -> Any:
    runtime = ThreadRuntime("t", max_workers=1, max_queue=1, idle_seconds=1.0, clock=ManualClock())
    yield runtime
    runtime.stop(WAIT)


def ordered(ordering: Ordering, runtime: ThreadRuntime, eligible: Sequence[str] = IDS) -> list[str]:
    known = targets(eligible)
    plan = ordering.plan(known, CONTEXT)
    if plan is None:
        plan = walk_here(runtime, ordering.asked(known, CONTEXT), lambda walk, step: None)
    return ids(plan)


def test_a_wrapped_policy_of_the_users_own_is_asked_on_the_ordering_thread_only(
    runtime: ThreadRuntime,
) -> None:
    wrapped = Asked("da")
    ordering = Ordering(StickyRoutingPolicy(["c"], wrapped), IDENTITIES, runtime)

    assert ordered(ordering, runtime, "abcd") == ["c", "d", "a"]
    assert wrapped.threads == {"turnout-t-ordering"}


def test_only_one_that_must_be_asked_presents_as_such() -> None:
    assert isinstance(StickyRoutingPolicy(["a"], Asked("b")), OrderingPolicy)
    assert isinstance(StickyRoutingPolicy(["a"], StickyRoutingPolicy(["b"], Asked("c"))), OrderingPolicy)
    assert not isinstance(StickyRoutingPolicy(["a"]), OrderingPolicy)
    assert not isinstance(StickyRoutingPolicy(["a"], Ranks("b")), OrderingPolicy)


@pytest.mark.parametrize(
    ("wrapped", "may_omit"),
    [(None, False), (PreferencePolicy(), False), (Asked("b"), True), (Ranks("b"), True)],
)
def test_what_a_wrapped_policy_may_leave_out_its_wrapper_may(
    runtime: ThreadRuntime, wrapped: Any, may_omit: bool
) -> None:
    assert Ordering(StickyRoutingPolicy(["a"], wrapped), IDENTITIES, runtime).may_omit is may_omit
    nested = StickyRoutingPolicy(["b"], StickyRoutingPolicy(["a"], wrapped))
    assert Ordering(nested, IDENTITIES, runtime).may_omit is may_omit


class Last:
    """Puts the provider of the newest attempt last."""

    learns = True

    def __init__(self, name: str = "") -> None:
        self.name = name

    def ranking(self, providers: Sequence[Identity]) -> Ranking:
        return self

    def plan(self, eligible: Any, context: RoutingContext, ticket: int) -> Any:
        return sorted(eligible, key=lambda target: target.provider_id == self.name)

    def observe(self, attempts: Sequence[Attempt]) -> Ranking | None:
        newest = attempts[-1].provider_id
        return None if newest == self.name else Last(newest)


def test_what_a_wrapped_policy_learns_orders_the_rest_and_never_the_preferred(runtime: ThreadRuntime) -> None:
    ordering = Ordering(StickyRoutingPolicy(["c", "a"], Last()), IDENTITIES, runtime)
    assert ordering.learns
    assert ordered(ordering, runtime, "abcd") == ["c", "a", "b", "d"]

    for name, plan in [("b", ["c", "a", "d", "b"]), ("c", ["c", "a", "b", "d"])]:
        assert ordering._observers is not None
        ordering._observers.ask(attempt_at(name))
        assert ordered(ordering, runtime, "abcd") == plan


def test_nothing_is_published_where_the_wrapped_policy_learnt_nothing() -> None:
    assert StickyRoutingPolicy(["a"], Last("b")).observe([attempt_at("b")]) is None
    assert StickyRoutingPolicy(["a"]).observe([attempt_at("b")]) is None
    assert StickyRoutingPolicy(["a"], Asked("b")).observe([attempt_at("b")]) is None


class Raises(Asked):
    def answered(self, eligible: Any) -> list[Any]:
        raise LookupError("no idea")


class RaisesRanking(Ranks):
    answered = Raises.answered


@pytest.mark.parametrize("kind", [Raises, RaisesRanking])
def test_the_preference_holds_where_the_wrapped_policy_raises(runtime: ThreadRuntime, kind: Any) -> None:
    ordering = Ordering(StickyRoutingPolicy(["d", "b"], kind("")), IDENTITIES, runtime)
    assert ordered(ordering, runtime) == ["d", "b", "a", "c", "e", "f"]

    nested = Ordering(StickyRoutingPolicy(["d"], StickyRoutingPolicy(["c"], kind(""))), IDENTITIES, runtime)
    assert ordered(nested, runtime) == ["d", "c", "a", "b", "e", "f"]


def test_ids_are_trimmed_and_copied() -> None:
    given = [" b", "a "]
    policy = StickyRoutingPolicy(given)
    given.clear()
    assert policy.sticky_provider_ids == ("b", "a")
    assert planned(policy, "abc") == ["b", "a", "c"]


@pytest.mark.parametrize("wrong", [[], (), "a", None, {"a"}, [1], [None], [" "], ["a", " a "], ["a", ""]])
def test_ids_that_are_no_list_of_texts_are_refused_at_once(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="sticky_provider_ids"):
        StickyRoutingPolicy(wrong)


@pytest.mark.parametrize("wrong", ["round_robin", 3, object()])
def test_a_wrapped_policy_that_is_none_is_refused_at_once(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"fallback_policy \w+ is none"):
        StickyRoutingPolicy(["a"], wrong)


@pytest.mark.parametrize("wrapped", [None, Asked("b"), Ranks("b")])
@pytest.mark.parametrize("nested", [False, True])
def test_ids_that_the_router_does_not_know_are_refused_when_it_is_built(wrapped: Any, nested: bool) -> None:
    provider = {"provider_id": "a", "name": "z", "protocol": "openai_chat", "model": "m", "api_key": "k"}
    policy = StickyRoutingPolicy(["a", "z"], wrapped)
    if nested:
        policy = StickyRoutingPolicy(["a"], policy)
    with pytest.raises(ConfigError, match="sticky_provider_ids names z; the providers are a"):
        ProviderRouter([provider], metrics_store=None, policy=policy)


class Remembers:
    """Reads history, and goes by a clock and by load; always publishes the same."""

    learns = True
    refresh_seconds = 7.0

    def __init__(self, published: Ranking | None) -> None:
        self.published = published
        self.told: list[Any] = []

    def bind(self, given: Any) -> None:
        self.told.append(given)

    bind_load = bind_clock = bind

    def ranking(self, providers: Sequence[Identity]) -> Any:
        return self.published

    def observe(self, attempts: Sequence[Attempt]) -> Ranking | None:
        return self.published

    def questions(self) -> Any:
        return ["asked"]

    def answered(self, given: Any, since: Any = ()) -> Ranking | None:
        self.told += [given, *since]
        return self.published

    unanswered = answered

    def aged(self) -> Ranking | None:
        return self.published


@pytest.mark.parametrize("nested", [False, True])
def test_a_wrapped_policy_that_reads_history_is_served_through_its_wrapper(nested: bool) -> None:
    wrapped = Remembers(Ranks("bd"))
    policy: Any = StickyRoutingPolicy(["c"], wrapped)
    if nested:
        policy = StickyRoutingPolicy(["e"], policy)
    assert has(policy, ReadsHistory)
    assert not has(policy, OrderingPolicy)
    policy.bind_clock("clock")
    policy.bind_load("load")
    policy.bind("history")
    assert (policy.refresh_seconds, policy.questions()) == (7.0, ["asked"])
    published = [policy.answered("answers", ["since"]), policy.unanswered("why"), policy.aged()]
    assert wrapped.told == ["clock", "load", "history", "answers", "since", "why"]
    for ranking in published:
        plan = ids(ranking.plan(targets("abcde"), CONTEXT, 0))
        assert plan == (["e", "c", "b", "d"] if nested else ["c", "b", "d"])


def test_nothing_is_published_where_history_changed_nothing() -> None:
    policy: Any = StickyRoutingPolicy(["c"], Remembers(None))
    assert policy.answered([]) is policy.unanswered("why") is policy.aged() is None


@pytest.mark.parametrize("wrapped", [None, PreferencePolicy(), Asked("b"), Ranks("b"), Last()])
def test_what_a_wrapped_policy_has_not_its_wrapper_has_not(wrapped: Any) -> None:
    policy = StickyRoutingPolicy(["a"], StickyRoutingPolicy(["b"], wrapped))
    assert not has(policy, ReadsHistory | ReadsLoad | ReadsClock)
    assert not hasattr(policy, "bind")
