"""Identities that sort by time."""

import random

from turnout.clock import Clock

_VERSION_AND_VARIANT = (0x7 << 76) | (0x2 << 62)


class TimeOrderedIds:
    """Makes UUIDv7 (RFC 9562): 48 bits of milliseconds, 66 of chance, and the last 8 left for what belongs to it:
    ``identity + n`` is the identity of its n-th part."""

    __slots__ = ("_random_bits", "_wall")

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._wall = clock.wall
        self._random_bits = rng.getrandbits

    def __call__(self) -> int:
        """A new identity, as the integer behind its UUID: text is made only where somebody reads it."""
        chance = self._random_bits(66) << 8
        milliseconds = int(self._wall() * 1000) & 0xFFFFFFFFFFFF
        return (
            milliseconds << 80 | (chance >> 62) << 64 | (chance & 0x3FFFFFFFFFFFFFFF) | _VERSION_AND_VARIANT
        )


def id_text(identity: int) -> str:
    """The usual text of an identity."""
    digits = identity.to_bytes(16, "big").hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
