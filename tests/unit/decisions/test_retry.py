"""The gates before a retry, which no policy opens."""

import math
from typing import Any

import pytest

from turnout.calls import Attempt, CallType, Identity, Outcome, Reason
from turnout.decisions.retry import cycle, may_retry, pause_seconds
from turnout.faults import Failure, Fault

A, B = Identity("a", "A"), Identity("b", "B")
OPEN = {Fault.TIMEOUT, Fault.CONNECTION, Fault.SERVER_ERROR, Fault.UNKNOWN, Fault.TRANSIENT}


def made(*tries: tuple[Identity, Reason]) -> list[Attempt]:
    return [
        Attempt(n, 0, n, reason, by, CallType.REGULAR, 0.0, 0.0, 0.0, Outcome.FAILED, 0)
        for n, (by, reason) in enumerate(tries, 1)
    ]


def test_a_row_of_retries_counts_from_the_attempt_before_it() -> None:
    assert cycle(made((A, Reason.PRIMARY))) == 1
    assert cycle(made((A, Reason.PRIMARY), (A, Reason.RETRY), (A, Reason.RETRY))) == 3
    assert cycle(made((A, Reason.PRIMARY), (A, Reason.RETRY), (B, Reason.FAILOVER))) == 1
    assert cycle(made((A, Reason.PRIMARY), (B, Reason.FAILOVER), (B, Reason.RETRY))) == 2


def test_a_provider_that_an_order_repeats_has_one_row() -> None:
    assert cycle(made((A, Reason.PRIMARY), (A, Reason.FAILOVER))) is None
    assert cycle(made((A, Reason.PRIMARY), (B, Reason.FAILOVER), (A, Reason.FAILOVER))) is None


@pytest.mark.parametrize("fault", Fault)
def test_only_faults_that_count_and_go_on_may_be_tried_again(fault: Fault) -> None:
    assert may_retry(Failure(fault), 1, 8, stream_opened=False) == (fault in OPEN)


@pytest.mark.parametrize(
    "closed",
    [
        {"stream_opened": True},
        {"made": 3},
        {"made": None},
        {"failure": Failure(Fault.TIMEOUT, should_retry=False)},
    ],
)
def test_each_gate_closes_by_itself(closed: dict[str, Any]) -> None:
    known = {"failure": Failure(Fault.TIMEOUT), "made": 2, "at_most": 3, "stream_opened": False}
    assert may_retry(**known)  # type: ignore[arg-type]
    assert not may_retry(**{**known, **closed})


def test_the_longer_of_the_wait_and_what_the_provider_asks_is_waited() -> None:
    assert pause_seconds(0.0, None, 30.0) == 0.0
    assert pause_seconds(2.0, 1.0, 30.0) == 2.0
    assert pause_seconds(2.0, 5.0, 30.0) == 5.0


def test_a_wait_beyond_the_bound_is_none() -> None:
    assert pause_seconds(0.0, 31.0, 30.0) is None
    assert pause_seconds(31.0, None, 30.0) is None


@pytest.mark.parametrize("nonsense", [-1.0, math.inf, math.nan])
def test_a_wait_that_is_no_time_is_not_waited(nonsense: float) -> None:
    assert pause_seconds(nonsense, None, 30.0) == 0.0
