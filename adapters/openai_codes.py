"""Which Fault a refusal of an OpenAI-shaped provider is: by its HTTP status, and by the words beside it."""

import re
from collections.abc import Collection
from typing import Final, NamedTuple

from turnout.faults import Fault


class Words(NamedTuple):
    """How providers write one kind of refusal: in a code or type, and in a message where those say nothing."""

    fault: Fault
    code: re.Pattern[str] | None = None
    message: re.Pattern[str] | None = None


class StatusRow(NamedTuple):
    """What a status means, and which kinds the words beside it may make of it."""

    fault: Fault
    may_say: frozenset[Fault] = frozenset()


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


#: The first row that fits decides. A message is believed last: it may quote the caller, or praise a billing page.
WORDS: Final = (
    Words(
        Fault.QUOTA,
        _any(
            r"insufficient.?(user.?)?(quota|balance|credit|fund)",
            r"quota.?exceeded",
            r"exceeded.?(current.?)?quota",
            r"billing",
            r"(no|out.?of|low|not.?enough).?credits?($|[^a-z])",
            r"credits?.?(balance|limit|exceeded|exhausted|depleted|required|too.?low|expired)",
            r"payment.?required",
            r"spend.?limit",
            r"arrearage",
            r"free.?tier.?only",
        ),
        _any(
            r"insufficient (user )?(quota|balance|credit|fund)",
            r"credit balance",
            r"balance is (insufficient|too low)",
            r"(out of|not enough|more|no) credits?\b",
            r"billing hard limit",
        ),
    ),
    Words(
        Fault.RATE_LIMIT,
        _any(r"rate.?limit", r"too.?many.?requests", r"throttl", r"resource.?exhausted"),
        _any(r"rate limit", r"too many requests"),
    ),
    Words(
        Fault.CONTEXT_LENGTH,
        _any(
            r"context.?(length|window|size|limit)",
            r"(prompt|input).?too.?long",
            r"token.?limit.?exceeded",
            r"max.?tokens.?exceeded",
        ),
        _any(
            r"context (length|window|size|limit)",
            r"maximum context",
            r"(prompt|input|request|messages?) (is |are )?too long",
            r"prompt exceeds max length",
            r"maximum (prompt|input|model) length",
            r"model token limit",
            r"too many (input )?tokens",
            r"number of input tokens",
            r"must have less than \d+ tokens",
            r"(input|prompt) token count",
            r"input tokens exceed",
            r"exceeds the maximum number of tokens",
            r"`?inputs`? tokens \+ `?max_new_tokens`? must be",
            r"range of input length should be",
            r"reduce the length of the (messages|prompt|input)",
            r"reduce your (message size|prompt)",
        ),
    ),
    Words(
        Fault.CONTENT_FILTER,
        _any(
            r"content.?(filter|policy|moderation)",
            r"policy.?violation",
            r"responsible.?ai",
            r"bio_policy",
            r"moderation",
            r"data.?inspection.?failed",
        ),
        _any(
            r"content.?(filter|management policy|policy|policies)",
            r"safety (system|policy|policies)",
            r"usage polic(y|ies)",
            r"requires moderation",
            r"content exists risk",
        ),
    ),
    Words(Fault.TIMEOUT, _any(r"timeout", r"timed_out")),
    Words(Fault.AUTH, _any(r"authentication", r"invalid_api_key", r"permission")),
    Words(
        Fault.SERVER_ERROR,
        _any(r"server_error", r"internal_error", r"overloaded", r"unavailable", r"api_error", r"bad_gateway"),
    ),
    Words(
        Fault.BAD_REQUEST,
        _any(
            r"^invalid_",
            r"^image_(too_large|too_small|parse_error|file_too_large|file_not_found)$",
            r"^unsupported_image_media_type$",
            r"^empty_image_file$",
            r"^failed_to_download_image$",
        ),
    ),
)

_LIMITS: Final = frozenset({Fault.QUOTA, Fault.RATE_LIMIT})
_REQUEST: Final = frozenset({Fault.QUOTA, Fault.CONTEXT_LENGTH, Fault.CONTENT_FILTER})
#: Other statuses from 500 on are server errors; what is left is unknown.
STATUSES: Final = {
    400: StatusRow(Fault.BAD_REQUEST, _REQUEST),
    401: StatusRow(Fault.AUTH),
    402: StatusRow(Fault.QUOTA),
    403: StatusRow(Fault.AUTH, _LIMITS | {Fault.CONTENT_FILTER}),
    408: StatusRow(Fault.TIMEOUT),
    413: StatusRow(Fault.BAD_REQUEST, frozenset({Fault.CONTEXT_LENGTH})),
    422: StatusRow(Fault.BAD_REQUEST, _REQUEST),
    429: StatusRow(Fault.RATE_LIMIT, _LIMITS),
}


def fault_of_status(status: int, code: str | None, error_type: str | None, message: str = "") -> Fault:
    """The Fault of an HTTP status, with the words beside it where they tell kinds apart."""
    row = STATUSES.get(status)
    if row is None:
        return Fault.SERVER_ERROR if status >= 500 else Fault.UNKNOWN
    words = [word for word in (code, error_type) if word]
    of_message = row.may_say
    if row.fault is Fault.BAD_REQUEST and code is not None and _MISTAKE.match(code):
        # It names what the caller did: talk of credit in the message is then the caller's own.
        of_message = of_message - {Fault.QUOTA}
    return _of_codes(words, row.may_say) or _of_message(message, of_message) or row.fault


def fault_of_code(code: str | None, error_type: str | None = None, message: str = "") -> Fault:
    """The Fault of an error that came without a status of its own: in a stream, or as a typed failure."""
    fault = None
    for word in (code, error_type):
        if not word:
            continue
        if word.isdecimal() and 400 <= int(word) <= 599:
            return fault_of_status(int(word), code, error_type, message)
        fault = fault or _of_codes([word], _ALL)
    if fault is None:
        return _of_message(message, _ALL) or Fault.UNKNOWN
    return (_of_message(message, _REQUEST) or fault) if fault is Fault.BAD_REQUEST else fault


_ALL: Final = frozenset(Fault)
#: ``invalid_request_error`` is what everything is called by some.
_MISTAKE: Final = re.compile(r"invalid_(?!request(_error)?$)", re.IGNORECASE)
#: What a message quotes is the caller's. An apostrophe within a word opens no quotation.
_QUOTED: Final = re.compile(r"(?<!\w)'[^'\n]*'(?!\w)|\"[^\"\n]*\"")


def _of_codes(words: Collection[str], may_say: frozenset[Fault]) -> Fault | None:
    for row in WORDS:
        if row.fault in may_say and row.code is not None and any(map(row.code.search, words)):
            return row.fault
    return None


def _of_message(message: str, may_say: frozenset[Fault]) -> Fault | None:
    message = _QUOTED.sub("", message)
    for row in WORDS:
        if row.fault in may_say and row.message is not None and row.message.search(message):
            return row.fault
    return None
