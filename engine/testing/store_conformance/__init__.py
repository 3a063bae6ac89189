"""What every ``MetricsStore`` must do, as tests to run over one's own.

In a test module, under pytest::

    from turnout.testing.store_conformance import StoreConformance

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def make(self, tmp_path):
            return lambda: MyStore(tmp_path / "rows")

``make()`` gives a new store that holds no rows; it is called once a test. The tests need pytest, and nothing besides.
"""

import pytest

for _idea in ("keeping", "reading", "adding_up", "sharing"):
    # So that a failed assertion shows what it compared; pytest does so by itself in test files only.
    pytest.register_assert_rewrite(f"{__name__}.{_idea}")

# After that, or it comes too late.
from turnout.testing.store_conformance.adding_up import AddingUp  # noqa: E402
from turnout.testing.store_conformance.histories import a_row  # noqa: E402
from turnout.testing.store_conformance.keeping import Keeping  # noqa: E402
from turnout.testing.store_conformance.reading import Reading  # noqa: E402
from turnout.testing.store_conformance.sharing import Sharing  # noqa: E402


class StoreConformance(Keeping, Reading, AddingUp, Sharing):
    """Every test there is. A subclass whose name begins with ``Test`` gives the fixture ``make``."""


__all__ = ["StoreConformance", "a_row"]
