"""Lists that stand at the provider in part: items named by reference, and what stands behind a previous response.

Puts them together from elements that it is given. Looks nothing up, and edits no item.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from proxy.core.model import Conversation, Element, Frame
from proxy.wire import jsonbytes
from proxy.wire.elements import count_head
from proxy.wire.frame import Fields, walk_skeleton
from proxy.wire.responses import as_item, list_frame
from proxy.wire.responses_items import OPAQUE_TYPES, REFERENCE, provider_id

_PREVIOUS = "previous_response_id"
_OTHER_STATE = ("conversation", "context_management", "background", "prompt")
_CARRIED = frozenset({"message", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output",
                      "local_shell_call", "local_shell_call_output", "shell_call", "shell_call_output",
                      "apply_patch_call", "apply_patch_call_output"})  # fmt: skip
"""Items that mean the same wherever they stand: any provider takes them back as they came."""


def references(elements: Sequence[Element]) -> tuple[tuple[str, Element], ...]:
    """The list's references in order, each behind the name that it gives."""
    return tuple((provider_id(element.raw), element) for element in elements if element.role == REFERENCE)


def named_by(reference: Element, item: Element) -> Element:
    """The reference read as the item that it names. It goes out as it came, so nothing in it can be replaced."""
    return replace(item, raw=reference.raw, body_hash=reference.body_hash, texts=())


def with_references(conversation: Conversation, items: Mapping[bytes, Element]) -> Conversation:
    """The conversation with each reference read as what it names; `items` by the references' bytes."""
    elements = tuple(
        items.get(element.raw, element) if element.role == REFERENCE else element for element in conversation.elements
    )
    is_opaque = conversation.hints.is_opaque or any(element.role in OPAQUE_TYPES for element in elements)
    return replace(conversation, elements=elements, head=count_head(elements), is_opaque=is_opaque)


def behind(conversation: Conversation, history: Sequence[Element], read: Callable[[bytes], Element]) -> Conversation:
    """The request as one list: what stands behind the response that it names, then its own items.

    Its frame names no previous response any more.
    """
    own, frame = conversation.elements, conversation.frame
    if len(own) == 1 and own[0].raw.startswith(b'"'):
        frame = list_frame(frame)
    gaps = (b",",) * len(history) + frame.gaps
    elements = as_list((*history, *own), read)
    return replace(
        conversation,
        elements=elements,
        head=count_head(elements),
        frame=_with_previous(Frame(frame.prefix, gaps[: len(elements) - 1], frame.suffix), b"null"),
    )


def behind_all_of(conversation: Conversation, name: str) -> Conversation:
    """The request as it came, behind the response of that name: the client was told another one."""
    return replace(conversation, frame=_with_previous(conversation.frame, jsonbytes.dumps(name)))


def can_stand_alone(elements: Sequence[Element]) -> bool:
    """Can these items be sent as a list, without anything that only the provider holds?"""
    return all(_stands_alone(element) for element in elements)


def asks_for_state(conversation: Conversation) -> bool:
    """Does the request, made of a list, ask the provider to keep or change more than the list says?"""
    skeleton = conversation.frame.prefix + conversation.frame.suffix
    fields = Fields({member.key: skeleton[member.start : member.end] for member in walk_skeleton(skeleton)})
    return any(fields.has(key) for key in _OTHER_STATE)


def as_list(elements: Sequence[Element], read: Callable[[bytes], Element]) -> tuple[Element, ...]:
    """The elements as items of one list: the only item of a request may have been a bare string."""
    return tuple(read(as_item(e.raw)) if e.raw.startswith(b'"') else e for e in elements)


def _stands_alone(element: Element) -> bool:
    if element.kind == "opaque" or not element.raw.startswith(b"{"):
        return False
    kind = jsonbytes.slice_value(element.raw, "type")
    name = jsonbytes.loads(kind) if kind else "message"
    if name == "reasoning":
        sealed = jsonbytes.slice_value(element.raw, "encrypted_content") or b"null"
        return sealed not in (b"null", b'""')
    return name in _CARRIED


def _with_previous(frame: Frame, value: bytes) -> Frame:
    """The frame with another value in that field: every other byte stays."""
    filler = b"" if frame.prefix.endswith(b"[") else b"null"  # a bare string has no brackets in its frame
    skeleton, cut = frame.prefix + filler + frame.suffix, len(frame.prefix)
    spans = [(m.start, m.end) for m in walk_skeleton(skeleton) if m.key == _PREVIOUS]
    before = [(start, end, value) for start, end in spans if end <= cut]
    cut += len(filler)
    after = [(start - cut, end - cut, value) for start, end in spans if start >= cut]
    return Frame(
        jsonbytes.replace_spans(frame.prefix, before), frame.gaps, jsonbytes.replace_spans(frame.suffix, after)
    )
