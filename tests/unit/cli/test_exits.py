"""How commands end: the first Ctrl-C ends the work, the second is passed over, the third ends the process."""

import signal
import subprocess
import sys
import threading

import pytest

from turnout.cli.exits import end_orderly_at_ctrl_c

PRESSES = """
import signal, sys
from turnout.cli.exits import end_orderly_at_ctrl_c

end_orderly_at_ctrl_c()
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("ending", flush=True)
signal.raise_signal(signal.SIGINT)
print("still ending", flush=True)
for _ in range(int(sys.argv[1])):
    signal.raise_signal(signal.SIGINT)
print("ended", flush=True)
"""


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [("0", 0, ["ending", "still ending", "ended"]), ("1", 130, ["ending", "still ending"])],
)
def test_one_press_ends_the_work_two_do_no_more_and_three_end_the_process(
    more: str, code: int, said: list[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRESSES, more], capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.returncode, done.stdout.split("\n")[:-1], done.stderr) == (code, said, "")


def test_on_another_thread_nothing_is_changed() -> None:
    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=end_orderly_at_ctrl_c)
    thread.start()
    thread.join(20)
    assert signal.getsignal(signal.SIGINT) is before
