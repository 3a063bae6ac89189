"""A call cancelled, or out of time, between the moment it wins room at a provider and the moment it goes on."""

from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest
from pydantic import SecretStr

from turnout import ApiProtocol, DeadlineExceededError, ProviderConfig
from turnout.testing import FINISHED, ManualClock, ScriptedAdapters


class Line:
    """A provider with room for one, a stream that takes it, and a single worker that can be held up."""

    def __init__(self, rig: Any) -> None:
        self.clock = ManualClock()
        self.holding, self.go_on = Event(), Event()
        self.adapters = ScriptedAdapters({"a": [["x", FINISHED], "a"], "busy": [self._hold, "free"]})
        self.router = rig.router(
            [
                self._config("a", ApiProtocol.OPENAI_CHAT, max_concurrency=1),
                self._config("busy", ApiProtocol.OPENAI_RESPONSES),
            ],
            adapter_factory=self.adapters,
            pool={"max_workers": 1},
            clock=self.clock,
        )
        self.rig = rig

    def _hold(self, call: Any) -> str:
        self.holding.set()
        assert self.go_on.wait(30)
        return "held"

    @staticmethod
    def _config(name: str, protocol: ApiProtocol, **more: Any) -> ProviderConfig:
        return ProviderConfig(
            provider_id=name, name=name, protocol=protocol, model="m", api_key=SecretStr("k"), **more
        )

    def wins_room(self, **options: Any) -> Any:
        """A call that has just won room, and goes on once the worker is let go."""
        stream = self.router.invoke(self.rig.chat(stream=True))
        waits = self.router.submit(self.rig.chat(), **options)
        self.router.submit(self.rig.responses())
        assert self.holding.wait(30)
        stream.close()
        return waits

    def asked_of_a(self) -> int:
        self.go_on.set()
        assert self.router.submit(self.rig.responses()).result(30) == "free"
        return sum(call.provider_id == "a" for call in self.adapters.calls) - 1


@pytest.fixture
def line(rig: Any) -> Iterator[Line]:
    made = Line(rig)
    yield made
    made.go_on.set()


def test_a_call_cancelled_just_when_it_won_room_is_not_made(line: Line) -> None:
    won = line.wins_room()
    won.cancel()

    assert line.asked_of_a() == 0
    assert line.router.invoke(line.rig.chat()) == "a"


def test_a_call_whose_time_ended_just_when_it_won_room_is_not_made(line: Line) -> None:
    won = line.wins_room(timeout=5.0)
    line.clock.advance(6.0)

    assert line.asked_of_a() == 0
    with pytest.raises(DeadlineExceededError, match="room at a, model m"):
        won.result(30)
    assert line.router.invoke(line.rig.chat()) == "a"
