"""A fixed preference, from call to call."""

from typing import Any

import pytest

from turnout import FilterReason, NoEligibleProvidersError, RouterExhaustedError, StickyRoutingPolicy
from turnout.testing import ManualClock, ScriptedAdapters
from turnout.testing.simulator import Answer, Status


def who(answer: Any) -> str:
    return str(answer.choices[0].message.content)


def test_preferred_providers_lead_each_call_whatever_became_of_earlier_ones(rig: Any) -> None:
    clock = ManualClock()
    sim = rig.simulate(
        a=Answer(text="a"),
        b=Answer(text="b"),
        c=[Status(500), Answer(text="c"), Status(429), Answer(text="c")],
        d=[Answer(text="d"), Status(500), Answer(text="d")],
    )
    router = rig.router(rig.providers(sim), policy=StickyRoutingPolicy(["c", "d"]), clock=clock)

    # d's success does not put it before c, and neither does that of the rest, whose turns go on.
    assert [who(router.invoke(rig.chat())) for _ in range(2)] == ["d", "c"]
    assert who(router.invoke(rig.chat())) == "a"
    # The rate limit benched c; until its time is over d leads alone.
    assert router.health_report()["c"].cooldown_remaining_seconds == 60.0
    assert [who(router.invoke(rig.chat())) for _ in range(2)] == ["d", "d"]
    clock.advance(60.0)
    assert [who(router.invoke(rig.chat())) for _ in range(2)] == ["c", "c"]
    assert (sim.total("a"), sim.total("b")) == (1, 0)


def test_a_stream_restarts_along_the_same_order(rig: Any) -> None:
    sim = rig.simulate(a=Answer(text="a"), b=Status(500), c=Status(500))
    router = rig.router(rig.providers(sim), policy=StickyRoutingPolicy(["c", "b"]))

    with router.invoke(rig.chat(stream=True)) as stream:
        list(stream)
    assert [attempt.provider_id for attempt in stream.report().attempts] == ["c", "b", "a"]


def test_retries_of_the_first_go_to_the_first_preferred_one(rig: Any) -> None:
    sim = rig.simulate(a=Answer(text="a"), b=Status(500), c=Status(500))
    router = rig.router(
        rig.providers(sim), policy=StickyRoutingPolicy(["c", "b"]), retry_policy={"max_attempts": 2}
    )

    assert who(router.invoke(rig.chat())) == "a"
    assert [sim.total(name) for name in "cba"] == [2, 1, 1]


class OnlyB:
    """Leaves out everybody but b, and would bring in the preferred one again."""

    def order(self, eligible: Any, context: Any) -> Any:
        return [
            *(identity for identity in eligible if identity.provider_id == "b"),
            type(eligible[0])("c", "c"),
        ]


def test_whom_a_wrapped_policy_leaves_out_is_noted_and_not_tried(rig: Any) -> None:
    adapters = ScriptedAdapters({name: [ConnectionError(name)] for name in "abc"})
    router = rig.scripted(adapters, "abc", policy=StickyRoutingPolicy(["c"], OnlyB()))

    with pytest.raises(RouterExhaustedError) as caught:
        router.invoke(rig.chat())
    assert [attempt.provider_id for attempt in caught.value.attempts] == ["c", "b"]
    assert [(one.provider_id, one.reason) for one in caught.value.exclusions] == [
        ("a", FilterReason.OMITTED_BY_POLICY)
    ]


def test_a_preferred_provider_may_be_one_that_cannot_be_tried_yet(rig: Any) -> None:
    sim = rig.simulate(a=Answer(text="a"))
    off = rig.provider(sim, "a", provider_id="off", enabled=False)
    both = StickyRoutingPolicy(["off"])

    assert who(rig.router([rig.provider(sim, "a"), off], policy=both).invoke(rig.chat())) == "a"
    with pytest.raises(NoEligibleProvidersError):
        rig.router([off], policy=both).invoke(rig.chat())
