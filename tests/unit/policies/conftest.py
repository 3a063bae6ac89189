"""What the tests of policies share: what was logged, and a clock."""

from collections.abc import Iterator
from typing import Any

import pytest
from loguru import logger

from turnout.testing import ManualClock


class Told:
    """What was logged, by level."""

    def __init__(self) -> None:
        self.levels: list[str] = []
        self.texts: list[str] = []

    def __call__(self, message: Any) -> None:
        self.levels.append(message.record["level"].name)
        self.texts.append(message.record["message"])


@pytest.fixture
def told() -> Iterator[Told]:
    sink = Told()
    number = logger.add(sink, level="DEBUG", format="{message}")
    yield sink
    logger.remove(number)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()
