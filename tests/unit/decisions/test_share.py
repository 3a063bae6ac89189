"""How much of the pool is one provider's."""

from hypothesis import given
from hypothesis import strategies as st

from turnout.decisions.share import default_share

WORKERS = st.integers(1, 10_000)


@given(WORKERS, st.integers(2, 100))
def test_one_of_several_providers_has_half_and_at_least_one_worker(workers: int, providers: int) -> None:
    share = default_share(workers, providers)
    assert share is not None
    assert share >= 1
    assert share == 1 or 2 * share <= workers
    assert 2 * (share + 1) > workers


@given(WORKERS, st.integers(0, 1))
def test_a_provider_alone_has_no_bound(workers: int, providers: int) -> None:
    assert default_share(workers, providers) is None
