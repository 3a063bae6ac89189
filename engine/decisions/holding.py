"""Which chunks of a stream are kept back, and until when."""

from enum import StrEnum
from typing import Final

from turnout.calls import StreamFailurePolicy

#: A stream that announces more than this without saying anything is handed out as it comes.
MOST_PRELUDE_CHUNKS: Final = 1_000
#: About twice what the longest answers of today come in; kept whole they take some hundred megabytes.
MOST_HELD_CHUNKS: Final = 250_000


class Held(StrEnum):
    """What becomes of the chunks that were kept back so far."""

    KEPT = "kept"
    #: Handed out, and whatever follows as it comes.
    RELEASED = "released"
    #: More than may be kept, of a stream that must not be handed out yet.
    TOO_MANY = "too_many"


def of_held(policy: StreamFailurePolicy, has_content: bool, chunks: int) -> Held:
    """What becomes of ``chunks`` chunks of a stream that runs. Before its content they are a prelude: unseen, it can be
    thrown away without a word. Under ``HOLD`` everything is kept until the answer is whole."""
    match policy:
        case StreamFailurePolicy.HOLD:
            return Held.TOO_MANY if chunks > MOST_HELD_CHUNKS else Held.KEPT
        case StreamFailurePolicy.RESTART | StreamFailurePolicy.RAISE:
            return Held.RELEASED if has_content or chunks > MOST_PRELUDE_CHUNKS else Held.KEPT
