import json
from typing import Any

import pytest

from proxy.wire.faults import body_fault, event_fault

FAULTS: list[tuple[bytes, Any]] = [
    (b"", {"error": {"message": "m", "code": 400}}),
    (b"", {"error": "bare text"}),
    (b"", {"id": "x", "error": {"message": "m"}, "choices": [{"finish_reason": "error", "delta": {}}]}),
    (b"", {"object": "error", "message": "m", "code": 400}),
    (b"", {"message": "The model returned the following errors: Input Tokens Exceeded"}),
    (b"", {"detail": "m"}),
    (b"", {"choices": [{"finish_reason": "error"}]}),
    (b"", {"choices": [{"error": {"message": "m"}, "finish_reason": "stop"}]}),
    (b"", {"choices": None, "base_resp": {"status_code": 1039, "status_msg": "token limit"}}),
    (b"error", {"error": "bare"}),
    (b"error", {"code": "x"}),
    (b"error", "text"),
    (b"", [{"error": {"code": 400, "message": "m"}}]),
]
SUCCESSES: list[tuple[bytes, Any]] = [
    (b"", {"choices": [{"delta": {"content": "error"}}], "error": None}),
    (b"", {"choices": [], "usage": {}}),
    (b"", {"object": "response", "error": None, "output": []}),
    (b"", {"choices": [{"message": {}}], "base_resp": {"status_code": 0}}),
    (b"", []),
    (b"", None),
    (b"", {"type": "keepalive"}),
]


@pytest.mark.parametrize(("name", "document"), FAULTS)
def test_faults_are_seen_and_are_json(name: bytes, document: Any) -> None:
    data = json.dumps(document).encode()
    found = json.loads(event_fault(name, data, document if document != "text" else None) or body_fault(data, document))
    assert found


@pytest.mark.parametrize(("name", "document"), SUCCESSES)
def test_successes_are_none(name: bytes, document: Any) -> None:
    assert event_fault(name, json.dumps(document).encode(), document) == b""


def test_the_error_is_taken_out_of_its_chunk() -> None:
    chunk = {"error": {"message": "m"}, "choices": [{"delta": {"content": "maximum context length"}}]}
    assert json.loads(event_fault(b"", b"", chunk)) == {"error": {"message": "m"}}
