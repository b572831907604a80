"""Real clients while the model fetches originals in between: the session of a run in which the content was there."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.integration.clients import DRIVES, LITELLM_WARNING
from tests.integration.test_clients import direct
from tests.support import responses_events as events
from tests.support.expanding import NAME
from tests.support.replies import chat_events, completion, json_reply, stream_reply, tool_call
from tests.support.serve import served
from tests.support.strict_model import StrictModel, as_items
from tests.support.upstream import Action, Request, ScriptedUpstream

OMITTED = re.compile(r"omitted from history:[^\]]*?id ([a-z2-7]{12})")
pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings(LITELLM_WARNING)]
SMALL: dict[str, Any] = {
    "policy__options": {"economics": False, "mask_at": 0, "keep": 0, "min_batch": 0, "min_share": 0}
}


@dataclass(eq=False)
class Curious:
    """Asks for an original before it answers, whenever it may; then says what the strict model says."""

    model: StrictModel
    rounds: list[str] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)  # what the calls got

    def __call__(self, request: Request) -> Action:
        body = request.json()
        is_chat = request.path.endswith("/chat/completions")
        items = body["messages"] if is_chat else as_items(body["input"])
        names = [tool.get("name") or tool["function"]["name"] for tool in body.get("tools") or ()]
        hidden = {
            call["id"]: NAME
            for item in items
            for call in item.get("tool_calls") or ()
            if call["function"]["name"] == NAME
        }
        hidden |= {
            item["call_id"]: NAME for item in items if item.get("type") == "function_call" and item["name"] == NAME
        }
        last = items[-1]
        key = last.get("tool_call_id") or last.get("call_id")
        if key in hidden:
            self.returned.append(str(last.get("content") or last.get("output")))
        if NAME in names and key not in hidden:
            self.rounds.append(f"call_fetch{len(self.rounds):04}x")
            ids = OMITTED.findall(request.body.decode())
            return self._ask(body, self.rounds[-1], ids[len(self.rounds) % len(ids)] if ids else "", is_chat=is_chat)
        fault = self.model._chat_fault(body) if is_chat else None
        if fault is not None:
            self.model.refusals.append(fault[0])
        return self.model(_without(request, body, items, hidden, is_chat=is_chat))

    def _ask(self, body: dict[str, Any], call_id: str, item: str, *, is_chat: bool) -> Action:
        arguments = json.dumps({"id": item or "aaaaaaaaaaaa"})
        if is_chat:
            calls = [tool_call(call_id, NAME, arguments)]
            if body.get("stream"):
                return stream_reply(chat_events("", calls=calls))
            return json_reply(completion(None, calls=calls))
        whole = events.response(
            f"resp_{call_id}", [events.call_item(f"fc_{call_id}", call_id, NAME, arguments)], events.usage(9, 9)
        )
        return stream_reply(events.reply_events(whole)) if body.get("stream") else json_reply(whole)


def _without(
    request: Request, body: dict[str, Any], items: list[Any], hidden: dict[str, str], *, is_chat: bool
) -> Request:
    """The request as if the model had had the content at once: the strict model knows no rounds."""
    kept = []
    for item in items:
        if (item.get("tool_call_id") or item.get("call_id")) in hidden:
            continue
        if item.get("tool_calls"):
            calls = [call for call in item["tool_calls"] if call["id"] not in hidden]
            if not calls:
                continue
            item = {**item, "tool_calls": calls}
        kept.append(item)
    changed = {**body, "messages" if is_chat else "input": kept}
    return Request(
        request.method, request.target, request.headers, json.dumps(changed).encode(), request.connection, request.at
    )


@pytest.mark.parametrize("name", DRIVES)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_the_application_cannot_tell(name: str, stream: bool, tmp_path: Path) -> None:
    """Texts, calls and the kinds of every chunk are those of the plain session."""
    expected, _ = direct(name, stream)
    curious = Curious(StrictModel())
    with ScriptedUpstream(curious) as upstream, served(upstream.base_url, tmp_path / "x.db", **SMALL) as proxy:
        outcome = DRIVES[name](proxy.base_url, stream=stream)
    assert not curious.model.refusals
    assert len(curious.rounds) > 5
    assert sum(len(text) > 400 for text in curious.returned) > 2  # originals, not refusals
    assert outcome.answers == expected.answers and outcome.calls == expected.calls
    assert outcome.shapes == expected.shapes
