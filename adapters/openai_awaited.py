"""What a reader of an OpenAI-shaped answer waits for."""

from enum import Enum


class Awaited(Enum):
    """What a reader waits for: what is said where it did not come in time, and what gives it longer."""

    ANSWER = (
        "did not answer within {}",
        "timeout_seconds (a stream: first_token_timeout_seconds) or timeout=",
    )
    FIRST_TOKEN = ("sent no content within {}", "first_token_timeout_seconds or timeout=")
    MORE = ("sent no more content for {} in the middle of its stream", "idle_timeout_seconds")
    #: Of a stream that is held back until it is whole.
    WHOLE = ("had not sent its whole answer by the call's deadline", "timeout=")
