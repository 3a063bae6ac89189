"""Who may hold a store's connection, and when it is let go."""

import threading

import pytest

from turnout.errors import StorageError
from turnout.storage.handle import Handle


class Recorder:
    """A connection that only notes what happens to it."""

    def __init__(self, name: str, events: list[str]) -> None:
        self.name = name
        self.events = events
        events.append(f"{name} opened")

    def interrupt(self) -> None:
        self.events.append(f"{self.name} interrupted")

    def close(self) -> None:
        self.events.append(f"{self.name} closed")


def a_handle(events: list[str]) -> Handle[Recorder]:
    return Handle(
        "/nowhere/ledger",
        lambda: Recorder("main", events),
        lambda _: Recorder("read", events),
        ends_at_fork=False,
    )


def test_one_connection_serves_every_write_until_it_is_released() -> None:
    events: list[str] = []
    handle = a_handle(events)
    for _ in range(2):
        with handle.writing():
            pass
    handle.release()
    handle.release()
    with handle.writing():
        pass
    assert events == ["main opened", "main closed", "main opened"]


def test_a_release_waits_for_the_reads_under_way_and_lets_them_end() -> None:
    events: list[str] = []
    handle = a_handle(events)
    release = threading.Thread(target=handle.release, name="release", daemon=True)
    with handle.reading():
        release.start()
    release.join(30)
    assert not release.is_alive()
    assert events == ["main opened", "read opened", "read closed", "main closed"]


def test_a_read_delays_no_write() -> None:
    events: list[str] = []
    handle = a_handle(events)
    with handle.reading(), handle.writing() as connection:
        assert connection.name == "main"


def test_a_connection_that_cannot_be_opened_is_tried_anew() -> None:
    tries: list[str] = []

    def opened() -> Recorder:
        if not tries:
            tries.append("failed")
            raise StorageError("not now")
        return Recorder("main", tries)

    handle = Handle("/nowhere/ledger", opened, lambda main: main, ends_at_fork=False)
    with pytest.raises(StorageError, match="not now"), handle.writing():
        pass
    with handle.writing():
        pass
    assert tries == ["failed", "main opened"]


def test_a_writer_that_fails_gives_its_turn_back() -> None:
    handle = a_handle([])
    with pytest.raises(ZeroDivisionError), handle.writing():
        raise ZeroDivisionError
    with handle.writing():
        pass


def test_a_closed_handle_names_the_database_it_will_not_open() -> None:
    handle = a_handle([])
    handle.close()
    with (
        pytest.raises(StorageError, match="/nowhere/ledger is closed"),
        handle.reading(),
    ):
        pass
