"""The end mark in a stream's bytes."""

import pytest

from turnout.adapters.openai_end import EndWatch

DATA = b'data: {"a": "data: [DONE]\\n"}\n\n'


@pytest.mark.parametrize(
    ("parts", "done"),
    [
        ([b"data: [DONE]"], True),
        ([DATA + b"data: [DONE]\n\n"], True),
        ([DATA, b"data:[DONE]\r\n\r\n"], True),
        ([DATA, b"data: [DO", b"NE]\n", b"\n"], True),
        ([DATA, b"data: [DONE]\n\n: bye\n\n"], True),
        ([DATA, b"data: [DONE]" + b"\n" * 99], True),
        ([DATA, b"data: [DONE]\n\n", DATA], True),
        ([b"data: x\r\rdata: [DONE]\r\r"], True),
        ([b"\xef\xbb\xbfdata: [DONE]\n\n"], True),
        ([b"data: x\n\ndata: [DONE]", b"\n\n", DATA], True),
        ([DATA, b"data: [DONE]", b" not yet\n"], False),
        ([DATA], False),
        ([DATA, b"data: [DONE"], False),
        ([b'data: {"a": "', b'data: [DONE]"}\n\n'], False),
    ],
)
def test_the_mark_is_a_line_of_its_own_wherever_it_comes(parts: list[bytes], done: bool) -> None:
    watch = EndWatch(None)
    for part in parts:
        watch.note(part)
    assert watch.done is done
