"""Errors on their way to another process, or copied: they are made anew from what they hold, not from their text."""

import pickle
from typing import Any, Final

#: What an SDK gave. It is of no use elsewhere, and may hold the request, key included.
_STAYS: Final = frozenset({"original", "response", "event"})


def packed(error: BaseException) -> tuple[Any, ...]:
    """What ``__reduce__`` gives for an error whose arguments are not those that its class is called with. The SDK's
    own objects, and whatever cannot travel, are None where it arrives."""
    travels = {
        name: value if _travels(value) else None for name, value in vars(error).items() if name not in _STAYS
    }
    return unpacked, (type(error), error.args, {**dict.fromkeys(_STAYS & vars(error).keys()), **travels})


def unpacked(kind: type[BaseException], args: tuple[Any, ...], held: dict[str, Any]) -> BaseException:
    """An error as it was, without having it say again what it says."""
    error = kind.__new__(kind, *args)
    error.args = args
    vars(error).update(held)
    return error


def portable(error: BaseException, text: str) -> BaseException:
    """``error``, or a plain one that says ``text`` where it cannot travel."""
    return error if _travels(error) else RuntimeError(text)


def _travels(value: object) -> bool:
    try:
        pickle.loads(pickle.dumps(value))
    except Exception:
        return False
    return True
