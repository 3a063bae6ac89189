"""Whether it is this process, and no provider, that has run out of something."""

import errno
from typing import Final

_SHORT_OF: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})


def shortage(error: BaseException | None) -> OSError | None:
    """The system's own error behind ``error`` where it says that files, memory or buffers are used up; else None."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, OSError) and error.errno in _SHORT_OF:
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None
