"""One SDK client for each provider: shared, replaced, closed, and left alone by forked children."""

import json
import os
import subprocess
import sys
import threading
from typing import Any

import pytest

from turnout.testing.simulator import Answer, key_mark


def test_calls_in_a_row_share_one_connection(bench: Any) -> None:
    adapter = bench.adapter()
    for _ in range(3):
        bench.call(adapter)
    assert len({request.connection for request in bench.simulator.requests("alpha")}) == 1


def test_threads_share_one_client_and_none_waits_for_another(bench: Any) -> None:
    adapter = bench.adapter()
    bench.play(Answer(latency_seconds=0.05))
    answers: list[str] = []
    threads = [
        threading.Thread(target=lambda: answers.append(bench.text_of(bench.call(adapter)))) for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert answers == ["all is well"] * 12
    assert len(adapter._clients._published) == 1


def test_a_changed_key_is_used_by_the_next_call_and_the_old_connections_close(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = bench.adapter(api_key=None, api_key_env="ALPHA_KEY")
    for key in ("first-key", "second-key"):
        monkeypatch.setenv("ALPHA_KEY", key)
        bench.call(adapter)
    marks = [request.headers["authorization"] for request in bench.simulator.requests("alpha")]
    assert marks == [f"Bearer {key_mark('first-key')}", f"Bearer {key_mark('second-key')}"]
    bench.simulator.wait_for(lambda: bench.simulator.connections() == 1)


def test_a_stream_outlives_the_change_of_the_key_and_its_client_closes_with_it(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = bench.adapter(api_key=None, api_key_env="ALPHA_KEY")
    monkeypatch.setenv("ALPHA_KEY", "first-key")
    stream = bench.stream(adapter)
    next(stream)
    monkeypatch.setenv("ALPHA_KEY", "second-key")
    bench.call(adapter)
    assert "".join(map(bench.piece_of, stream)) == "all is well"
    bench.simulator.wait_for(lambda: bench.simulator.connections() == 1)


def test_close_lets_an_open_stream_end(bench: Any) -> None:
    adapter = bench.adapter()
    stream = bench.stream(adapter)
    adapter.close()
    assert "".join(map(bench.piece_of, stream)) == "all is well"
    bench.simulator.wait_for(lambda: bench.simulator.connections() == 0)


FORKED = """
import json, os, sys
from turnout.adapters.openai_chat import OpenAIChatAdapter
from turnout.calls import ApiProtocol
from turnout.config import ProviderConfig

config = ProviderConfig(provider_id="a", name="a", protocol=ApiProtocol.OPENAI_CHAT, model="m",
                        base_url=sys.argv[1], api_key="k")
adapter = OpenAIChatAdapter(config)
asked = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
call = lambda **more: adapter.invoke("chat.completions.create", {**asked, **more})
call()
stream = call(stream=True)
next(stream)
child = os.fork()
if child == 0:
    call()
    try:
        next(stream)
    except Exception as error:
        assert "fork" in str(error), error
    else:
        os._exit(3)
    stream.close()
    del stream
    adapter.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(json.dumps(len(list(stream))))
call()
adapter.close()
"""


@pytest.mark.parametrize("bench", ["chat"], indirect=True)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_opens_connections_of_its_own_and_leaves_its_parents_alone(bench: Any) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED, bench.simulator.base_url("alpha")],
        check=False,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == 4
    first, streamed, childs, again = (request.connection for request in bench.simulator.requests("alpha"))
    assert childs not in (first, streamed, again)
