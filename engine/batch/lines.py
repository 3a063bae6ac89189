"""Input lines of a batch: OpenAI's batch format, checked, each made into the call that it asks for."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NoReturn

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from turnout.calls import ApiProtocol, CallType, CallVariant

_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A good line. ``number`` counts the input's lines from 1, blank ones too."""

    number: int
    custom_id: str
    call: CallVariant


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that cannot be run: ``problem`` names the field. ``custom_id`` is None where it has none of its own."""

    number: int
    custom_id: str | None
    problem: str

    def __str__(self) -> str:
        return f"line {self.number}: {self.problem}"


def read_lines(lines: Iterable[bytes | str]) -> Iterator[BatchRequest | BadLine]:
    """Each line that is not blank, checked. A ``custom_id`` belongs to the first line that has it.

    The ids are remembered, the lines are not.
    """
    first_lines: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        data = line.encode("utf-8", "surrogatepass") if isinstance(line, str) else line
        if number == 1:
            data = data.removeprefix(_BOM)
        if not data.strip():
            continue
        parsed = parse_line(number, data)
        if parsed.custom_id is not None:
            first = first_lines.setdefault(parsed.custom_id, number)
            if first != number:
                # Without the id: one line of the output has it, and only one may.
                parsed = BadLine(
                    number, None, f"custom_id: {parsed.custom_id!r} is that of line {first} already"
                )
        yield parsed


def parse_line(number: int, data: bytes) -> BatchRequest | BadLine:
    """One line by itself."""
    try:
        found = json.loads(data.decode("utf-8", "surrogatepass"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        return BadLine(number, None, f"is not UTF-8: {error.reason} at byte {error.start}")
    except RecursionError:
        return BadLine(number, None, "is nested too deeply")
    except ValueError as error:
        return BadLine(number, None, f"is not JSON: {error}")
    if not isinstance(found, dict):
        return BadLine(number, None, "is not a JSON object")
    try:
        line = _Line.model_validate(found)
    except ValidationError as error:
        return BadLine(number, _own_id(found), _told(error))
    endpoint = _ENDPOINTS[line.url]
    try:
        endpoint.body.model_validate(line.body)
    except ValidationError as error:
        return BadLine(number, line.custom_id, _told(error, "body"))
    return BatchRequest(number, line.custom_id, endpoint.call(line.body))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be blank")
    return value


def _no_stream(value: object) -> object:
    if value not in (False, None):
        raise ValueError("a batch has no streams; leave it out")
    return value


class _Checked(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, hide_input_in_errors=True)


class _Line(_Checked):
    custom_id: Annotated[str, AfterValidator(_not_blank)]
    method: Literal["POST"]
    url: Literal["/v1/chat/completions", "/v1/responses"]
    body: dict[str, Any]


class _Body(_Checked):
    stream: Annotated[bool | None, BeforeValidator(_no_stream)] = None


class _ChatBody(_Body):
    messages: Annotated[list[Any], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """What a ``url`` stands for. ``argument`` is the one field of the body that the SDK's method wants by name."""

    protocol: ApiProtocol
    operation: str
    argument: str
    body: type[_Body]

    def call(self, body: Mapping[str, Any]) -> CallVariant:
        """The body as it is, but for the model. ``extra_body`` sends a field that the SDK does not know, too, and keeps
        a field named like one of the SDK's own options (``timeout``, ``extra_headers``) from being taken for it."""
        rest = {name: value for name, value in body.items() if name not in ("model", "stream", self.argument)}
        arguments: dict[str, Any] = {self.argument: body[self.argument]} if self.argument in body else {}
        if rest:
            arguments["extra_body"] = rest
        return CallVariant(self.protocol, self.operation, CallType.REGULAR, arguments)


_ENDPOINTS: Final = {
    "/v1/chat/completions": _Endpoint(
        ApiProtocol.OPENAI_CHAT, "chat.completions.create", "messages", _ChatBody
    ),
    "/v1/responses": _Endpoint(ApiProtocol.OPENAI_RESPONSES, "responses.create", "input", _Body),
}


def _own_id(found: Mapping[str, Any]) -> str | None:
    custom_id = found.get("custom_id")
    return custom_id if isinstance(custom_id, str) and custom_id.strip() else None


def _told(error: ValidationError, *where: str) -> str:
    """Which fields are wrong, and how; never what they hold."""
    return "; ".join(
        f"{'.'.join((*where, *map(str, fault['loc'])))}: {fault['msg'].removeprefix('Value error, ')}"
        for fault in error.errors(include_input=False, include_url=False)
    )
