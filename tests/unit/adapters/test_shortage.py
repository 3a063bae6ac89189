"""What this process ran out of is no provider's failure."""

import errno
import subprocess
import sys

import pytest

from turnout.adapters.shortage import shortage


def test_the_systems_error_is_found_behind_others_and_a_cycle_ends_the_search() -> None:
    used_up = OSError(errno.EMFILE, "Too many open files")
    between = ValueError()
    between.__context__ = used_up
    outer = RuntimeError()
    outer.__cause__ = between
    assert shortage(outer) is used_up

    used_up.errno = errno.ECONNREFUSED
    used_up.__context__ = outer
    assert shortage(outer) is None


NO_FILE_LEFT = """
import os, resource
from turnout import *
from turnout.testing.simulator import SimulatedProvider, Simulator
with Simulator([SimulatedProvider("a"), SimulatedProvider("b")]) as sim:
    providers = [
        dict(provider_id=n, name=n, protocol="openai_chat", model="m", api_key="k", base_url=sim.base_url(n))
        for n in "ab"
    ]
    call = CallVariant(ApiProtocol.OPENAI_CHAT, "chat.completions.create", CallType.REGULAR, {"messages": []})
    with ProviderRouter(providers, metrics_store=None, health={"failure_threshold": 1}) as router:
        for _ in "ab":
            # With clients that are built, but another time: their connections would still be open.
            router.invoke(call)
        router._engine._setup.close_targets()
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (os.dup(0), before[1]))
        try:
            router.invoke(call)
        except RouterExhaustedError as error:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
            print([one.fault.value for one in error.attempts], str(error).count("raise its limit (ulimit -n)"))
        print({name: report.state.value for name, report in router.health_report().items()})
"""


@pytest.mark.slow
def test_where_no_socket_is_left_the_call_fails_and_no_provider_is_blamed() -> None:
    run = subprocess.run([sys.executable, "-c", NO_FILE_LEFT], capture_output=True, text=True, timeout=60)

    assert run.stdout.splitlines() == ["['terminal', 'terminal'] 2", "{'a': 'closed', 'b': 'closed'}"]
