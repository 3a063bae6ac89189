"""Where the rows of a store wait while it cannot take them."""

import os
import re
from hashlib import sha256
from pathlib import Path
from typing import Final

from turnout.errors import ConfigError
from turnout.storage.files import resolved

DEFAULT_FOLDER: Final = "~/.turnout/spool"
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")


def spool_folder(store: object, spool_dir: str | os.PathLike[str] | None = None) -> str | None:
    """The folder in which rows of ``store`` wait, the same in every process that has the same database.

    Beside the database file where ``store.path`` names one; in ``~/.turnout/spool`` under ``store.spool_name`` where it
    has one; a folder of its own in ``spool_dir`` where that is given; None for any other store. Touches nothing. Raises
    ``ConfigError`` for a ``spool_name`` that is not a plain file name.
    """
    # By whatever link a process came to it, the file has one spool.
    path, name = _database_of(store), _name_of(store)
    if spool_dir is not None:
        if path is not None:
            name = f"{Path(path).name}-{sha256(os.fsencode(path)).hexdigest()[:8]}"
        return resolved(Path(spool_dir, name or type(store).__name__))
    if path is not None:
        return f"{path}.spool"
    return None if name is None else resolved(Path(DEFAULT_FOLDER, name))


def _database_of(store: object) -> str | None:
    path = getattr(store, "path", None)
    return (
        os.path.realpath(path) if isinstance(path, (str, os.PathLike)) and Path(path).is_absolute() else None
    )


def _name_of(store: object) -> str | None:
    name = getattr(store, "spool_name", None)
    if name is None:
        return None
    if not isinstance(name, str) or not _PLAIN_NAME.fullmatch(name):
        raise ConfigError(f"spool_name must be a plain file name of at most 200 characters, not {name!r}")
    return name
