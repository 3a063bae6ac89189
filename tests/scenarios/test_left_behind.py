"""A future of the parent's, in a forked child."""

import os
import subprocess
import sys

CODE = """
import os, signal, sys, threading
from turnout import *
from turnout.testing import ScriptedAdapters

go_on, began = threading.Event(), threading.Event()

def wait(call):
    began.set()
    assert go_on.wait(20)
    return "answer"

router = ProviderRouter(
    [ProviderConfig(provider_id="a", name="a", protocol="openai_chat", model="m", api_key="k")],
    metrics_store=None, adapter_factory=ScriptedAdapters({"a": [wait, "other"]}),
)
future = router.submit(
    call := CallVariant(ApiProtocol.OPENAI_CHAT, "chat.completions.create", CallType.REGULAR, {"messages": []})
)
assert began.wait(20)
pid = os.fork()
if pid == 0:
    # A child that waited for ever would outlive the test.
    signal.alarm(15)
    for ask in (future.result, lambda: future.result(10), future.exception):
        try:
            print("child", ask())
        except ReentrantCallError as error:
            print("child", "fork" in str(error))
    print("child", future.cancel())
    print("child", router.submit(call).result(10))
    sys.stdout.flush()
    os._exit(0)
os.waitpid(pid, 0)
go_on.set()
print("parent", future.result(20))
router.close()
"""


def test_a_child_is_told_at_once_that_a_future_is_its_parents_and_leaves_the_call_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE],
        capture_output=True,
        text=True,
        timeout=50,
        env={**os.environ, "LOGURU_LEVEL": "CRITICAL"},
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [*["child True"] * 3, "child False", "child other", "parent answer"]
