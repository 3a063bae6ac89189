"""Proxies that the environment names."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from turnout import ProviderError
from turnout.adapters import transport

FailureOf = Callable[[Callable[[], Any]], ProviderError]


class Proxy(HTTPServer):
    """Answers for everybody, and keeps what it was asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Asked)
        self.asked: list[str] = []


class Asked(BaseHTTPRequestHandler):
    server: Proxy

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.asked.append(self.path)
        chat = [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "by proxy"}}
        ]
        said = {
            "type": "message",
            "content": [{"type": "output_text", "text": "by proxy", "annotations": []}],
        }
        body = json.dumps(
            {"id": "x", "choices": chat, "object": "response", "status": "completed", "output": [said]}
        )
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *known: object) -> None:
        """Say nothing."""


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy() as proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        yield proxy
        proxy.shutdown()
        thread.join(30)


def test_a_plain_call_goes_whole_through_an_http_proxy(
    bench: Any, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.server_port}")
    answer = bench.call(bench.adapter(base_url="http://far.test/v1"))
    assert bench.text_of(answer) == "by proxy"
    assert [url.partition("/v1/")[0] for url in proxy.asked] == ["http://far.test"]


def test_a_socks_proxy_without_the_package_for_it_is_told_with_what_to_install(
    bench: Any, monkeypatch: pytest.MonkeyPatch, failure_of: FailureOf
) -> None:
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1")
    monkeypatch.setattr(transport.importlib.util, "find_spec", lambda name: None)  # type: ignore[attr-defined]
    failure = failure_of(lambda: bench.call(bench.adapter(base_url="http://far.test/v1")))
    assert "pip install socksio" in str(failure)
