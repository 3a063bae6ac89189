"""How a database is brought to the version in use, whichever backend it is of."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from turnout.errors import StorageError
from turnout.storage import schema
from turnout.storage.files import create_private
from turnout.storage.schema.facts import SchemaState, StorageBackend, Target
from turnout.storage.schema.place import occupied, refuse_occupied
from turnout.storage.schema.verdict import Verdict, refusal


class Step(NamedTuple):
    """What brings a database from the version before to ``version``, and states that there."""

    version: int
    script: str


class Alone(Protocol):
    """A database that nobody else has as long as this is open."""

    def look(self) -> Verdict:
        """What it is."""

    def take(self, step: Step) -> None:
        """Do all of ``step`` or nothing of it."""


A = TypeVar("A", bound=Alone)


class Backup(NamedTuple, Generic[A]):
    """A copy to be made at ``path``, where nothing may be. ``copy`` makes a whole one, or raises ``StorageError`` where
    it came out different."""

    path: str
    copy: Callable[[A, str], None]

    def refuse_occupied(self) -> None:
        refuse_occupied(self.path, "a backup", _ANOTHER_PATH)

    def make(self, database: A) -> None:
        if not create_private(self.path, partial(self.copy, database)):
            raise occupied(self.path, "a backup", _ANOTHER_PATH)


def route(backend: StorageBackend, version: int) -> list[Step]:
    """All steps from ``version`` to the one in use, read before any of them is taken."""
    return [Step(to, schema.script(backend, to)) for to in range(version + 1, schema.VERSION + 1)]


def migrate(
    target: Target,
    seen: Verdict,
    alone: Callable[[], AbstractContextManager[A]],
    backup: Backup[A] | None = None,
) -> tuple[int, str | None]:
    """The version that the database had, and the path of the backup if one was made. ``seen`` is what it was found to
    be by who changed nothing; it is opened by ``alone`` only where there is something to do.

    Raises ``SchemaMismatchError`` for what cannot be migrated, ``DatabaseExistsError`` for a backup where something is.
    """
    if not _to_do(target, seen):
        return seen.version, None
    if backup is not None:
        backup.refuse_occupied()
    with alone() as database:
        # Another may have been quicker.
        seen = database.look()
        if not _to_do(target, seen):
            return seen.version, None
        steps = route(target.backend, seen.version)
        if backup is not None:
            backup.make(database)
        kept = None if backup is None else backup.path
        for step in steps:
            try:
                database.take(step)
            except StorageError as error:
                raise _undone(target, step, error, kept) from error
    return seen.version, kept


_ANOTHER_PATH: Final = "Give another path for it"


def _to_do(target: Target, seen: Verdict) -> bool:
    if seen.state is SchemaState.OUTDATED:
        return True
    if seen.state is not SchemaState.CURRENT:
        raise refusal(target, seen)
    return False


def _undone(target: Target, step: Step, error: StorageError, backup_path: str | None) -> StorageError:
    kept = f"; the backup {backup_path} is kept" if backup_path else ""
    return type(error)(f"{target.name} is of version {step.version - 1} still: {error}{kept}")


def require_step(step: Step, seen: Verdict) -> None:
    """Raise ``StorageError`` unless ``seen``, what a database is after ``step``, is what it should be by then."""
    if seen.version != step.version or seen.state not in (SchemaState.CURRENT, SchemaState.OUTDATED):
        raise StorageError(f"the step to version {step.version} did not come out as it should: it {seen.why}")
