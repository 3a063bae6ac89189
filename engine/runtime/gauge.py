"""How many of something there are right now, without a lock."""


class Gauge:
    """Counts marks from when they are made until nobody refers to them any more: what an interrupt drops, and what
    goes with a walk that is thrown away, is counted right. Any thread may make, drop and count: each step is one
    operation on a dict."""

    __slots__ = ("_marks",)

    def __init__(self) -> None:
        self._marks: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._marks)

    def mark(self) -> "Mark":
        return Mark(self._marks)


class Mark:
    """One more, as long as somebody refers to it."""

    __slots__ = ("_marks",)

    def __init__(self, marks: dict[int, None]) -> None:
        self._marks = marks
        marks[id(self)] = None

    def __del__(self) -> None:
        marks = getattr(self, "_marks", None)
        # Without it, an interrupt came before it was made.
        if marks is not None:
            marks.pop(id(self), None)
