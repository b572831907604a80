"""Chains by themselves: what is found, within which tenant, and what a store that fails makes of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from proxy import takeover
from proxy.core.model import Reply
from proxy.errors import StoreError
from proxy.settle import End, settle
from proxy.store.null import NullStore
from proxy.takeover import Asked, Chains
from proxy.turn import Turn
from proxy.wire.chat import ChatFormat
from proxy.wire.responses import ResponsesFormat
from tests.support import builders
from tests.support.turns import TENANT, Bench, bench

FMT = ResponsesFormat()
MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "noted"}]}


class Broken(NullStore):
    """A store that cannot be read."""

    async def find_branches(self, *_: Any, **__: Any) -> Any:
        raise StoreError("no disk")


def conversation(**body: Any) -> Any:
    return FMT.decode(json.dumps({"model": "m", **body}).encode(), {})


async def asked(parts: Bench, chains: Chains, number: int, **body: Any) -> tuple[Asked, Turn]:
    found = await chains.resolve(FMT, conversation(**body), TENANT)
    turn = await parts.turns.begin(FMT, found.conversation, TENANT, f"x{number}", found.original)
    return found, turn


def answer(parts: Bench, chains: Chains, turn: Turn, name: str, items: Sequence[Any] = (MESSAGE,)) -> int:
    """The reply, remembered; how many rows that made."""
    elements = tuple(FMT.read_element(json.dumps(item).encode()) for item in items)
    ids = tuple(str(item.get("id", "")) for item in items)
    reply = Reply(elements, "noted", "stop", response_id=name, is_complete=True, item_ids=ids)
    settle(turn, End("ok", 200), reply, parts.record(turn)[1], TENANT, parts.live, parts.models)
    return len(chains.remember(turn, reply, TENANT).keys)


async def test_chat_requests_are_not_looked_at() -> None:
    chat = ChatFormat()
    request = chat.decode(builders.body_bytes(builders.request([builders.user("a")])), {})
    found = await Chains(Broken()).resolve(chat, request, TENANT)
    assert found == Asked(request)


async def test_a_chain_is_one_list_and_one_branch(tmp_path: Path) -> None:
    parts, chains = bench(tmp_path), Chains(NullStore())
    _, first = await asked(parts, chains, 1, input="a")
    assert answer(parts, chains, first, "resp_1") == 1
    found, second = await asked(parts, chains, 2, input="b", previous_response_id="resp_1")
    assert [element.text for element in found.conversation.elements] == ["a", "noted", "b"]
    assert found.original is not None and not found.conversation.is_opaque
    assert second.placement.branch == first.placement.branch and second.placement.verdict == "continue"
    assert json.loads(second.rendered.body) == {"model": "m", "input": "b", "previous_response_id": "resp_1"}
    assert second.is_as_sent and not second.rendered.is_rewritten
    assert len(set(second.measured.ids)) == 3


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"store": False}, {}),
        ({"prompt": {"id": "p"}}, {}),
        ({"conversation": "c"}, {}),
        ({}, {"background": True}),
        ({}, {"conversation": "c"}),
    ],
)
async def test_what_is_not_whole_is_not_ours(tmp_path: Path, first: dict[str, Any], then: dict[str, Any]) -> None:
    parts, chains = bench(tmp_path), Chains(NullStore())
    _, turn = await asked(parts, chains, 1, input="a", **first)
    answer(parts, chains, turn, "resp_1")
    found, second = await asked(parts, chains, 2, input="b", previous_response_id="resp_1", **then)
    assert found.conversation.is_opaque and not second.is_managed
    assert json.loads(second.rendered.body)["previous_response_id"] == "resp_1"


async def test_switched_off_it_is_known_and_not_ours(tmp_path: Path) -> None:
    parts, chains = bench(tmp_path), Chains(NullStore(), is_on=False)
    _, turn = await asked(parts, chains, 1, input="a")
    answer(parts, chains, turn, "resp_1")
    found, second = await asked(parts, chains, 2, input="b", previous_response_id="resp_1")
    assert found.conversation.is_opaque and len(found.conversation.elements) == 3 and not second.is_managed


async def test_what_is_forgotten_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takeover, "HISTORIES_KEPT", 2)
    monkeypatch.setattr(takeover, "ITEM_BYTES", 1)
    parts, chains = bench(tmp_path), Chains(NullStore())
    for number in range(3):
        _, turn = await asked(parts, chains, number, input=f"a{number}")
        answer(parts, chains, turn, f"resp_{number}", [{**MESSAGE, "id": f"msg_{number}"}])
    oldest, _ = await asked(parts, chains, 4, input="b", previous_response_id="resp_0")
    assert oldest.original is None and oldest.conversation.is_opaque
    kept, _ = await asked(parts, chains, 5, input="b", previous_response_id="resp_2")
    assert kept.original is not None
    reference = await chains.resolve(FMT, conversation(input=[{"id": "msg_0"}, {"id": "msg_2"}]), TENANT)
    assert reference.conversation.is_opaque
    known = await chains.resolve(FMT, conversation(input=[{"id": "msg_2"}]), TENANT)
    assert known.conversation.elements[0].text == "noted" and not known.conversation.is_opaque
    same = await chains.resolve(FMT, conversation(input=[{"id": "msg_2"}]), TENANT)
    assert same.conversation.elements[0] is known.conversation.elements[0]
    other = await chains.resolve(FMT, conversation(input=[{"id": "msg_2"}]), "another")
    assert other.conversation.is_opaque


async def test_a_store_that_fails_leaves_the_request_as_it_came(tmp_path: Path) -> None:
    chains = Chains(Broken())
    behind = conversation(input="b", previous_response_id="resp_1")
    assert await chains.resolve(FMT, behind, TENANT) == Asked(behind)
    references = conversation(input=[{"id": "msg_1"}])
    assert (await chains.resolve(FMT, references, TENANT)).conversation.is_opaque
