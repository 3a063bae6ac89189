"""A server that a test started, and of which nothing is left when the test is no more, however that ended."""

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

START_SECONDS = 30.0

#: Until a line comes, or its parent is gone.
_SUPERVISOR = """
"$@" & server=$!
if read -r _; then left=keep; else left=remove; fi
kill -$SIGNAL $server 2>/dev/null
wait $server
if [ $left = remove ]; then rm -rf "$FOLDER"; fi
"""


def system_user() -> str | None:
    """Whom servers run as that refuse to be root."""
    return "nobody" if os.geteuid() == 0 else None


class Supervised:
    """The process of a server that keeps everything in ``folder``, where ``log`` is what it says. ``ends_by`` is the
    signal that has it end without waiting for its clients."""

    def __init__(self, command: Sequence[str], folder: Path, *, ends_by: str = "INT") -> None:
        self._log = folder / "log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _SUPERVISOR, "sh", *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                user=system_user(),
                cwd=folder,
                env={**os.environ, "FOLDER": str(folder), "SIGNAL": ends_by},
                # Ctrl-C is for the tests.
                start_new_session=True,
            )

    def wait_until(self, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not ready():
            if self._ended_within(0.005) or time.monotonic() > deadline:
                told = self._log.read_text()
                self.stop()
                raise RuntimeError(f"the server did not start in {START_SECONDS:g} s; its log: {told}")

    def _ended_within(self, seconds: float) -> bool:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self) -> None:
        """Ends every connection and returns when nothing runs any more."""
        if self._process.poll() is not None:
            return
        with suppress(BrokenPipeError):
            self._process.communicate(b"\n", timeout=START_SECONDS)
