"""Decodes one item of a Responses `input` list. Unknown types are kept whole and never edited."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from proxy.core.canonical import digest, make_atom, printable
from proxy.core.failures import looks_failed
from proxy.core.model import Call, Element
from proxy.errors import NotUnderstoodError
from proxy.wire import jsonbytes
from proxy.wire.content import IMAGE_TOKENS, TextSlot, read_content, texts_of
from proxy.wire.elements import HEAD_ROLES, atom_of_call, build_call, build_element, describe_call, join_lines

COMPACTION_TRIGGER = "compaction_trigger"
REFERENCE = "item_reference"
OPAQUE_TYPES = frozenset({"compaction", "compaction_summary", COMPACTION_TRIGGER, REFERENCE})
"""Items that stand for state at the provider, or ask it to make some."""

_CALL_NAMES = {
    "computer_call": ("computer", ("action", "actions")),
    "local_shell_call": ("local_shell", ("action",)),
    "shell_call": ("shell", ("action",)),
    "apply_patch_call": ("apply_patch", ("operation",)),
    "tool_search_call": ("tool_search", ("arguments",)),
    "program": ("program", ("code",)),
}
"""Calls without a name of their own: the name that they get, and the keys of their arguments."""

_OUTPUTS = {
    "function_call_output": TextSlot("output"),
    "custom_tool_call_output": TextSlot("output"),
    "shell_call_output": TextSlot("output", ("stdout", "stderr"), None),
    "apply_patch_call_output": TextSlot("output"),
    "local_shell_call_output": TextSlot("output"),
    "program_output": TextSlot("result"),
    "computer_call_output": None,
    "tool_search_output": None,
    "mcp_approval_response": None,
}
"""Results, and where their maskable texts stand."""

_HOSTED_OUTPUTS = {
    "mcp_call": TextSlot("output"),
    "code_interpreter_call": TextSlot("outputs", ("logs",), frozenset({"logs"})),
}
"""Calls that the provider answered itself, in the same item."""

_IGNORED_KEYS = frozenset({"id", "status", "encrypted_content", "cache_control", "prompt_cache_breakpoint"})
_ENCRYPTED_BYTES_PER_TOKEN = 6
"""Of encrypted reasoning and compactions: ciphertext, in base64, of about four characters a token."""


def read_item(raw: bytes) -> Element:
    """Decode one item from its bytes; depends on them alone. Raises `NotUnderstoodError`."""
    try:
        item = jsonbytes.loads_strict(raw)
    except ValueError as error:
        raise NotUnderstoodError("an item cannot be read") from error
    if isinstance(item, str):
        # The whole input as one string: a user message.
        return _read_message(raw, {"role": "user", "content": item})
    if not isinstance(item, dict):
        raise NotUnderstoodError("an item that is no object")
    kind = item_type(item)
    read = _READERS.get(kind)
    if read is not None:
        return read(raw, item)
    if kind in _CALL_NAMES:
        return _read_call(raw, _nameless_call(item, kind))
    if kind in _OUTPUTS:
        return _read_output(raw, item, kind)
    return _read_opaque(raw, item, kind)


def item_type(item: dict[str, Any]) -> str:
    """The type; plain messages and references may leave it out."""
    kind = item.get("type")
    if isinstance(kind, str):
        return kind
    if "role" in item:
        return "message"
    return REFERENCE if "id" in item else "unknown"


def provider_id(raw: bytes) -> str:
    """The provider's own name of an item, "" without one: how a reference or a later item may name it."""
    value = jsonbytes.slice_value(raw, "id") if raw.startswith(b"{") else None
    name = jsonbytes.loads(value) if value else ""
    return printable(name) if isinstance(name, str) else ""


def text_slot(raw: bytes) -> TextSlot | None:
    """Where the item's maskable texts stand."""
    kind = jsonbytes.slice_value(raw, "type") or b'""'
    name = jsonbytes.loads(kind)
    return _OUTPUTS.get(name) or _HOSTED_OUTPUTS.get(name)


def _read_message(raw: bytes, item: dict[str, Any]) -> Element:
    role = item.get("role")
    if not isinstance(role, str):
        raise NotUnderstoodError("a message without a role")
    content = read_content(item.get("content"))
    if role in HEAD_ROLES:
        atom = make_atom("sys", content.canonical)
    elif role in ("user", "assistant"):
        atom = make_atom("user" if role == "user" else "asst", content.canonical)
    else:
        return _read_opaque(raw, item, printable(role))
    return build_element(raw, "message", role, content.text, (atom,), flat_tokens=content.flat_tokens)


def _read_function_call(raw: bytes, item: dict[str, Any]) -> Element:
    return _read_call(raw, build_call(item.get("call_id"), item.get("name"), item.get("arguments")))


def _read_custom_call(raw: bytes, item: dict[str, Any]) -> Element:
    return _read_call(raw, build_call(item.get("call_id"), item.get("name"), item.get("input")))


def _read_approval(raw: bytes, item: dict[str, Any]) -> Element:
    return _read_call(raw, build_call(item.get("id"), item.get("name"), item.get("arguments")))


def _nameless_call(item: dict[str, Any], kind: str) -> Call:
    name, keys = _CALL_NAMES[kind]
    arguments = next((item[key] for key in keys if item.get(key) is not None), None)
    call = build_call(item.get("call_id") or item.get("id"), name, arguments)
    if kind != "local_shell_call" or not item.get("call_id"):
        return call
    # Its own output names it by its item id, the output of a function call by its call id.
    return replace(call, alias=build_call(item.get("id"), "", "").id)


def _read_call(raw: bytes, call: Call) -> Element:
    return build_element(raw, "tool_call", "assistant", describe_call(call), (atom_of_call(call),), calls=(call,))


def _read_output(raw: bytes, item: dict[str, Any], kind: str) -> Element:
    answers = item.get("call_id") or item.get("id")
    if kind == "mcp_approval_response":
        answers = item.get("approval_request_id")
    answers = printable(answers) if isinstance(answers, str) else ""
    slot = _OUTPUTS[kind]
    texts = texts_of(item, slot) if slot else ()
    if kind == "shell_call_output":
        text = canonical = join_lines(*texts)
        flat_tokens = 0
    else:
        content = read_content(_output_value(item, kind))
        text, canonical, flat_tokens = content.text, content.canonical, content.flat_tokens
    atom = make_atom("result", canonical, call_id=answers)
    return build_element(
        raw,
        "tool_result",
        "tool",
        text,
        (atom,),
        flat_tokens=flat_tokens,
        texts=texts,
        answers=answers,
        is_failed=_is_marked_failed(item) or looks_failed(text),
    )


def _output_value(item: dict[str, Any], kind: str) -> Any:
    if kind == "computer_call_output":
        return [item.get("output")]
    if kind == "program_output":
        return item.get("result")
    if kind == "tool_search_output":
        return jsonbytes.canonical_value(item.get("tools"))
    if kind == "mcp_approval_response":
        return jsonbytes.canonical_value([item.get("approve"), item.get("reason")])
    return item.get("output")


def _is_marked_failed(item: dict[str, Any]) -> bool:
    if item.get("status") == "failed" or item.get("is_error") is True or item.get("error"):
        return True
    output = item.get("output")
    for part in output if isinstance(output, list) else ():
        outcome = part.get("outcome") if isinstance(part, dict) else None
        if isinstance(outcome, dict) and (outcome.get("type") == "timeout" or outcome.get("exit_code")):
            return True
    return False


def _read_reasoning(raw: bytes, item: dict[str, Any]) -> Element:
    summary, content = read_content(item.get("summary")), read_content(item.get("content"))
    text = join_lines(summary.text, content.text)
    atom = make_atom("reasoning", text, is_weak=True, text="")
    return build_element(raw, "reasoning", "assistant", text, (atom,), flat_tokens=_encrypted_tokens(item))


def _read_hosted(raw: bytes, item: dict[str, Any]) -> Element:
    """A hosted call with its own output: one item that is call and result."""
    slot = _HOSTED_OUTPUTS[item["type"]]
    texts = texts_of(item, slot)
    call = build_call("", item.get("name") or item["type"], item.get("arguments") or item.get("code"))
    output = join_lines(*texts)
    atoms = (atom_of_call(call, has_id=False), make_atom("result", read_content(output).canonical))
    return build_element(
        raw,
        "tool_result",
        "assistant",
        join_lines(describe_call(call), output),
        atoms,
        texts=texts,
        is_failed=_is_marked_failed(item) or looks_failed(output),
    )


def _read_image(raw: bytes, item: dict[str, Any]) -> Element:
    """The result is base64: what identity compares is the prompt it was made from, and its bytes."""
    atom = make_atom("other", _identity(item), text="")
    prompt = item.get("revised_prompt")
    text = f"[image {printable(prompt)}]" if isinstance(prompt, str) else "[image]"
    return build_element(raw, "opaque", "image_generation_call", text, (atom,), flat_tokens=IMAGE_TOKENS)


def _read_opaque(raw: bytes, item: dict[str, Any], kind: str) -> Element:
    """Anything else. Its role is its type, so that a reader of the list can tell."""
    identity = _identity(item)
    is_state = kind in OPAQUE_TYPES
    content = item.get("id") if kind == REFERENCE else ""
    sealed = _encrypted(item)
    # What only its provider can read is like no other: as good as a call id to know a conversation by.
    seal = digest(sealed.encode("utf-8", "surrogatepass")).hex() if is_state and sealed else ""
    atom = make_atom("other", f"{identity}{content or sealed[:4096]}", call_id=seal, text="")
    text = f"[{printable(kind)}]" if is_state else printable(identity)
    return build_element(raw, "opaque", printable(kind), text, (atom,), flat_tokens=_encrypted_tokens(item))


def _identity(item: dict[str, Any]) -> str:
    return jsonbytes.canonical_value({key: value for key, value in item.items() if key not in _IGNORED_KEYS})


def _encrypted(item: dict[str, Any]) -> str:
    value = item.get("encrypted_content")
    return value if isinstance(value, str) else ""


def _encrypted_tokens(item: dict[str, Any]) -> int:
    return len(_encrypted(item)) // _ENCRYPTED_BYTES_PER_TOKEN


_READERS: dict[str, Callable[[bytes, dict[str, Any]], Element]] = {
    "message": _read_message,
    "function_call": _read_function_call,
    "custom_tool_call": _read_custom_call,
    "mcp_approval_request": _read_approval,
    "reasoning": _read_reasoning,
    "mcp_call": _read_hosted,
    "code_interpreter_call": _read_hosted,
    "image_generation_call": _read_image,
}
