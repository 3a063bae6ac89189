"""The retry budget: what fills it, what empties it, and what it can never give."""

from hypothesis import given
from hypothesis import strategies as st

from turnout.decisions.budget import Bucket, Refill, filled, full, taken

REFILL = Refill(per_call=0.2, per_second=10.0, most=100.0)


def test_it_starts_full() -> None:
    assert full(REFILL, 5.0, 7) == Bucket(100.0, 5.0, 7)


def test_an_empty_one_says_no_until_calls_or_time_have_filled_it() -> None:
    empty = Bucket(0.0, 0.0, 0)
    assert taken(empty, REFILL, 0.0, 4) == (Bucket(0.8, 0.0, 4), False)
    assert taken(empty, REFILL, 0.0, 5) == (Bucket(0.0, 0.0, 5), True)
    assert taken(empty, REFILL, 0.1, 0) == (Bucket(0.0, 0.1, 0), True)


def test_it_never_holds_more_than_it_may() -> None:
    assert filled(Bucket(99.0, 0.0, 0), REFILL, 1e9, 10**9).tokens == 100.0


def test_news_out_of_order_fill_it_once() -> None:
    ahead = filled(Bucket(0.0, 10.0, 50), REFILL, 12.0, 60)
    assert filled(ahead, REFILL, 11.0, 55) == ahead


@given(
    st.lists(st.tuples(st.floats(0, 5, allow_nan=False), st.integers(0, 20)), max_size=60),
    st.floats(0, 2, allow_nan=False),
    st.floats(0, 20, allow_nan=False),
)
def test_over_any_history_no_more_is_taken_than_was_put_in(
    asked: list[tuple[float, int]], per_call: float, per_second: float
) -> None:
    refill = Refill(per_call, per_second, 10.0)
    bucket, given = full(refill, 0.0, 0), 0
    now, calls = 0.0, 0
    for seconds, more in asked:
        now, calls = now + seconds, calls + more
        bucket, got = taken(bucket, refill, now, calls)
        given += got
        assert 0.0 <= bucket.tokens <= refill.most
        assert given <= 10.0 + now * per_second + calls * per_call + 1e-6
