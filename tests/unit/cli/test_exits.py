"""How commands end: the first Ctrl-C ends the work, the second is passed over, the third ends the process."""

import signal
import subprocess
import sys
import threading

import pytest

from turnout.cli.exits import comes_of_ctrl_c, end_orderly_at_ctrl_c, ending_at_ctrl_c, stop_if_pressed

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


#: Python prints what is raised in such a callback, and goes on.
DROPPED = """
import signal, weakref
from turnout.cli.exits import end_orderly_at_ctrl_c, ending_at_ctrl_c, stop_if_pressed

class Anything: pass

end_orderly_at_ctrl_c()
with ending_at_ctrl_c():
    stop_if_pressed()
    thing = Anything()
    gone = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
    del thing
    print("going on", flush=True)
    stop_if_pressed()
    print("never", flush=True)
"""
MADE_ANOTHER = """
import signal
from turnout.cli.exits import end_orderly_at_ctrl_c, ending_at_ctrl_c

end_orderly_at_ctrl_c()
with ending_at_ctrl_c():
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise RuntimeError("Query interrupted") from None
"""
THROUGH_EXEC = """
from turnout.cli.exits import end_orderly_at_ctrl_c, ending_at_ctrl_c

end_orderly_at_ctrl_c()
with ending_at_ctrl_c():
    exec("import signal; signal.raise_signal(signal.SIGINT)")
"""
HELD = """
import signal
from turnout.cli.exits import end_orderly_at_ctrl_c, ending_at_ctrl_c, holding_ctrl_c

end_orderly_at_ctrl_c()
with ending_at_ctrl_c():
    with holding_ctrl_c():
        signal.raise_signal(signal.SIGINT)
        print("whole", flush=True)
    print("never", flush=True)
"""


def python(script: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=50, check=False
    )


def test_a_press_that_python_dropped_is_raised_again() -> None:
    done = python(DROPPED)
    assert (done.returncode, done.stdout) == (130, "going on\n")
    assert done.stderr.startswith("Exception ignored")
    assert done.stderr.endswith("\nStopped.\n")


def test_a_press_that_is_held_ends_the_work_afterwards() -> None:
    done = python(HELD)
    assert (done.returncode, done.stdout, done.stderr) == (130, "whole\n", "Stopped.\n")


def test_a_press_amid_the_making_of_a_dataclass_ends_with_the_same_code() -> None:
    done = python(THROUGH_EXEC)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Stopped.\n")


def test_what_a_library_makes_of_a_press_ends_the_command_as_the_press_does() -> None:
    done = python(MADE_ANOTHER)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Stopped.\n")


def test_without_a_press_an_error_stays_what_it_is() -> None:
    stop_if_pressed()
    assert not comes_of_ctrl_c(RuntimeError())
    with pytest.raises(RuntimeError, match="its own"), ending_at_ctrl_c():
        raise RuntimeError("its own")


def test_on_another_thread_nothing_is_changed() -> None:
    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=end_orderly_at_ctrl_c)
    thread.start()
    thread.join(20)
    assert signal.getsignal(signal.SIGINT) is before


LAST = """
import atexit, signal

atexit.register(lambda: print(signal.getsignal(signal.SIGINT).name))
from turnout.cli.exits import end_orderly_at_ctrl_c

end_orderly_at_ctrl_c()
"""


def test_a_press_after_all_else_has_ended_does_not_kill() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LAST], capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.stdout, done.stderr) == ("SIG_IGN\n", "")
