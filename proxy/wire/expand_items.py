"""What is kept over the rounds of one Responses reply: the client's one output, under the first response's id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proxy.core.model import Element, Reply, Usage
from proxy.wire import jsonbytes
from proxy.wire.base import NOWHERE, HiddenCall, Round
from proxy.wire.expand_usage import Earlier
from proxy.wire.responses_reader import ResponsesBodyReader

_WAITED_FOR = frozenset(
    {
        "function_call", "custom_tool_call", "computer_call", "local_shell_call", "shell_call", "apply_patch_call",
        "mcp_approval_request",
    }
)  # fmt: skip
"""Items that the client answers; what the provider carries out itself needs no answer."""

_NAMES = ("id", "created_at", "tool_choice")


def is_ours(item: Any, name: str) -> bool:
    """Is this item a call of the hidden tool?"""
    return isinstance(item, dict) and item.get("type") == "function_call" and item.get("name") == name


def is_waited_for(item: Any, name: str) -> bool:
    """Is this item a call that the client must answer?"""
    return isinstance(item, dict) and item.get("type") in _WAITED_FOR and not is_ours(item, name)


class ResponsesRounds:
    """The rounds of one reply; see `ExpandReader`."""

    def __init__(self, name: str, read_element: Callable[[bytes], Element]) -> None:
        self.number = 1
        self._name = name
        self._read_element = read_element
        self._earlier = Earlier()
        self._first: dict[str, Any] = {}
        self._shown: list[Any] = []  # the client's items of earlier rounds
        self._items: list[Any] = []  # of this round, all of them
        self._is_cut = False

    def end(self, usage: Usage | None) -> None:
        """A round is over and another one follows."""
        self.number += 1
        self._earlier.add(usage)
        self._shown += self._visible()
        self._items = []

    def take(self, items: list[Any], *, is_cut: bool) -> None:
        """The whole output of this round; `is_cut` when its last call may be unfinished."""
        self._items, self._is_cut = items, is_cut

    def _visible(self) -> list[Any]:
        return [item for item in self._items if not is_ours(item, self._name)]

    def started(self, document: dict[str, Any]) -> dict[str, Any] | None:
        """An event with a response in it that is still the client's own; later rounds start unseen."""
        response = document.get("response")
        if not isinstance(response, dict):
            return document
        if self.number > 1:
            return None
        self._first = self._first or {key: response[key] for key in _NAMES if key in response}
        plain = self._without_tool(response)
        return document if plain is response else {**document, "response": plain}

    @property
    def response_id(self) -> str:
        """Of the client's one response; "" before it began."""
        found = self._first.get("id")
        return found if isinstance(found, str) else ""

    def failed(self, document: dict[str, Any]) -> dict[str, Any]:
        """The end by an error, as the end of the client's own response."""
        response = document.get("response")
        if not isinstance(response, dict):
            return document
        own = self._named(self._without_tool(response))
        return document if own == response else {**document, "response": own}

    def merged(self, response: dict[str, Any]) -> dict[str, Any]:
        """The response with all that the client was shown, and all output tokens."""
        whole = {**self._without_tool(response), "output": [*self._shown, *self._visible()]}
        return self._earlier.into(self._named(whole))

    def _named(self, response: dict[str, Any]) -> dict[str, Any]:
        return response | {key: value for key, value in self._first.items() if key in response}

    def _without_tool(self, response: dict[str, Any]) -> dict[str, Any]:
        """Providers repeat the request's tools: ours is not the client's business."""
        tools = response.get("tools")
        if not isinstance(tools, list):
            return response
        kept = [tool for tool in tools if not (isinstance(tool, dict) and tool.get("name") == self._name)]
        return response if len(kept) == len(tools) else {**response, "tools": kept}

    def reply(self, last: Reply) -> Reply:
        """What the client has got: all rounds' items in one."""
        elements = tuple(self._read_element(jsonbytes.dumps(item)) for item in (*self._shown, *self._visible()))
        if not self._items and last.elements:
            # Cut before its end: what was begun is all there is, and no call of ours can be told from it.
            elements += tuple(e for e in last.elements if not any(call.name == self._name for call in e.calls))
        response_id = self._first.get("id")
        return Reply(
            elements=elements,
            text="\n".join(element.text for element in elements if element.kind == "message"),
            finish="tool_calls"
            if any(e.calls for e in elements)
            else "stop"
            if last.finish == "tool_calls"
            else last.finish,
            usage=last.usage,
            response_id=response_id if isinstance(response_id, str) else last.response_id,
            kept_as=last.response_id if last.response_id != response_id else "",
            is_complete=last.is_complete,
            error=last.error,
            item_ids=tuple(_id_of(item) for item in (*self._shown, *self._visible())),
        )

    def round(self) -> Round:
        """The round's items as they were, its hidden calls complete enough to be sent back."""
        if self._is_cut:
            return Round()
        elements: list[Element] = []
        is_visible: list[bool] = []
        hidden: list[HiddenCall] = []
        before: list[str] = []
        for item in self._items:
            ours = is_ours(item, self._name)
            if ours:
                arguments = item.get("arguments")
                arguments = arguments if isinstance(arguments, str) else ""
                hidden.append(HiddenCall(str(item.get("call_id", "")), arguments, tuple(before)))
                item = item if _is_object(arguments) else {**item, "arguments": "{}"}
            elif is_waited_for(item, self._name):
                before.append(str(item.get("call_id") or item.get("id") or ""))
            elements.append(self._read_element(jsonbytes.dumps(item)))
            is_visible.append(not ours)
        return Round(tuple(elements), tuple(is_visible), tuple(hidden)) if hidden else Round()


def _id_of(item: Any) -> str:
    value = item.get("id") if isinstance(item, dict) else None
    return value if isinstance(value, str) else ""


def _is_object(text: str) -> bool:
    try:
        return isinstance(jsonbytes.loads(text), dict)
    except ValueError:
        return False


class ResponsesExpandBody:
    """Replies in one piece: nothing passes before it is whole. See `ExpandReader`."""

    place = NOWHERE  # nothing of it is numbered

    def __init__(self, name: str, read_element: Callable[[bytes], Element]) -> None:
        self._name = name
        self._rounds = ResponsesRounds(name, read_element)
        self._read_element = read_element
        self.at_event_boundary = True
        self._is_last = False
        self._begin()

    def _begin(self) -> None:
        self.has_content = False
        self.wants_more = False
        self._has_hidden = False
        self._reader = ResponsesBodyReader(self._read_element)

    @property
    def is_done(self) -> bool:
        return self._reader.is_done

    @property
    def error(self) -> bytes:
        return self._reader.error

    def next_round(self, *, is_last: bool = False) -> None:
        """Another upstream call answers."""
        self._rounds.end(self._reader.reply().usage)
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
        body, document = self._reader.body, self._reader.document()
        if self._reader.error or not isinstance(document, dict) or not isinstance(document.get("output"), list):
            self.has_content = self._reader.has_content
            return body
        items = document["output"]
        self._has_hidden = any(is_ours(item, self._name) for item in items)
        is_cut = document.get("status") == "incomplete"
        self._rounds.take(items, is_cut=is_cut)
        plain = self._rounds.started({"response": document})
        if self._has_hidden and not is_cut and not any(is_waited_for(item, self._name) for item in items):
            if not self._is_last:
                self.wants_more = True
                return b""
            self._rounds.take(items, is_cut=True)
        self.has_content = True
        if self._rounds.number == 1 and not self._has_hidden and plain is not None:
            return body if plain["response"] is document else jsonbytes.dumps(plain["response"])
        return jsonbytes.dumps(self._rounds.merged(document))

    def reply(self) -> Reply:
        """What the client has got."""
        last = self._reader.reply()
        return last if self._rounds.number == 1 and not self._has_hidden else self._rounds.reply(last)

    def round(self) -> Round:
        """What the round that just ended said."""
        return self._rounds.round() if self._has_hidden else Round()
