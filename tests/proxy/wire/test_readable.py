from __future__ import annotations

import pytest

from proxy.wire.readable import readable_text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b'{"role":"user","content":"a\\nb"}', "a\nb"),
        (b'{"role":"tool","tool_call_id":"c","content":"x\\ty\\n"}', "x\ty\n"),
        (
            b'{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}',
            "a\nb",
        ),
        (b'{"role":"assistant","content":""}', ""),
        (b'{"type":"function_call_output","call_id":"c","output":"out\\n"}', "out\n"),
        (b'{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}', "hi"),
        (b'{"odd":1}', '{"odd":1}'),
        (b"\xff not json", "\ufffd not json"),
    ],
)
def test_elements_read_as_people_expect(raw: bytes, text: str) -> None:
    assert readable_text(raw) == text
