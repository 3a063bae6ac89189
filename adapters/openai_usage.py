"""Token usage, read from OpenAI answers and from servers that only resemble them."""

from turnout.adapters.openai_words import field
from turnout.calls import Usage


def usage_of(answer: object) -> Usage | None:
    """Usage of a whole Chat or Responses answer, or of a stream that ended; None where it tells nothing."""
    said = answer.get("usage") if isinstance(answer, dict) else getattr(answer, "usage", None)
    if said is None:
        return None
    input_tokens = _count(said, "prompt_tokens", "input_tokens")
    output_tokens = _count(said, "completion_tokens", "output_tokens")
    details = field(said, "prompt_tokens_details")
    if details is None:
        details = field(said, "input_tokens_details")
    cached_tokens = None if details is None else _count(details, "cached_tokens")
    if input_tokens is None and output_tokens is None and cached_tokens is None:
        return None
    return Usage(input_tokens, cached_tokens, output_tokens)


def _count(source: object, *names: str) -> int | None:
    for name in names:
        number = field(source, name)
        if isinstance(number, int) and not isinstance(number, bool) and number >= 0:
            return number
    return None
