"""Identities that sort by time."""

import random
from itertools import count
from typing import Final

from turnout.clock import Clock

_VERSION_AND_VARIANT: Final = (0x7 << 76) | (0x2 << 62)
_MILLISECONDS: Final = (1 << 48) - 1
#: The last bits are left for the parts of what an identity belongs to.
_PART_BITS: Final = 16
#: Where counting starts is chance below this many bits, of the 46 there are: no process lives to see it overflow.
_START_BITS: Final = 45
_NUMBERS: Final = (1 << _START_BITS + 1) - 1


class TimeOrderedIds:
    """Makes UUIDv7 (RFC 9562, with a counter started by chance, section 6.2): ``identity + n`` is the identity of its
    n-th part, for n up to 65,535.

    One maker never makes the same twice; two makers would have to agree on 57 bits of chance in one millisecond.
    """

    __slots__ = ("_chance", "_next", "_wall")

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._wall = clock.wall
        self._chance = _VERSION_AND_VARIANT | rng.getrandbits(12) << 64
        # next() of a count is one step: no two threads get the same number.
        self._next = count(rng.getrandbits(_START_BITS)).__next__

    def __call__(self) -> int:
        """A new identity, as the integer behind its UUID: text is made only where somebody reads it."""
        milliseconds = int(self._wall() * 1000.0) & _MILLISECONDS
        return milliseconds << 80 | self._chance | self._next() << _PART_BITS


def number_of(identity: int) -> int:
    """The number of an invocation among those of one maker, counting up; where the count began is chance."""
    return identity >> _PART_BITS & _NUMBERS


def id_text(identity: int) -> str:
    """The usual text of an identity."""
    digits = identity.to_bytes(16, "big").hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
