"""Where the tests get their store from."""

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from turnout.storage.contract import MetricsStore

Made = Callable[[], MetricsStore]


class OfOneStore:
    """Has a store for each test, and closes it."""

    @pytest.fixture
    def make(self) -> Made:
        """A function that gives a new store without rows."""
        raise NotImplementedError(
            f"{type(self).__name__} needs a fixture make() that returns a function: each call of it gives a new store "
            "without rows, as in turnout.testing.store_conformance"
        )

    @pytest.fixture
    def store(self, make: Made) -> Iterator[MetricsStore]:
        """The store that the test is about."""
        with closing(make()) as store:
            yield store
