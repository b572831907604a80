import json
from typing import Any

import pytest

from proxy.core.model import Element
from proxy.errors import NotUnderstoodError
from proxy.wire.content import IMAGE_TOKENS
from proxy.wire.responses import ResponsesFormat
from proxy.wire.responses_items import read_item


def read(item: Any) -> Element:
    return read_item(json.dumps(item).encode())


CALLS: list[tuple[dict[str, Any], str, str, str]] = [
    ({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "id": "fc"}, "c", "f", "{}"),
    ({"type": "custom_tool_call", "call_id": "c", "name": "sh", "input": "ls"}, "c", "sh", "ls"),
    (
        {"type": "computer_call", "call_id": "c", "id": "x", "action": {"type": "click"}},
        "c",
        "computer",
        '{"type":"click"}',
    ),
    ({"type": "local_shell_call", "id": "x", "call_id": "c", "action": {"a": 1}}, "c", "local_shell", '{"a":1}'),
    ({"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}}, "c", "shell", '{"commands":["ls"]}'),
    ({"type": "apply_patch_call", "call_id": "c", "operation": {"p": 1}}, "c", "apply_patch", '{"p":1}'),
    ({"type": "tool_search_call", "call_id": "c", "arguments": {"q": 1}}, "c", "tool_search", '{"q":1}'),
    ({"type": "program", "call_id": "c", "code": "print()", "fingerprint": "z"}, "c", "program", "print()"),
    ({"type": "mcp_approval_request", "id": "m", "name": "f", "arguments": "{}"}, "m", "f", "{}"),
]


@pytest.mark.parametrize(("item", "call_id", "name", "arguments"), CALLS)
def test_calls(item: dict[str, Any], call_id: str, name: str, arguments: str) -> None:
    element = read(item)
    assert (element.kind, element.role) == ("tool_call", "assistant")
    (call,) = element.calls
    assert (call.id, call.name, call.arguments) == (call_id, name, arguments)
    assert [(atom.kind, atom.anchor) for atom in element.atoms] == [("call", call_id)]


OUTPUTS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"type": "function_call_output", "call_id": "c", "output": "x"}, ("x",)),
    ({"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "x"}]}, ("x",)),
    ({"type": "custom_tool_call_output", "call_id": "c", "output": "x"}, ("x",)),
    (
        {
            "type": "shell_call_output",
            "call_id": "c",
            "output": [{"stderr": "e", "stdout": "o", "outcome": {"type": "exit", "exit_code": 0}}],
        },
        ("o", "e"),
    ),
    ({"type": "apply_patch_call_output", "call_id": "c", "status": "completed", "output": "x"}, ("x",)),
    ({"type": "apply_patch_call_output", "call_id": "c", "status": "completed"}, ()),
    ({"type": "local_shell_call_output", "id": "c", "output": "x"}, ("x",)),
    ({"type": "program_output", "call_id": "c", "result": "x"}, ("x",)),
    (
        {
            "type": "computer_call_output",
            "call_id": "c",
            "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,AA"},
        },
        (),
    ),
    ({"type": "tool_search_output", "call_id": "c", "tools": [{"name": "t"}]}, ()),
    ({"type": "mcp_approval_response", "approval_request_id": "c", "approve": True}, ()),
]


@pytest.mark.parametrize(("item", "texts"), OUTPUTS)
def test_outputs_and_their_maskable_texts(item: dict[str, Any], texts: tuple[str, ...]) -> None:
    element = read(item)
    assert (element.kind, element.role, element.answers) == ("tool_result", "tool", "c")
    assert element.texts == texts
    assert not element.is_failed
    assert element.text or "output" not in item
    rendered = json.loads(ResponsesFormat().render(element, [f"<{text}>" for text in texts]))
    assert json.dumps(rendered) == _bracketed(json.dumps(item), texts)


def _bracketed(raw: str, texts: tuple[str, ...]) -> str:
    for text in texts:
        raw = raw.replace(f'": "{text}"', f'": "<{text}>"')
    return raw


def test_a_screenshot_counts_flat() -> None:
    element = read(OUTPUTS[8][0])
    assert element.flat_tokens == IMAGE_TOKENS
    assert "base64" not in element.text


@pytest.mark.parametrize(
    "item",
    [
        {"type": "function_call_output", "call_id": "c", "output": "Error: no"},
        {"type": "apply_patch_call_output", "call_id": "c", "status": "failed", "output": "x"},
        {
            "type": "shell_call_output",
            "call_id": "c",
            "output": [{"stdout": "", "stderr": "", "outcome": {"type": "exit", "exit_code": 2}}],
        },
        {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "", "outcome": {"type": "timeout"}}]},
        {"type": "mcp_call", "name": "f", "arguments": "{}", "output": None, "error": {"m": 1}},
    ],
)
def test_failed_outputs_are_marked(item: dict[str, Any]) -> None:
    assert read(item).is_failed


def test_hosted_calls_hold_call_and_result_in_one() -> None:
    mcp = read({"type": "mcp_call", "id": "m", "name": "f", "arguments": "{}", "output": "long"})
    assert ([atom.kind for atom in mcp.atoms], mcp.texts, mcp.answers) == (["call", "result"], ("long",), None)
    code = read(
        {
            "type": "code_interpreter_call",
            "code": "1+1",
            "outputs": [{"type": "logs", "logs": "2"}, {"type": "image", "url": "u"}],
        }
    )
    assert code.texts == ("2",)
    rendered = json.loads(ResponsesFormat().render(code, ["-"]))
    assert rendered["outputs"] == [{"type": "logs", "logs": "-"}, {"type": "image", "url": "u"}]


def test_reasoning_is_weak_and_its_cipher_is_no_text() -> None:
    element = read(
        {
            "type": "reasoning",
            "id": "r",
            "summary": [{"type": "summary_text", "text": "s"}],
            "encrypted_content": "Q" * 6000,
        }
    )
    assert (element.kind, element.text, element.flat_tokens) == ("reasoning", "s", 1000)
    assert element.atoms[0].is_weak
    assert element.texts == ()


def test_base64_of_a_made_image_is_no_text() -> None:
    element = read({"type": "image_generation_call", "id": "i", "result": "A" * 100_000, "revised_prompt": "a cat"})
    assert (element.kind, element.text, element.flat_tokens) == ("opaque", "[image a cat]", IMAGE_TOKENS)


@pytest.mark.parametrize(
    ("item", "role"),
    [
        ({"type": "compaction", "encrypted_content": "Q" * 600}, "compaction"),
        ({"type": "compaction_trigger"}, "compaction_trigger"),
        ({"type": "item_reference", "id": "msg_1"}, "item_reference"),
        ({"id": "msg_1"}, "item_reference"),
        ({"id": "msg_1", "type": None}, "item_reference"),
        ({"type": "web_search_call", "id": "w", "status": "completed", "action": {"q": 1}}, "web_search_call"),
        ({"type": "mcp_list_tools", "tools": [{"name": "t"}]}, "mcp_list_tools"),
        ({"type": "brand_new", "x": {"y": 1}}, "brand_new"),
        ({"role": "critic", "content": "x"}, "critic"),
        ({}, "unknown"),
    ],
)
def test_everything_else_is_kept_whole(item: dict[str, Any], role: str) -> None:
    element = read(item)
    assert (element.kind, element.role, element.texts, element.calls) == ("opaque", role, (), ())
    assert [atom.kind for atom in element.atoms] == ["other"]


def test_ids_and_status_say_nothing_about_identity() -> None:
    one = {"type": "web_search_call", "id": "w1", "status": "completed", "action": {"q": 1}}
    assert read(one).hash == read({**one, "id": "w2", "status": "in_progress"}).hash
    assert read(one).hash != read({**one, "action": {"q": 2}}).hash
    assert read({"id": "a"}).hash != read({"id": "b"}).hash


def test_a_message_may_leave_out_its_type() -> None:
    assert (
        read({"role": "user", "content": "x"}).hash
        == read(
            {
                "type": "message",
                "id": "m",
                "status": "completed",
                "role": "user",
                "content": [{"type": "input_text", "text": "x"}],
            }
        ).hash
    )
    assert read("x").hash == read({"role": "user", "content": "x"}).hash


@pytest.mark.parametrize("raw", [b"5", b"null", b"[]", b"{", b'{"type":"message"}', b'{"role":"user","content":NaN}'])
def test_what_is_no_item_is_not_understood(raw: bytes) -> None:
    with pytest.raises(NotUnderstoodError):
        read_item(raw)


@pytest.mark.parametrize("output", [None, 5, [], {}, [None, "x", {"type": "odd"}]])
@pytest.mark.parametrize(
    "kind",
    [
        "function_call_output",
        "shell_call_output",
        "computer_call_output",
        "program_output",
        "mcp_call",
        "code_interpreter_call",
    ],
)
def test_odd_shapes_never_fail(kind: str, output: Any) -> None:
    element = read({"type": kind, "call_id": None, "output": output, "result": output, "outputs": output})
    assert ResponsesFormat().render(element, [None] * len(element.texts)) == element.raw
