"""Assembles a message from streamed deltas, unknown keys included. Strings grow, objects merge, ids replace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proxy.wire import jsonbytes

_REPLACED = frozenset({"id", "type", "role", "name", "index", "format", "status", "call_id", "object", "phase"})
"""Strings that are sent whole, however often; every other string is a piece."""


CallSlot = dict[str, Any]
"""A call as it grows."""


class _Text:
    """A growing string: joined once, so that a long stream stays linear."""

    __slots__ = ("parts",)

    def __init__(self, first: str) -> None:
        self.parts = [first]


class DeltaMessage:
    """One choice's message. `add` takes each delta, `build` gives the message so far."""

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}
        self._calls: list[CallSlot] = []
        self._by_index: dict[int, CallSlot] = {}

    def add(self, delta: Mapping[str, Any]) -> bool:
        """True when the delta carries content: anything but a role or emptiness."""
        has_content = False
        for key, value in delta.items():
            if key == "tool_calls" and isinstance(value, list):
                for position, call in enumerate(value):
                    if isinstance(call, dict):
                        self.add_call(call, position if len(value) > 1 else None)
                        has_content = True
            else:
                _merge_key(self._fields, key, value)
                has_content = has_content or (key != "role" and bool(value))
        return has_content

    def build(self) -> dict[str, Any]:
        """The message as a client would send it back."""
        message: dict[str, Any] = {"role": "assistant", "content": None}
        message.update(_plain(self._fields))
        if self._calls:
            message["tool_calls"] = [finish_call(call) for call in self._calls]
        return message

    @property
    def text(self) -> str:
        content = self._fields.get("content")
        return "".join(content.parts) if isinstance(content, _Text) else ""

    @property
    def is_empty(self) -> bool:
        return not self._calls and not any(_plain(value) for key, value in self._fields.items() if key != "role")

    @property
    def calls(self) -> list[CallSlot]:
        """The calls so far, each as it grows; `finish_call` gives one as a client would see it."""
        return self._calls

    def add_call(self, call: dict[str, Any], position: int | None) -> CallSlot:
        """Take one delta of a call; returns the call that it belongs to."""
        index = call.get("index")
        index = index if isinstance(index, int) else position
        slot = self._find_call(call, index)
        if slot is None:
            slot = {}
            self._calls.append(slot)
        if index is not None:
            self._by_index[index] = slot
        for key, value in _with_whole_name(slot, call).items():
            if key != "index":
                _merge_key(slot, key, value)
        return slot

    def _find_call(self, call: dict[str, Any], index: int | None) -> dict[str, Any] | None:
        """The slot that a delta continues. An id says more than an index; without both, the shape decides."""
        call_id = call.get("id")
        if call_id:
            for known in self._calls:
                if known.get("id") == call_id:
                    return known
            slot = self._by_index.get(index) if index is not None else self._last()
            is_unnamed = slot is not None and not slot.get("id") and not _begins_anew(slot, call)
            return slot if is_unnamed else None
        if index is not None:
            slot = self._by_index.get(index)
            return None if slot is None or _has_other_name(slot, call) else slot
        slot = self._last()
        return None if slot is None or _begins_anew(slot, call) else slot

    def _last(self) -> dict[str, Any] | None:
        return self._calls[-1] if self._calls else None


def _begins_anew(slot: dict[str, Any], call: dict[str, Any]) -> bool:
    """Does a delta without id and index start another call? When the slot's name and arguments are whole."""
    if _has_other_name(slot, call):
        return True
    old, new = slot.get("function"), call.get("function")
    if not isinstance(old, dict) or not isinstance(new, dict) or not old.get("name"):
        return False
    arguments = old.get("arguments")
    if not isinstance(arguments, _Text) or not arguments.parts[-1].rstrip().endswith("}"):
        return False  # also keeps this linear: only a closing brace is worth a parse
    try:
        jsonbytes.loads("".join(arguments.parts))
    except ValueError:
        return False
    return bool(new.get("name") or new.get("arguments"))


def _has_other_name(slot: dict[str, Any], call: dict[str, Any]) -> bool:
    old, new = slot.get("function"), call.get("function")
    if not isinstance(old, dict) or not isinstance(new, dict):
        return False
    # Before any argument, and without an id, another name is the rest of the first.
    is_whole = bool(call.get("id")) or _has_text(old.get("arguments"))
    return is_whole and bool(old.get("name") and new.get("name") and old["name"] != new["name"])


def _has_text(value: Any) -> bool:
    return any(value.parts) if isinstance(value, _Text) else bool(value)


def _with_whole_name(slot: CallSlot, call: dict[str, Any]) -> dict[str, Any]:
    """The delta, with its name made whole where it is sent in pieces."""
    old, new = slot.get("function"), call.get("function")
    if not isinstance(old, dict) or not isinstance(new, dict):
        return call
    known, piece = old.get("name"), new.get("name")
    if not (isinstance(known, str) and isinstance(piece, str)) or not known or not piece:
        return call
    if known == piece or call.get("id") or _has_text(old.get("arguments")):
        return call
    return {**call, "function": {**new, "name": f"{known}{piece}"}}


def finish_call(slot: CallSlot) -> dict[str, Any]:
    call: dict[str, Any] = {"id": "", "type": "function"}
    call.update(_plain(slot))
    if not call["id"]:
        del call["id"]
    return call


def _merge_key(target: dict[str, Any], key: str, value: Any) -> None:
    old = target.get(key)
    if value is None:
        target.setdefault(key, None)
    elif isinstance(value, str):
        if key in _REPLACED:
            if value or key not in target:
                target[key] = value
        elif isinstance(old, _Text):
            old.parts.append(value)
        else:
            target[key] = _Text(value)
    elif isinstance(value, dict):
        if not isinstance(old, dict):
            old = target[key] = {}
        for inner, item in value.items():
            _merge_key(old, inner, item)
    elif isinstance(value, list):
        if not isinstance(old, list):
            old = target[key] = []
        for item in value:
            _merge_item(old, item)
    else:
        target[key] = value


def _merge_item(items: list[Any], item: Any) -> None:
    """An item with the index and type of an earlier one continues it; any other is a new one."""
    if not isinstance(item, dict):
        items.append(item)
        return
    index = item.get("index")
    if index is not None:
        for old in items:
            if isinstance(old, dict) and old.get("index") == index and old.get("type") == item.get("type"):
                break
        else:
            old = {}
            items.append(old)
    else:
        old = {}
        items.append(old)
    for key, value in item.items():
        _merge_key(old, key, value)


def _plain(value: Any) -> Any:
    if isinstance(value, _Text):
        return "".join(value.parts)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
