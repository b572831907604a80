"""Chat Completions streams without their expand calls: several upstream calls become one stream of the client.

Bytes in, bytes out: a stream may be cut anywhere. What is not concerned passes with the bytes it came with; only the
pieces of a call are held back, until its name says whose it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proxy.core.model import Element, Reply
from proxy.core.sse import Event
from proxy.wire import jsonbytes
from proxy.wire.base import NOWHERE, Round
from proxy.wire.chat_reader import ChatStreamReader
from proxy.wire.deltas import DeltaMessage
from proxy.wire.expand_rounds import CUT, ENVELOPE, ChatRounds, without
from proxy.wire.expand_sorter import CallSorter
from proxy.wire.whole_events import WholeEvents

_USAGE = frozenset({"usage", "x_groq", "timings"})


class ChatExpandStream:
    """Event streams. See `ExpandReader`."""

    place = NOWHERE  # nothing of it is numbered

    def __init__(self, name: str, read_element: Callable[[bytes], Element], *, strip_usage: bool) -> None:
        self._rounds = ChatRounds(name, read_element)
        self._strip_usage = strip_usage
        self.at_event_boundary = True
        self._has_role = False  # the client has its one role
        self._had_role = False  # it had it before this round
        self._is_last = False
        self._begin()

    def _begin(self) -> None:
        self.has_content = False
        self.wants_more = False
        self._reader = ChatStreamReader(self._rounds.read_element, strip_usage=self._strip_usage)
        self._events = WholeEvents()
        self._message = DeltaMessage()
        self._later: list[bytes | dict[str, Any]] = []  # words that the message still lacks: read only if needed
        self._calls = CallSorter(self._rounds.name)
        self._is_cut = False
        self._has_begun = False

    @property
    def is_done(self) -> bool:
        return self._reader.is_done

    @property
    def error(self) -> bytes:
        return self._reader.error

    def next_round(self, *, is_last: bool = False) -> None:
        """Another upstream call answers; what it says continues the client's reply."""
        self._rounds.end(self._visible(), self._reader.reply())
        self._is_last = is_last
        self._had_role = self._has_role
        self._begin()

    def restart(self) -> None:
        """This round is asked for once more."""
        self._has_role = self._had_role
        self._begin()

    def feed(self, chunk: bytes) -> bytes:
        """Read a chunk; returns the bytes for the client, whole events."""
        return self._events.feed(self._reader.feed(chunk), self._take)

    def finish(self) -> bytes:
        """The end of the body."""
        out = self._events.feed(self._reader.finish(), self._take)
        last, held = self._events.close(self._take)
        self.at_event_boundary = not held or self.wants_more
        return out + last + (b"" if self.wants_more else held)

    def reply(self) -> Reply:
        """Everything that the client has got."""
        last = self._reader.reply()
        if self._rounds.number == 1 and not self._calls.has_hidden:
            return last
        return self._rounds.reply(self._visible(), last)

    def round(self) -> Round:
        """What the round that just ended said."""
        if self._is_cut:
            return Round()
        return self._rounds.round(self._said(), self._hidden())

    def _said(self) -> dict[str, Any]:
        """The round's message as it was."""
        later, self._later = self._later, []
        for words in later:
            delta = words if isinstance(words, dict) else jsonbytes.loads(words)["choices"][0]["delta"]
            self._message.add(delta)
        return self._message.build()

    def _hidden(self) -> list[bool]:
        return [self._calls.is_hidden(slot) for slot in self._message.calls]

    def _visible(self) -> dict[str, Any]:
        return without(self._said(), self._hidden())

    def _take(self, event: Event, raw: bytes) -> bytes:
        """One event as the client gets it: as it came, changed, or nothing."""
        if self._rounds.number == 1 and self._rounds.envelope and _is_words(event.data):
            self._later.append(event.data)
            self.has_content = self.has_content or self._reader.has_content
            return raw
        try:
            document = jsonbytes.loads(event.data)
        except ValueError:
            return b"" if self.wants_more else raw
        if not isinstance(document, dict) or document.get("error"):
            return raw
        choices = document.get("choices")
        if not (isinstance(choices, list) and choices and isinstance(choices[0], dict)):
            return self._take_bare(document, raw)
        if not self._rounds.envelope:
            self._rounds.envelope = {key: document[key] for key in ENVELOPE if key in document}
        choice = self._sorted(choices[0])
        is_same = choice is choices[0] and self._rounds.number == 1
        self._has_begun = True
        if not is_same and not _says_anything(choice, has_role=self._has_role):
            return b""
        delta = choice.get("delta")
        self._has_role = self._has_role or (isinstance(delta, dict) and "role" in delta)
        self.has_content = self.has_content or _says_anything(choice, has_role=True)
        if is_same:
            return raw
        if self.wants_more:
            document = {key: value for key, value in document.items() if key not in _USAGE}
        return _event(self._rounds.as_first({**document, "choices": [choice, *choices[1:]]}))

    def _take_bare(self, document: dict[str, Any], raw: bytes) -> bytes:
        """No choice: usage, or remarks about the prompt, which one reply has once."""
        if self._rounds.number == 1 and not self.wants_more:
            return raw
        is_remark = not isinstance(document.get("usage"), dict) and not self._has_begun
        return b"" if self.wants_more or is_remark else _event(self._rounds.as_first(document))

    def _sorted(self, choice: dict[str, Any]) -> dict[str, Any]:
        """The choice without our calls; the very same object when nothing had to change."""
        key = "delta" if isinstance(choice.get("delta"), dict) else "message"
        delta = choice.get(key)
        finish = choice.get("finish_reason")
        if isinstance(delta, dict):
            kept = self._kept(delta)
            if self._rounds.number > 1 and "role" in kept and self._has_role:
                kept = {name: value for name, value in kept.items() if name != "role"}
            if kept is not delta:
                choice = {**choice, key: kept}
        if not (isinstance(finish, str) and finish):
            return choice
        extra = self._calls.close()
        if extra:
            delta = choice.get(key) or {}
            choice = {**choice, key: {**delta, "tool_calls": [*delta.get("tool_calls", ()), *extra]}}
        self._is_cut = finish in CUT
        if self._calls.has_hidden and not self._calls.has_visible and not self._is_cut:
            self.wants_more, self._is_cut = not self._is_last, self._is_last
            choice = {**choice, "finish_reason": "stop" if self._is_last else None}
        return choice

    def _kept(self, delta: dict[str, Any]) -> dict[str, Any]:
        entries = delta.get("tool_calls")
        if not isinstance(entries, list) or not entries:
            self._later.append(delta)
            return delta
        self._later.append({key: value for key, value in delta.items() if key != "tool_calls"})
        kept = self._calls.take(self._message, entries)
        if not self._calls.is_shifted:
            return delta
        rest = {key: value for key, value in delta.items() if key != "tool_calls"}
        return {**rest, "tool_calls": kept} if kept else rest


def _says_anything(choice: dict[str, Any], *, has_role: bool) -> bool:
    """Is there something in this choice that a client must get?"""
    if choice.get("finish_reason"):
        return True
    delta = choice.get("delta", choice.get("message"))
    if not isinstance(delta, dict):
        return False
    return any(value for key, value in delta.items() if key != "role") or ("role" in delta and not has_role)


def _event(document: dict[str, Any]) -> bytes:
    return b"data: " + jsonbytes.dumps(document) + b"\n\n"


def _is_words(data: bytes) -> bool:
    """Surely a piece of text or thought and nothing else, told without reading it: most of a stream is."""
    return (
        data.startswith(b"{")
        and b'"choices":[{"index":0,"delta":{"' in data
        and b'"finish_reason":null' in data
        and not any(mark in data for mark in (b'"tool_calls"', b'"function_call"', b'"role"', b'"error"', b'"usage":{'))
    )
