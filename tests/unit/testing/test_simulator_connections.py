"""Connections: counted, held in numbers, seen to leave; start and stop."""

import json
import socket
import threading
from typing import Any

import pytest

from turnout.testing.simulator import (
    Answer,
    Ending,
    Silence,
    SimulatedProvider,
    Simulator,
    Stall,
)

ASK: Any = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
BODY = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
CHAT = "/a/v1/chat/completions"
MANY = 200


def test_open_connections_are_counted_by_provider(connect: Any) -> None:
    with Simulator([SimulatedProvider("a"), SimulatedProvider("b")]) as sim:
        clients = [connect(sim, name) for name in ("a", "a", "b")]
        for client in clients:
            client.chat.completions.create(**ASK)

        assert (sim.connections("a"), sim.connections("b"), sim.connections()) == (2, 1, 3)
        clients[0].close()
        assert sim.wait_for(lambda: sim.connections("a") == 1)


def test_many_clients_are_held_at_once_and_all_seen_to_leave(simulate: Any, bare: Any) -> None:
    sim = simulate(Silence())
    clients = [bare(sim) for _ in range(MANY)]
    for client in clients:
        client.send(BODY)
    sim.wait_for(lambda: sim.total("a") == MANY)
    assert sim.connections("a") == MANY

    for client in clients:
        client.close()
    sim.wait_for(lambda: sim.connections() == 0)
    assert {request.outcome for request in sim.requests("a")} == {Ending.CLIENT_CLOSED}


def test_a_client_that_shuts_its_socket_down_has_left(simulate: Any, bare: Any) -> None:
    sim = simulate(Stall())
    client = bare(sim)
    client.send({**BODY, "stream": True})
    client.read_until(b"assistant")
    client.socket.shutdown(socket.SHUT_RDWR)

    assert sim.wait_for(lambda: sim.requests("a")[0].outcome is Ending.CLIENT_CLOSED)


def test_a_client_that_leaves_a_long_stream_unread_is_noticed(simulate: Any, bare: Any) -> None:
    sim = simulate(Answer(text="x" * 4_000_000, chunks=4_000))
    client = bare(sim)
    client.send({**BODY, "stream": True})
    client.read_until(b"assistant")
    assert sim.requests("a")[0].outcome is Ending.OPEN
    client.close()

    sim.wait_for(lambda: sim.requests("a")[0].outcome is Ending.CLIENT_CLOSED)
    assert sim.requests("a")[0].chunks_sent < 4_000


def test_a_client_can_ask_for_the_connection_to_be_closed(simulate: Any, bare: Any) -> None:
    client = bare(simulate())
    data = json.dumps(BODY).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(data)}\r\n\r\n"
    client.socket.sendall(head.encode() + data)

    assert client.read_until(b"the end of the connection").endswith(b"}")


def test_stop_ends_whatever_still_runs(bare: Any) -> None:
    with Simulator([SimulatedProvider("a", Silence()), SimulatedProvider("b", Stall())]) as sim:
        silent, stalled, idle = bare(sim), bare(sim), bare(sim)
        silent.send(BODY)
        stalled.send({**BODY, "stream": True}, "/b/v1/chat/completions")
        stalled.read_until(b"assistant")
        sim.wait_for(lambda: sim.requests("a") and sim.connections() == 3)

    assert [sim.requests(name)[0].outcome for name in ("a", "b")] == [Ending.SERVER_STOPPED] * 2
    assert sim.connections() == 0
    idle.close()


def test_a_stopped_simulator_refuses_connections(bare: Any) -> None:
    with Simulator([SimulatedProvider("a")]) as sim:
        pass
    with pytest.raises(ConnectionRefusedError):
        bare(sim)


def test_stop_may_be_called_before_start_and_twice() -> None:
    sim = Simulator([SimulatedProvider("a")])
    sim.stop()
    sim.start()
    port = sim.port
    sim.stop()
    sim.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_it_runs_on_one_named_daemon_thread(simulate: Any) -> None:
    simulate()
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "turnout-simulator"]

    assert thread.daemon


def test_a_fixed_port_is_used_and_a_taken_one_is_an_error(simulate: Any) -> None:
    sim = simulate()
    with pytest.raises(OSError, match="address"):
        Simulator([SimulatedProvider("a")], port=sim.port).start()

    port = sim.port
    sim.stop()
    with Simulator([SimulatedProvider("a")], port=port) as again:
        assert again.base_url("a") == f"http://127.0.0.1:{port}/a/v1"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Simulator([]),
        lambda: Simulator([SimulatedProvider("a"), SimulatedProvider("a")]),
        lambda: SimulatedProvider(""),
        lambda: SimulatedProvider("a/b"),
        lambda: SimulatedProvider("a b"),
        lambda: SimulatedProvider("a", chunks=0),
    ],
)
def test_settings_that_cannot_work_are_refused(make: Any) -> None:
    with pytest.raises(ValueError, match=r"name|chunks"):
        make()
