"""What is remembered of adapters' classes, and for how long."""

import gc
from collections.abc import Mapping
from typing import Any
from weakref import ref

from turnout import ApiProtocol, CallType, CallVariant, ProviderConfig, ProviderRouter

PROVIDER = {"provider_id": "a", "name": "a", "protocol": "openai_chat", "model": "m", "api_key": "k"}
CALL = CallVariant(ApiProtocol.OPENAI_CHAT, "chat.completions.create", CallType.REGULAR, {"messages": []})


def test_a_factory_that_defines_a_class_for_each_call_leaves_none_behind() -> None:
    classes: list[ref[type]] = []

    def factory(config: ProviderConfig) -> Any:
        class Once:
            def invoke(self, operation: str, arguments: Mapping[str, Any], *, timeout: float) -> float:
                return timeout

        classes.append(ref(Once))
        return Once()

    with ProviderRouter([PROVIDER], metrics_store=None, adapter_factory=factory) as router:
        assert all(router.invoke(CALL) > 0 for _ in range(5))
        # A class refers to itself: only the collector ends it, and does nothing while another thread has it.
        for _ in range(1000):
            gc.collect()
            if (left := [kept() for kept in classes]) == [None] * 5:
                break
        assert left == [None] * 5
