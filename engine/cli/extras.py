"""What the command needs beside turnout's own dependencies, and one clear line where it is missing."""

import sys
from collections.abc import Iterable
from importlib.util import find_spec

from turnout.cli.exits import USAGE


def require(what: str, packages: Iterable[str]) -> None:
    """End the process with one line where ``what`` needs a package that is not installed."""
    missing = [package for package in packages if find_spec(package) is None]
    if not missing:
        return
    are = "is" if len(missing) == 1 else "are"
    print(
        f'{what} needs {" and ".join(missing)}, which {are} not installed: pip install "turnout[all]"',
        file=sys.stderr,
    )
    raise SystemExit(USAGE)
