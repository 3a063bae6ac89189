"""Validated settings. A plain dict does wherever one of these does; a typo raises at construction."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Strict, ValidationError

from turnout.errors import ConfigError

#: True is no number, nor is "60", and "no" is no flag: each would be taken for what was not meant.
Number = Annotated[float, Strict()]
Whole = Annotated[int, Strict()]
Flag = Annotated[bool, Strict()]


class Settings(BaseModel):
    """Frozen, closed to unknown names, and refusing with ``ConfigError``."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _kind(error)(_explained(type(self).__name__, error)) from None


def _kind(error: ValidationError) -> type[ConfigError]:
    """The first kind of ConfigError that a field, or settings within these, raised; else ConfigError itself."""
    causes = (fault.get("ctx", {}).get("error") for fault in error.errors())
    return next((type(cause) for cause in causes if isinstance(cause, ConfigError)), ConfigError)


def _explained(what: str, error: ValidationError) -> str:
    faults = error.errors()
    # A tuple whose only item is wrong is called too short as well, which would send people looking for a second fault.
    told = [fault for fault in faults if fault["type"] != "too_short"] or faults
    return f"{what}: {'; '.join(_explained_fault(fault) for fault in told)}"


def _explained_fault(fault: Any) -> str:
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"]).lstrip(".")
    if fault["type"] == "extra_forbidden":
        return f"{field} is no known field"
    message = str(fault["msg"]).removeprefix("Value error, ")
    return f"{field}: {message}" if field else message


SettingsT = TypeVar("SettingsT", bound=Settings)


def settings_of(kind: type[SettingsT], value: "SettingsT | Mapping[str, Any] | None") -> SettingsT:
    """``value`` as settings: itself, a mapping checked now, or the defaults."""
    if value is None:
        return kind()
    if isinstance(value, kind):
        return value
    if isinstance(value, Mapping):
        return kind(**value)
    raise ConfigError(f"{kind.__name__} or a mapping was expected, not {type(value).__name__}")
