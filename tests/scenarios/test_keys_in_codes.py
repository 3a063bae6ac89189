"""A provider that sends the key back, as its error's code or type or after it was rotated: it is kept nowhere."""

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from turnout import ApiProtocol, Fault, ProviderConfig, ProviderError, SQLiteMetricsStore, TurnoutError
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


def keyed() -> ProviderConfig:
    return ProviderConfig(
        provider_id="a", name="a", protocol=ApiProtocol.OPENAI_CHAT, model="m", api_key_env="ROTATED"
    )


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


def test_a_key_that_was_rotated_while_its_call_was_in_flight_is_told_nowhere(
    rig: Any, logged: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(number: int) -> Status:
        # The request is here, and its key is an old one by now.
        monkeypatch.setenv("ROTATED", f"{KEY}-next")
        return Status(401, message=f"{KEY} is wrong, {KEY}-next would do", error_code=KEY)

    monkeypatch.setenv("ROTATED", KEY)
    sim = rig.simulate(a=refused)
    router = rig.router([rig.provider(sim, "a", api_key_env="ROTATED")])

    future = router.submit(rig.chat())
    with pytest.raises(TurnoutError) as caught:
        future.result(30)

    assert "[key] is wrong, [key] would do" in str(caught.value)
    texts = [told(caught.value), repr(future.report()), repr(router.health_report()), repr(router.providers)]
    assert not [text for text in [*texts, *(text for _, text in logged.records)] if KEY in text]


def test_the_last_eight_keys_are_taken_out_of_what_providers_say(monkeypatch: pytest.MonkeyPatch) -> None:
    config = keyed()
    keys = [f"sk-number-{number:04}" for number in range(10)]
    for key in [*keys, keys[0]]:
        monkeypatch.setenv("ROTATED", key)
        config.resolved_key()

    kept = config.without_key(" ".join(keys)).split()
    assert kept == ["[key]", keys[1], keys[2], *["[key]"] * 7]


def test_keys_that_were_read_are_no_part_of_a_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTATED", KEY)
    config, other = keyed(), keyed()
    assert config.resolved_key() is not None

    assert config == other
    assert KEY not in repr(config) + repr(config.model_dump()) + config.model_dump_json()
    assert KEY.encode() not in pickle.dumps(config)
    assert KEY not in repr(vars(copy.deepcopy(config)._keys))
