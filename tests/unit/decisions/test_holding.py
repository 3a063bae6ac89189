"""Which chunks are kept back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.calls import StreamFailurePolicy
from turnout.decisions.holding import MOST_HELD_CHUNKS, MOST_PRELUDE_CHUNKS, Held, of_held

counts = st.integers(min_value=1, max_value=2 * MOST_HELD_CHUNKS)
unheld = st.sampled_from([StreamFailurePolicy.RESTART, StreamFailurePolicy.RAISE])


@given(unheld, counts)
def test_content_releases_whatever_was_kept(policy: StreamFailurePolicy, chunks: int) -> None:
    assert of_held(policy, True, chunks) is Held.RELEASED


@given(unheld, counts)
def test_a_prelude_is_kept_until_it_is_absurdly_long(policy: StreamFailurePolicy, chunks: int) -> None:
    assert (of_held(policy, False, chunks) is Held.RELEASED) is (chunks > MOST_PRELUDE_CHUNKS)
    assert of_held(policy, False, chunks) is not Held.TOO_MANY


@given(st.booleans(), counts)
def test_what_is_to_be_held_is_never_released_by_a_count_or_by_content(content: bool, chunks: int) -> None:
    assert of_held(StreamFailurePolicy.HOLD, content, chunks) is not Held.RELEASED


@given(st.sampled_from(StreamFailurePolicy), st.booleans(), counts)
def test_a_bound_once_passed_stays_passed(policy: StreamFailurePolicy, content: bool, chunks: int) -> None:
    if of_held(policy, content, chunks) is not Held.KEPT:
        assert of_held(policy, content, chunks + 1) is of_held(policy, content, chunks)


@pytest.mark.parametrize(
    ("policy", "most", "then"),
    [
        (StreamFailurePolicy.RESTART, MOST_PRELUDE_CHUNKS, Held.RELEASED),
        (StreamFailurePolicy.RAISE, MOST_PRELUDE_CHUNKS, Held.RELEASED),
        (StreamFailurePolicy.HOLD, MOST_HELD_CHUNKS, Held.TOO_MANY),
    ],
)
def test_every_bound_is_the_most_that_is_kept(policy: StreamFailurePolicy, most: int, then: Held) -> None:
    assert of_held(policy, False, most) is Held.KEPT
    assert of_held(policy, False, most + 1) is then
