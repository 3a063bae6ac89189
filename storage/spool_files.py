"""Files that one process appends to and any process may take over once it is done, or gone.

Who appends holds the system's lock on the file, which ends with the process however it ends: an open file without a
lock was left behind. Who takes a file in holds the same lock, so that no two do.
"""

import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from io import BufferedReader, FileIO
from pathlib import Path
from typing import IO, Any, Final

from turnout.errors import StorageError
from turnout.storage.files import PRIVATE_FILE, PRIVATE_FOLDER
from turnout.storage.spool_lines import UnreadableError

#: None on Windows: there what is open is taken for its owner's, and two may take in one file, which is harmless.
_system: Any = None
with suppress(ImportError):
    import fcntl as _system

OPEN: Final = ".open"
SEALED: Final = ".rows"
DAMAGED: Final = ".damaged"
_TRIES: Final = 10
_NO_LINKS: Final = getattr(os, "O_NOFOLLOW", 0)
#: Opening a pipe would wait for its other end.
_NO_WAIT: Final = getattr(os, "O_NONBLOCK", 0)


class OpenFile:
    """A new private file in ``folder``, and the lock on it. Raises ``OSError``, as all its methods do but ``seal``."""

    def __init__(self, folder: Path, name: Callable[[], str]) -> None:
        self._unsynced = _make_folder(folder)
        for _ in range(_TRIES):
            self.path = folder / f"{name()}{OPEN}"
            self._file = FileIO(self.path, "ab", opener=_create)
            # Between its making and its locking another may have taken it for one left behind, and deleted it.
            if _lock(self._file) is not False and _is_at(self._file, self.path):
                return
            self._file.close()
        raise StorageError(f"every new file in {folder} is taken away at once; find out who does it")

    @property
    def is_there(self) -> bool:
        """Whether the file can still be found: what is appended to a deleted one is lost."""
        return os.fstat(self._file.fileno()).st_nlink > 0

    def append(self, header: bytes, chunks: Iterable[bytes], *, durable: bool) -> int:
        """Append all of ``chunks`` or none, and give the file's size; a new file begins with ``header``."""
        before = os.fstat(self._file.fileno()).st_size
        try:
            if not before:
                self._write(header)
            for chunk in chunks:
                self._write(chunk)
            if durable:
                self._sync()
        except BaseException:
            self._file.truncate(before)
            raise
        return os.fstat(self._file.fileno()).st_size

    def seal(self) -> None:
        """Give the file over to whoever takes it in. Where it cannot be renamed it is as one left behind."""
        with suppress(OSError):
            if _system is None:
                self._file.close()
            if self.path.stat().st_size:
                self.path.rename(self.path.with_suffix(SEALED))
            else:
                self.path.unlink()
        _unlock(self._file)
        self.let_go()

    def let_go(self) -> None:
        """Close this process's descriptor; the lock stays with those who share it."""
        with suppress(OSError):
            self._file.close()

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]

    def _sync(self) -> None:
        os.fsync(self._file.fileno())
        while self._unsynced:
            _sync_folder(self._unsynced[-1])
            self._unsynced.pop()


class Claim:
    """A file that was sealed or left behind, held for as long as it takes to read it."""

    def __init__(self, path: Path, file: FileIO) -> None:
        self.path = path
        self.file = BufferedReader(file)

    def delete(self) -> None:
        """All of it was taken in."""
        self._closed_on_windows()
        self.path.unlink()

    def set_aside(self) -> Path:
        """Keep it for people, never to be read again, under the path given."""
        self._closed_on_windows()
        return self.path.rename(self.path.with_suffix(DAMAGED))

    def close(self) -> None:
        """Let others have it, if it is still there."""
        if not self.file.closed:
            _unlock(self.file)
        self.file.close()

    def _closed_on_windows(self) -> None:
        if _system is None:
            self.file.close()


def claimed(path: Path) -> Claim | None:
    """The file at ``path``, None where somebody else has it or had it.

    Raises ``UnreadableError`` for what is not a file of this user's own, ``OSError`` for what cannot be opened now.
    """
    try:
        file = FileIO(path, "rb+", opener=_reopen)
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise UnreadableError("may not be opened by this user") from error
    try:
        _refuse_foreign(os.fstat(file.fileno()))
        held = _lock(file)
        # Without locks nobody knows who is gone.
        free = held is True or (held is None and path.suffix == SEALED)
        if free and _is_at(file, path):
            return Claim(path, file)
    except BaseException:
        file.close()
        raise
    file.close()
    return None


def _refuse_foreign(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableError("is not a plain file")
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        raise UnreadableError(f"belongs to another user ({status.st_uid})")


def _create(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_EXCL | _NO_LINKS, PRIVATE_FILE)


def _reopen(path: str, flags: int) -> int:
    return os.open(path, flags | _NO_LINKS | _NO_WAIT)


def _lock(file: FileIO) -> bool | None:
    """Lock ``file``: False where another has it, None where the system or the file system has no locks."""
    if _system is None:
        return None
    try:
        _system.flock(file, _system.LOCK_EX | _system.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _unlock(file: IO[bytes] | FileIO) -> None:
    # Closing would not do: a child that was forked meanwhile has the same lock.
    if _system is not None:
        with suppress(OSError):
            _system.flock(file, _system.LOCK_UN)


def _is_at(file: FileIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.lstat())
    except FileNotFoundError:
        return False


def _make_folder(folder: Path) -> list[Path]:
    """Make what is missing of ``folder``, private. Given back: the folders that hold something new, or soon will."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(PRIVATE_FOLDER, exist_ok=True)
    return [folder, *(one.parent for one in missing)]


def _sync_folder(folder: Path) -> None:
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
