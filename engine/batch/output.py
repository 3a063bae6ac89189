"""The output file of a batch: private, appended to line by line, and taken up again whatever ended the last run."""

import json
import os
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import BufferedWriter, FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Self

from turnout.errors import ConfigError

_PRIVATE: Final = 0o600
_COPIED_AT_ONCE: Final = 1 << 20
#: How every line of ours begins; a torn one too, as far as it goes.
_BEGINNING: Final = b'{"id": "batch_req_'


class OutputFile:
    """Open for appending, and held by one process at a time. ``answered`` are the ids whose answers it has already."""

    def __init__(self, file: FileIO, answered: frozenset[str] = frozenset()) -> None:
        self.answered = answered
        self._file = file

    @classmethod
    def new(cls, path: Path) -> Self:
        """A file that was not there before. Raises ``ConfigError`` where it was, or cannot be made."""
        try:
            descriptor = os.open(
                path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, _PRIVATE
            )
        except FileExistsError:
            if not path.is_file():
                raise ConfigError(
                    f"{path} is no regular file; name a file, or - for standard output"
                ) from None
            raise ConfigError(
                f"{path} is there already; go on with it (--resume), or name another file"
            ) from None
        except OSError as error:
            raise ConfigError(
                f"{path} cannot be made: {error.strerror}; name a file in a folder that exists and may be written to"
            ) from error
        return cls(_held(FileIO(descriptor, "ab"), path))

    @classmethod
    def resumed(cls, path: Path) -> Self:
        """The file of an earlier run, with its answers alone: lines of failures, and a last line cut off by the end of
        that run, are taken out, to be run again. A file that is not there is made.

        Raises ``ConfigError`` where another process writes to it, or where it is no batch output; it is then left as
        it is.
        """
        if not path.is_file():
            return cls.new(path)
        path = path.resolve()
        try:
            with ExitStack() as stack:
                file = stack.enter_context(_held(FileIO(path, "r+b"), path))
                with path.open("rb") as earlier:
                    found = _survey(earlier, path)
                if found.dropped:
                    # The old one is held until then, so that no other process begins with it.
                    return cls(_rewritten(path, found), frozenset(found.answered))
                file.truncate(found.end)
                file.seek(found.end)
                stack.pop_all()
                return cls(file, frozenset(found.answered))
        except OSError as error:
            raise ConfigError(f"{path} cannot be taken up again: {error.strerror}") from error

    def write(self, line: bytes) -> None:
        """Append a whole line; once it returns, no end of this process can undo it."""
        left = memoryview(line)
        while left:
            left = left[self._file.write(left) :]

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(slots=True)
class _Survey:
    """What a file holds: the ids of its answers, where lines to drop begin, and where its last whole line ends."""

    answered: set[str] = field(default_factory=set)
    dropped: set[int] = field(default_factory=set)
    end: int = 0


def _survey(file: BinaryIO, path: Path) -> _Survey:
    found = _Survey()
    for number, line in enumerate(file, 1):
        torn = not line.endswith(b"\n")
        if torn and (line.startswith(_BEGINNING) or _BEGINNING.startswith(line)):
            break
        custom_id = _answered_id(line, number, path)
        if torn:
            break
        if custom_id is None or custom_id in found.answered:
            found.dropped.add(found.end)
        else:
            found.answered.add(custom_id)
        found.end += len(line)
    return found


def _answered_id(line: bytes, number: int, path: Path) -> str | None:
    """Whose answer a line is; None for the line of a failure."""
    try:
        output: Any = json.loads(line)
        custom_id, response, error = output["custom_id"], output["response"], output["error"]
        answers = error is None and 200 <= response["status_code"] < 300
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ConfigError(
            f"{path}, line {number} is not a line of batch output; name the output of an earlier run"
        ) from None
    return custom_id if answers and isinstance(custom_id, str) else None


def _rewritten(path: Path, found: _Survey) -> FileIO:
    """The file without its dropped lines, put in the old one's place in one step."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    new = _held(FileIO(descriptor, "ab"), path)
    try:
        buffered = BufferedWriter(new, _COPIED_AT_ONCE)
        with path.open("rb") as earlier:
            begin = 0
            for line in earlier:
                if begin < found.end and begin not in found.dropped:
                    buffered.write(line)
                begin += len(line)
        buffered.flush()
        buffered.detach()
        os.fsync(new.fileno())
        Path(name).replace(path)
    except BaseException:
        new.close()
        Path(name).unlink()
        raise
    return new


def _held(file: FileIO, path: Path) -> FileIO:
    """The file, kept from other batches until it is closed, by the system itself: nothing stays behind."""
    try:
        import fcntl
    except ImportError:
        return file
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise ConfigError(f"another process is writing {path}; wait for it, or stop it") from None
    return file
