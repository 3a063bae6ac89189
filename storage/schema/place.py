"""What lies where a database file should be, told without opening it.

Nothing here may open the file: where a process closes it, it loses all the locks that it has on it by way of a driver.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from turnout.errors import DatabaseExistsError, StorageError
from turnout.storage.files import missing
from turnout.storage.schema.facts import SchemaState, Target
from turnout.storage.schema.verdict import Verdict, refusal

_ABSENT: Final = Verdict(SchemaState.ABSENT, "is not there")


def found_at(path: str) -> Verdict | None:
    """None for what only its driver can tell more of. Raises ``StorageError`` for what cannot be reached."""
    try:
        status = Path(path).stat()
    except FileNotFoundError:
        if os.path.lexists(path):
            return Verdict(SchemaState.FOREIGN, "is a symbolic link that leads nowhere")
        return _ABSENT
    except NotADirectoryError:
        return _ABSENT
    except OSError as error:
        raise StorageError(f"the database {path} cannot be reached: {error.strerror or error}") from error
    if stat.S_ISDIR(status.st_mode):
        return Verdict(SchemaState.FOREIGN, "is a folder")
    if not stat.S_ISREG(status.st_mode):
        return Verdict(SchemaState.FOREIGN, "is no regular file")
    if not os.access(path, os.R_OK):
        raise StorageError(
            f"the database {path} may not be read by this user; run this as the user that owns it"
        )
    return Verdict(SchemaState.EMPTY, "is an empty file") if status.st_size == 0 else None


def require_file(target: Target) -> None:
    """Raise ``StorageError`` where nothing is, and ``SchemaMismatchError`` for what is no file."""
    found = found_at(target.name)
    if found is None or found.state is SchemaState.EMPTY:
        return
    if found.state is SchemaState.ABSENT:
        raise missing(target.name)
    raise refusal(target, found)


def refuse_occupied(path: str, what: str, then: str) -> None:
    """Raise ``DatabaseExistsError`` where there is anything at ``path``, be it a link that leads nowhere."""
    if os.path.lexists(path):
        raise occupied(path, what, then)


def occupied(path: str, what: str, then: str) -> DatabaseExistsError:
    return DatabaseExistsError(
        f"{what} cannot be made at {path}: something is there, and was left untouched. {then}"
    )


def create_file(target: Target, make: Callable[[str], bool]) -> None:
    """Have ``make`` make a file where nothing is; raises ``DatabaseExistsError`` where there is anything."""
    found = found_at(target.name)
    if found is None or found.state is not SchemaState.ABSENT or not make(target.name):
        then = f"Give another path, move it away, or see what it is: turnout storage inspect {target.options}"
        raise occupied(target.name, "a database", then)
