"""Where rows wait while their store cannot take them: files that outlive the process."""

import os
import random
import re
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from loguru import logger

from turnout.clock import Clock, SystemClock
from turnout.errors import StorageError
from turnout.ids import TimeOrderedIds
from turnout.storage.files import resolved
from turnout.storage.rows import Row
from turnout.storage.spool_files import OPEN, SEALED, Claim, OpenFile, claimed
from turnout.storage.spool_lines import Lines, UnreadableError, encoded, header

#: Some 4,000 rows: a file is taken in between two looks at what else there is to do.
FILE_BYTES: Final = 1024 * 1024
#: Rows that are made into lines, or given to a store, at a time.
BATCH_ROWS: Final = 5_000
_NAME: Final = re.compile(rf"[0-9a-f]{{32}}-\d+(?:{re.escape(OPEN)}|{re.escape(SEALED)})")


@dataclass(frozen=True, slots=True)
class TakenIn:
    """What was taken in: rows that were written, files that are done with, and lines that could not be read."""

    rows: int = 0
    files: int = 0
    damaged_lines: int = 0


class Spool:
    """Rows that a store could not take yet, in append-only files of this process, until somebody takes them in.

    Any number of processes and of these may share a ``folder``, which is made private at first use; nothing is touched
    before. One is used by one thread at a time, but for ``is_empty``. A file is sealed at ``file_bytes``, and named by
    what its name has before the dot.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        file_bytes: int = FILE_BYTES,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.folder = resolved(folder)
        self._file_bytes = file_bytes
        self._ids = TimeOrderedIds(clock or SystemClock(), rng or random.Random())
        self._open: OpenFile | None = None
        self._pid = os.getpid()
        self._mine: set[str] = set()
        #: The file that was taken in, or could not be, last.
        self.trying = ""
        #: Names of files that this process cannot take in, and what it told of already.
        self._passed_over: frozenset[str] = frozenset()
        self._told_of: set[str] = set()
        #: Rows that were not kept, since no store would take them.
        self.left_out = 0

    def append(self, rows: Sequence[Row], *, durable: bool = False) -> int:
        """Keep all of ``rows`` or none; with ``durable`` they outlive a crash of the machine too.

        Rows that no store would take are left out, counted in ``left_out`` and told of once a reason: how many were
        kept is given back. Raises ``StorageError`` when the disk does not take them.
        """
        if not rows:
            return 0
        faults: list[str] = []
        try:
            size = self._current().append(header(), _chunks(rows, faults), durable=durable)
        except StorageError:
            raise
        except BaseException as error:
            # Whatever is the matter with this file, the next begins anew.
            self.seal()
            if isinstance(error, OSError):
                raise StorageError(
                    f"no rows can be spooled in {self.folder} ({error.strerror or error}); make room there, or name "
                    "another spool_dir"
                ) from error
            raise
        if size >= self._file_bytes:
            self.seal()
        if faults:
            self._leave_out(faults)
        return len(rows) - len(faults)

    def seal(self) -> None:
        """Close the open file, so that any process may take it in. Never raises."""
        self._leave_what_is_the_parents()
        if self._open is not None:
            self._open.seal()
            self._open = None

    def close(self) -> None:
        """Seal. Idempotent."""
        self.seal()

    def forget_parent(self) -> None:
        """In a forked child: leave the parent's file to the parent; the next rows go into a file of the child's own."""
        self._pid = os.getpid()
        self._mine = set()
        if self._open is not None:
            self._open.let_go()
            self._open = None

    @property
    def is_empty(self) -> bool:
        """Whether no file waits here, of this process or another. Never raises.

        A file that a living process still appends to waits too; one that this process can never take in does not.
        """
        try:
            return not self._waiting()
        except OSError:
            return True

    @property
    def mine(self) -> frozenset[str]:
        """The files of this spool's own that wait here. Never raises."""
        with suppress(OSError):
            self._mine &= self.files
        return frozenset(self._mine)

    @property
    def files(self) -> frozenset[str]:
        """The files that wait here, of this process or another. Raises ``OSError``."""
        return frozenset(Path(name).stem for name in self._waiting())

    def taken_in(
        self,
        write: Callable[[Sequence[Row]], object],
        *,
        only: Container[str] | None = None,
        at_most: int | None = None,
        but: Container[str] = (),
    ) -> TakenIn:
        """Hand the rows of every file (where it is given, of ``only`` these, ``at_most`` so many, and none of ``but``)
        to ``write``, oldest file first, up to 5,000 rows at a time, and delete the file. ``trying`` names the last one.

        Files that someone still appends to or takes in are left to them. What ``write`` raises goes on to the caller,
        and the file stays: some of its rows will come again, and stores pass over those they have. Every row is such
        that all stores take it.

        Raises ``StorageError`` when the folder cannot be read.
        """
        self.seal()
        total = TakenIn()
        try:
            names = self._waiting()
        except OSError as error:
            raise StorageError(
                f"the spool {self.folder} cannot be read ({error.strerror or error})"
            ) from error
        for name in names:
            file = Path(name).stem
            if file not in but and (only is None or file in only):
                self.trying = file
                done = self._take(Path(self.folder, name), write)
                total = TakenIn(
                    total.rows + done.rows,
                    total.files + done.files,
                    total.damaged_lines + done.damaged_lines,
                )
                if at_most is not None and total.files >= at_most:
                    break
        return total

    def _current(self) -> OpenFile:
        self._leave_what_is_the_parents()
        if self._open is not None and not self._open.is_there:
            self._open.let_go()
            self._open = None
        if self._open is None:
            self._open = OpenFile(Path(self.folder), lambda: f"{self._ids():032x}-{self._pid}")
            self._mine.add(self._open.path.stem)
        return self._open

    def _leave_what_is_the_parents(self) -> None:
        if self._pid != os.getpid():
            self.forget_parent()

    def _waiting(self) -> list[str]:
        """The names of the files that wait, oldest first."""
        try:
            with os.scandir(self.folder) as entries:
                return sorted(
                    entry.name
                    for entry in entries
                    if _NAME.fullmatch(entry.name)
                    and entry.name not in self._passed_over
                    and entry.is_file(follow_symlinks=False)
                )
        except FileNotFoundError:
            return []

    def _leave_out(self, faults: Sequence[str]) -> None:
        self.left_out += len(faults)
        for fault in {*faults} - self._told_of:
            self._told_of.add(fault)
            logger.warning("{}; it is left out of the ledger, and so is every row like it", fault)

    def _take(self, path: Path, write: Callable[[Sequence[Row]], object]) -> TakenIn:
        try:
            claim = claimed(path)
        except UnreadableError as error:
            self._pass_over(path, str(error))
            return TakenIn()
        except OSError as error:
            self._tell_of(path, f"cannot be opened ({error.strerror or error})")
            return TakenIn()
        if claim is None:
            return TakenIn()
        try:
            return self._read(claim, write)
        except UnreadableError as error:
            self._pass_over(path, str(error))
            return TakenIn()
        finally:
            claim.close()

    def _read(self, claim: Claim, write: Callable[[Sequence[Row]], object]) -> TakenIn:
        count, lines = 0, Lines(claim.file)
        rows = iter(lines)
        while batch := list(islice(rows, BATCH_ROWS)):
            write(batch)
            count += len(batch)
        if lines.torn:
            logger.debug("{} ends in a line that was not written to its end", claim.path)
        try:
            if lines.damaged:
                logger.warning(
                    "{}: {}; lines skipped: {}. The others were taken in, and the file is kept as {}",
                    claim.path, lines.fault, lines.damaged, claim.set_aside().name,
                )  # fmt: skip
            else:
                claim.delete()
        except OSError as error:
            self._pass_over(claim.path, f"was taken in and cannot be removed ({error.strerror or error})")
        self._mine.discard(claim.path.stem)
        return TakenIn(count, 1, lines.damaged)

    def _pass_over(self, path: Path, why: str) -> None:
        """Leave a file alone that will not be better when it is looked at again."""
        self._passed_over |= {path.name}
        self._tell_of(path, why)

    def _tell_of(self, path: Path, why: str) -> None:
        if path.name not in self._told_of:
            self._told_of.add(path.name)
            logger.warning("the spool file {} {}; its rows wait there", path, why)


def _chunks(rows: Sequence[Row], faults: list[str]) -> Iterator[bytes]:
    """The lines of ``rows``, some at a time. What is wrong with those that have none is added to ``faults``."""
    for start in range(0, len(rows), BATCH_ROWS):
        batch = rows[start : start + BATCH_ROWS]
        try:
            yield encoded(batch)
        except StorageError:
            yield b"".join(_kept_of(batch, faults))


def _kept_of(rows: Sequence[Row], faults: list[str]) -> Iterator[bytes]:
    for row in rows:
        try:
            yield encoded([row])
        except StorageError as error:
            faults.append(str(error))
