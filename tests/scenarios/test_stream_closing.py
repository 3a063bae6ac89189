"""A stream that one thread closes while another reads it."""

from typing import Any

from turnout.testing import FINISHED, ScriptedAdapters, ScriptedStream


def test_a_read_that_meets_the_close_of_its_stream_finds_the_end_and_no_second_reader(rig: Any) -> None:
    met: list[list[Any]] = []

    class Met(ScriptedStream):
        """Is read just when it is being closed."""

        def close(self) -> None:
            super().close()
            met.append(list(stream))

    adapters = ScriptedAdapters({"a": [lambda call: Met(["x", "y", FINISHED])]})
    stream = rig.scripted(adapters, "a").invoke(rig.chat(stream=True))

    assert next(stream) == "x"
    stream.close()

    assert met == [[]]
    assert list(stream) == []
