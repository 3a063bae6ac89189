"""What an operator is shown of a batch where there is no terminal."""

import io

from rich.console import Console

from turnout.batch import Ending, LineEnd
from turnout.cli.batch_view import BatchView
from turnout.testing import ManualClock


class Shown:
    """A view of a batch on a manual clock, and what it has shown so far."""

    def __init__(self, total: int | None) -> None:
        self.clock = ManualClock()
        self.text = io.StringIO()
        self.view = BatchView(Console(file=self.text), total, live=False, monotonic=self.clock.monotonic)
        self._number = 0

    def end(self, ending: Ending, problem: str = "") -> None:
        self._number += 1
        self.view.line_ended(LineEnd(self._number, f"c-{self._number}", ending, problem))

    def lines(self) -> list[str]:
        return self.text.getvalue().splitlines()


def test_a_line_every_ten_seconds_tells_how_far_it_is() -> None:
    shown = Shown(2000)
    with shown.view:
        for _ in range(25):
            shown.clock.advance(1)
            shown.end(Ending.ANSWERED)
    assert shown.lines() == [
        "10 of 2,000 lines, 1.0/s, 0:33:10 left",
        "20 of 2,000 lines, 1.0/s, 0:33:00 left",
    ]


def test_without_a_known_length_there_is_no_time_left() -> None:
    shown = Shown(None)
    shown.clock.advance(10)
    shown.end(Ending.ANSWERED)
    assert shown.lines() == ["1 lines, 0.1/s"]


def test_failures_are_told_with_the_line_and_its_id_in_one_line_each() -> None:
    shown = Shown(3)
    shown.end(Ending.FAILED, "P answered HTTP 500\nand more")
    shown.end(Ending.INVALID, "url: Field required")
    assert shown.lines() == ["line 1 (c-1): P answered HTTP 500; and more", "line 2: url: Field required"]


def test_the_summary_counts_every_ending_and_only_what_was_run_makes_the_rate() -> None:
    shown = Shown(100)
    for ending, count in (
        (Ending.SKIPPED, 50),
        (Ending.ANSWERED, 10),
        (Ending.FAILED, 8),
        (Ending.INVALID, 2),
    ):
        for _ in range(count):
            shown.end(ending)
    shown.clock.advance(4)
    assert shown.view.summary() == "10 answered, 8 failed, 2 bad lines, 50 answered before in 4.0 s (5.0/s)"
