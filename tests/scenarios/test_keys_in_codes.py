"""A provider that sends the key back as its error's code or type: it is kept nowhere."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from turnout import Fault, ProviderError, SQLiteMetricsStore, TurnoutError
from turnout.testing import ScriptedAdapters
from turnout.testing.simulator import Failed, InStreamError, Status, StatusOkError

KEY = "sk-PLANTED-1234567890"

ECHOES: dict[str, tuple[Any, str, bool]] = {
    "a server error": (Status(500, error_code=KEY, error_type=KEY), "chat", False),
    "a bad request": (Status(400, error_code=KEY, error_type=KEY), "chat", False),
    "an error under 200": (StatusOkError(error_code=KEY, error_type=KEY), "chat", False),
    "an error in a stream": (InStreamError(error_code=KEY, error_type=KEY), "chat", True),
    "a failed response": (Failed(code=KEY), "responses", False),
}


def told(error: BaseException) -> str:
    """Everything that the error and its attempts say."""
    words = [str(error), repr(error), repr(getattr(error, "error_code", None))]
    for attempt in getattr(error, "attempts", ()):
        words += [repr(attempt), str(attempt.error), repr(getattr(attempt.error, "error_code", None))]
    return "\n".join(words)


def bytes_under(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


@pytest.mark.parametrize("name", ECHOES)
def test_a_key_echoed_as_code_or_type_reaches_neither_report_nor_error_nor_ledger(
    rig: Any, tmp_path: Path, name: str
) -> None:
    behaviour, way, streams = ECHOES[name]
    sim = rig.simulate(a=behaviour)
    protocol = "openai_chat" if way == "chat" else "openai_responses"
    store = SQLiteMetricsStore(tmp_path / "metrics.sqlite")
    router = rig.router(
        [rig.provider(sim, "a", protocol=protocol, api_key=SecretStr(KEY))], metrics_store=store
    )
    calls = getattr(rig, way)(**({"stream": True} if streams else {}))

    future = router.submit(calls)
    with pytest.raises(TurnoutError) as caught:
        list(future.result(30))
    assert router.flush(10.0)

    assert KEY not in told(caught.value)
    assert KEY not in repr(future.report())
    assert KEY.encode() not in bytes_under(tmp_path)
    router.close()
    store.close()
    assert KEY.encode() not in bytes_under(tmp_path)
    assert b"failed" in bytes_under(tmp_path) or b"caller" in bytes_under(tmp_path)


def test_a_key_that_a_custom_adapter_puts_into_its_code_never_reaches_the_ledger(
    rig: Any, tmp_path: Path
) -> None:
    # The key that the rig gives to a scripted provider is too short to be one.
    sim = rig.simulate(a=Status(500))
    store = SQLiteMetricsStore(tmp_path / "metrics.sqlite")
    error = ProviderError("no", provider_id="a", error_code=f"denied {KEY}", fault=Fault.SERVER_ERROR)
    router = rig.router(
        [rig.provider(sim, "a", api_key=SecretStr(KEY))],
        adapter_factory=ScriptedAdapters({"a": [error]}),
        metrics_store=store,
    )

    future = router.submit(rig.chat())
    assert isinstance(future.exception(30), TurnoutError)
    router.close()
    store.close()

    assert KEY not in repr(future.report())
    assert KEY.encode() not in bytes_under(tmp_path)
