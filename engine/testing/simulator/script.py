"""Which behaviour the n-th call to a provider gets. Scripts are pure: call n always gets the same one."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from turnout.testing.simulator.behaviours import Answer, Behaviour, Status


class Script(Protocol):
    """Anything that names the behaviour of call `n`, counted from 0 since the script was set."""

    def at(self, n: int) -> Behaviour: ...


@dataclass(frozen=True, slots=True)
class Steps:
    """One behaviour a call, in order; afterwards `then`, or the last one, for ever."""

    behaviours: tuple[Behaviour, ...]
    then: Behaviour | None = None

    def __post_init__(self) -> None:
        if not self.behaviours and self.then is None:
            raise ValueError("a script needs at least one behaviour")

    def at(self, n: int) -> Behaviour:
        if n < len(self.behaviours):
            return self.behaviours[n]
        return self.then if self.then is not None else self.behaviours[-1]


@dataclass(frozen=True, slots=True)
class Cycle:
    """The behaviours in turn, over and over: a flapping provider."""

    behaviours: tuple[Behaviour, ...]

    def __post_init__(self) -> None:
        if not self.behaviours:
            raise ValueError("a cycle needs at least one behaviour")

    def at(self, n: int) -> Behaviour:
        return self.behaviours[n % len(self.behaviours)]


@dataclass(frozen=True, slots=True)
class Weighted:
    """A draw by weight for each call, decided by the seed and the call's number: a run can be repeated."""

    choices: tuple[tuple[Behaviour, float], ...]
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.choices or any(weight < 0 for _, weight in self.choices):
            raise ValueError("a weighted script needs choices with weights of 0 or more")
        if not any(weight > 0 for _, weight in self.choices):
            raise ValueError("a weighted script needs at least one weight above 0")

    def at(self, n: int) -> Behaviour:
        draw = random.Random(f"{self.seed}/{n}")
        behaviours = [behaviour for behaviour, _ in self.choices]
        return draw.choices(behaviours, [weight for _, weight in self.choices])[0]


@dataclass(frozen=True, slots=True)
class Computed:
    """A function from the call's number to its behaviour."""

    function: Callable[[int], Behaviour]

    def at(self, n: int) -> Behaviour:
        return self.function(n)


ScriptLike: TypeAlias = Behaviour | Script | Sequence[Behaviour] | Callable[[int], Behaviour]


def as_script(script: ScriptLike) -> Script:
    """A script from one behaviour (always), a sequence (the last repeats), a function, or a script itself."""
    if isinstance(script, Behaviour):
        return Steps((script,))
    if isinstance(script, Sequence):
        return Steps(tuple(script))
    if callable(script):
        return Computed(script)
    return script


def first(*behaviours: Behaviour, then: Behaviour | None = None) -> Steps:
    """These behaviours once, in order, then healthy answers (or `then`)."""
    return Steps(behaviours, then=then if then is not None else Answer())


def flapping(up: int = 3, down: int = 3, fault: Behaviour | None = None) -> Cycle:
    """`up` answers, `down` faults (HTTP 500 unless another is named), and again."""
    return Cycle((Answer(),) * up + (fault if fault is not None else Status(500),) * down)
