"""Chat Completions replies in one piece without their expand calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proxy.core.model import Element, Reply
from proxy.wire import jsonbytes
from proxy.wire.base import NOWHERE, Round
from proxy.wire.chat_reader import ChatBodyReader
from proxy.wire.expand_rounds import CUT, ENVELOPE, ChatRounds, without


class ChatExpandBody:
    """Replies in one piece: nothing passes before it is whole. See `ExpandReader`."""

    place = NOWHERE  # nothing of it is numbered

    def __init__(self, name: str, read_element: Callable[[bytes], Element]) -> None:
        self._rounds = ChatRounds(name, read_element)
        self.at_event_boundary = True
        self._is_last = False
        self._begin()

    def _begin(self) -> None:
        self.has_content = False
        self.wants_more = False
        self._reader = ChatBodyReader(self._rounds.read_element)
        self._message: dict[str, Any] = {}
        self._is_hidden: list[bool] = []
        self._is_cut = False

    @property
    def is_done(self) -> bool:
        return self._reader.is_done

    @property
    def error(self) -> bytes:
        return self._reader.error

    def next_round(self, *, is_last: bool = False) -> None:
        """Another upstream call answers."""
        self._rounds.end(without(self._message, self._is_hidden), self._reader.reply())
        self._is_last = is_last
        self._begin()

    def restart(self) -> None:
        """This round is asked for once more."""
        self._begin()

    def feed(self, chunk: bytes) -> bytes:
        """Read a chunk; all of it waits for the end."""
        self._reader.feed(chunk)
        return b""

    def finish(self) -> bytes:
        """The end: the body as the client gets it, or nothing when another round follows."""
        self._reader.finish()
        body = self._reader.body
        document = self._reader.document()
        choice = _first_choice(document)
        message = choice.get("message")
        if self._reader.error or not isinstance(message, dict):
            self.has_content = self._reader.has_content
            return body
        self._message = message
        self._is_hidden = [_is_call_of(call, self._rounds.name) for call in message.get("tool_calls") or ()]
        self._is_cut = choice.get("finish_reason") in CUT
        has_hidden = any(self._is_hidden)
        is_ours_alone = has_hidden and all(self._is_hidden) and not self._is_cut
        if is_ours_alone and self._is_last:
            self._is_cut = True
            choice = {**choice, "finish_reason": "stop"}
        self.wants_more = is_ours_alone and not self._is_last
        if self.wants_more:
            self._rounds.envelope = self._rounds.envelope or {k: document[k] for k in ENVELOPE if k in document}
            return b""
        self.has_content = True
        if self._rounds.number == 1 and not has_hidden:
            return body
        shown = {**choice, "message": self._rounds.merged(without(message, self._is_hidden))}
        return jsonbytes.dumps(self._rounds.as_first({**document, "choices": [shown, *document["choices"][1:]]}))

    def reply(self) -> Reply:
        """What the client has got."""
        last = self._reader.reply()
        if self._rounds.number == 1 and not any(self._is_hidden):
            return last
        return self._rounds.reply(without(self._message, self._is_hidden), last)

    def round(self) -> Round:
        """What the round that just ended said."""
        if self._is_cut:
            return Round()
        return self._rounds.round(self._message, self._is_hidden)


def _first_choice(document: Any) -> dict[str, Any]:
    choices = document.get("choices") if isinstance(document, dict) else None
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}


def _is_call_of(call: Any, name: str) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    return isinstance(function, dict) and function.get("name") == name
