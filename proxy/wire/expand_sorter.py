"""Tells our calls from the client's while they come in pieces. Knows one call's name, and no event."""

from __future__ import annotations

from typing import Any

from proxy.wire.deltas import CallSlot, DeltaMessage, finish_call


class CallSorter:
    """Tells our calls from the client's as their deltas come, and numbers the client's anew from 0."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._slots: list[tuple[CallSlot, int | None]] = []  # number at the client's; None: ours, or not known yet
        self._unknown: list[CallSlot] = []
        self._count = 0
        self.has_hidden = False
        self.is_shifted = False  # the client's numbers or entries are no longer the provider's

    @property
    def has_visible(self) -> bool:
        return self._count > 0

    def take(self, message: DeltaMessage, entries: list[Any]) -> list[Any]:
        """The entries that the client gets for those that came."""
        out: list[Any] = []
        for position, entry in enumerate(entries):
            if not isinstance(entry, dict):
                out.append(entry)
                continue
            slot = message.add_call(entry, position if len(entries) > 1 else None)
            known = next((pair for pair in self._slots if pair[0] is slot), None)
            if known is None:
                out += self._sort(slot, entry)
            elif known[1] is not None:
                out.append(_numbered(entry, known[1]))
        return out

    def _sort(self, slot: CallSlot, entry: dict[str, Any]) -> list[Any]:
        is_new = not any(unknown is slot for unknown in self._unknown)
        name, has_arguments = _name_of(slot)
        if not self._name.startswith(name):
            if is_new:
                return [self._show(slot, entry)]
            self._unknown = [unknown for unknown in self._unknown if unknown is not slot]
            return [self._show(slot, finish_call(slot))]
        self.is_shifted = True
        if is_new:
            self._unknown.append(slot)
        if name == self._name and has_arguments:
            self._hide(slot)
        return []

    def close(self) -> list[Any]:
        """The calls whose name never said anything else: by now it is whole."""
        out: list[Any] = []
        for slot in tuple(self._unknown):
            if _name_of(slot)[0] == self._name:
                self._hide(slot)
            else:
                out.append(self._show(slot, finish_call(slot)))
        self._unknown = []
        return out

    def _hide(self, slot: CallSlot) -> None:
        self._unknown = [unknown for unknown in self._unknown if unknown is not slot]
        self._slots.append((slot, None))
        self.has_hidden = self.is_shifted = True

    def _show(self, slot: CallSlot, entry: dict[str, Any]) -> dict[str, Any]:
        number, self._count = self._count, self._count + 1
        self._slots.append((slot, number))
        return {"index": number, **entry} if "index" not in entry and self.is_shifted else _numbered(entry, number)

    def is_hidden(self, slot: CallSlot) -> bool:
        return any(known is slot and number is None for known, number in self._slots)


def _numbered(entry: dict[str, Any], number: int) -> dict[str, Any]:
    return {**entry, "index": number} if "index" in entry else entry


def _name_of(slot: CallSlot) -> tuple[str, bool]:
    """A call's name so far, and whether arguments have come."""
    call = finish_call(slot)
    body = call.get("function")
    if not isinstance(body, dict):
        return ("\0" if "custom" in call else ""), False
    name = body.get("name")
    return (name if isinstance(name, str) else ""), bool(body.get("arguments"))
