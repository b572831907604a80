"""Items named by reference, the provider's own compactions, background responses: what only the provider can read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.test_responses_chains import OMITTED, asks, bodies, conversation, name_of, ok, post, result
from tests.support import responses_events as events
from tests.support.builders import long_text
from tests.support.keeping_provider import Keeper
from tests.support.records import Records, eventually
from tests.support.replies import json_reply, stream_reply
from tests.support.serve import served
from tests.support.session import EAGER, NEVER
from tests.support.upstream import ScriptedUpstream

FIRST, SECOND = "call_aXb19cdE22", "call_bYc28deF33"
USER = {"role": "user", "content": "read the gauges"}


def named(reply: httpx.Response) -> list[dict[str, Any]]:
    """The reply's items as a client that keeps them at the provider repeats them."""
    return [{"type": "item_reference", "id": item["id"]} for item in reply.json()["output"]]


def walk(proxy: Any, keeper: Keeper) -> list[dict[str, Any]]:
    """Two tool calls, each list with references in place of what the model said."""
    asks(keeper, FIRST, SECOND)
    items: list[dict[str, Any]] = [USER]
    for call_id in (FIRST, SECOND):
        items += [*named(ok(proxy, items)), result(call_id, long_text(len(items)))]
    items += [*named(ok(proxy, items)), {"role": "user", "content": "and now?"}]
    return items


def test_references_are_read_as_what_they_name_and_go_out_as_they_came(tmp_path: Path) -> None:
    keeper, db = Keeper(), tmp_path / "x.db"
    with ScriptedUpstream(keeper) as up:
        with served(up.base_url, db, policy__options=EAGER) as proxy:
            items = walk(proxy, keeper)
            reply = ok(proxy, items)
            expected = up.requests[-1].body
            sent = bodies(up)[-1]["input"]
            assert [item for item in sent if item.get("type") != "function_call_output"] == [
                item for item in items if item.get("type") != "function_call_output"
            ]
            outputs = [item["output"] for item in sent if item.get("type") == "function_call_output"]
            assert [OMITTED in text for text in outputs] == [True, True]
            records = Records(proxy.db)
            assert len(records.conversations()) == 1 and len(records.branches(conversation(reply))) == 1
            assert len(records.texts(conversation(reply))) == 12  # each item once, none of them a mere reference
            assert not any(b"item_reference" in raw for raw in records.raws(conversation(reply)))
        with served(up.base_url, db, policy__options=EAGER) as proxy:
            again = ok(proxy, items)
            assert up.requests[-1].body == expected and conversation(again) == conversation(reply)
    assert not keeper.refusals


def test_a_fold_takes_references_with_what_belongs_to_them() -> None:
    keeper = Keeper()
    settings: dict[str, Any] = {"models": {"*": {"window": 5000}}, "window__target_share": 0.3}
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__options=NEVER, **settings) as proxy:
        items: list[dict[str, Any]] = [USER]
        for number in range(14):
            call_id = f"call_q{number}Wb19cdE{number:02d}"
            asks(keeper, call_id)
            items += [*named(ok(proxy, items)), result(call_id, f"seen {number}")]
            items += [*named(ok(proxy, items)), {"role": "user", "content": long_text(number, 1500)}]
        ok(proxy, items)
        sent = bodies(up)[-1]["input"]
        assert len(sent) < len(items) // 2 and "made by the proxy" in up.requests[-1].body.decode()
        assert sum(item.get("type") == "item_reference" for item in sent) >= 4  # what is left is whole
        assert not keeper.refusals


def test_a_list_with_a_reference_that_nobody_here_knows_is_left_alone() -> None:
    keeper = Keeper()
    with ScriptedUpstream(keeper) as up:
        asks(keeper, FIRST)
        first = httpx.post(f"{up.base_url}/responses", json={"model": "m", "input": [USER]}, timeout=10)
        with served(up.base_url, policy__options=EAGER) as proxy:
            items = [USER, *named(first), result(FIRST, long_text(1))]
            second = ok(proxy, items)
            items += [*named(second), {"role": "user", "content": "and now?"}]
            last = ok(proxy, items)
            assert bodies(up)[-1]["input"] == items
            assert conversation(last) == conversation(second)
            assert long_text(1) in Records(proxy.db).texts(conversation(last))


def test_row_40_a_reference_never_reads_what_another_key_said() -> None:
    keeper = Keeper()
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__options=EAGER) as proxy:
        items = walk(proxy, keeper)
        stolen = ok(proxy, items, key="sk-two")
        assert bodies(up)[-1]["input"] == items
        texts = Records(proxy.db).texts(conversation(stolen))
        assert not any("noted" in text for text in texts[:-1])


def spoken(keeper: Keeper, proxy: Any) -> tuple[list[dict[str, Any]], httpx.Response]:
    """A stateless session with one tool call."""
    asks(keeper, FIRST)
    first = ok(proxy, [USER], store=False)
    items = [USER, *first.json()["output"], result(FIRST, long_text(1))]
    second = ok(proxy, items, store=False)
    return [*items, *second.json()["output"]], second


@pytest.mark.parametrize("way", ["trigger", "endpoint"])
def test_a_compaction_by_the_provider_is_an_epoch_of_the_same_conversation(way: str) -> None:
    keeper = Keeper()
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__options=EAGER) as proxy:
        items, second = spoken(keeper, proxy)
        if way == "trigger":
            items.append({"type": "compaction_trigger"})
            made = ok(proxy, items, store=False)
        else:
            made = ok(proxy, items, path="responses/compact")
        assert bodies(up)[-1]["input"] == items  # never rewritten, whatever the policy would like
        output = made.json()["output"]
        assert [item["type"] for item in output if "type" in item] == ["compaction"]
        after = [*output, {"role": "user", "content": "and now?"}]
        reply = ok(proxy, after, store=False)
        assert bodies(up)[-1]["input"] == after
        later = [*after, *reply.json()["output"], {"role": "user", "content": "and then?"}]
        ok(proxy, later, store=False)
        assert bodies(up)[-1]["input"] == later
        assert conversation(reply) == conversation(second) == conversation(made)
        records = Records(proxy.db)
        verdicts = [row.verdict for row, _ in records.exchanges(conversation(reply))]
        assert verdicts == ["new", "continue", "side", "epoch", "continue"]
        by_kind = {branch.parent_kind: branch for branch in records.branches(conversation(reply))}
        assert by_kind["epoch"].epoch == 1 and by_kind["epoch"].kind == "main"
        outcomes = records.outcomes(conversation(reply))
        assert all(outcome.outcome == "ok" and outcome.input for outcome in outcomes)
    assert not keeper.refusals


def test_what_the_provider_compacts_by_itself_stays_one_branch() -> None:
    """The client asked for it: the reply holds the sealed item, and what stood before it may go."""
    keeper = Keeper()
    asked = {"context_management": [{"type": "compaction", "compact_threshold": 1000}], "store": False}
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__options=EAGER) as proxy:
        first = ok(proxy, [USER], **asked)
        items = [USER, *first.json()["output"], {"role": "user", "content": "go on"}]
        keeper.answers = [[keeper.compaction(items), *keeper.said("shorter now")]]
        second = ok(proxy, items, **asked)
        later = [*second.json()["output"], {"role": "user", "content": "and?"}]
        third = ok(proxy, later, **asked)
        assert bodies(up)[-1]["input"] == later
        assert len({conversation(reply) for reply in (first, second, third)}) == 1
        verdicts = [row.verdict for row, _ in Records(proxy.db).exchanges(conversation(third))]
        assert verdicts == ["new", "continue", "continue"]


def test_the_exact_counter_passes_as_it_is() -> None:
    keeper = Keeper()
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__options=EAGER) as proxy:
        body = b'{ "model":"m","input":[{"role":"user","content":"hi"}] }'
        reply = httpx.post(f"{proxy.base_url}/responses/input_tokens", content=body, timeout=10)
        assert reply.json() == {"object": "response.input_tokens", "input_tokens": 8}
        assert up.requests[-1].body == body and Records(proxy.db).conversations() == []


@pytest.mark.parametrize("stream", [False, True])
def test_a_background_response_is_left_alone_and_billed_when_its_result_is_fetched(stream: bool) -> None:
    keeper = Keeper()
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__options=EAGER) as proxy:
        reply = post(proxy, "take your time", background=True)
        assert reply.status_code == 200 and reply.json()["status"] == "queued"
        assert bodies(up)[-1]["background"] is True
        name, records = name_of(reply), Records(proxy.db)
        row, outcome = records.exchanges(conversation(reply))[-1]
        assert row.note and outcome and (outcome.outcome, outcome.input) == ("incomplete", 0)
        whole = events.response(name, [events.message_item("msg_1", "done")], events.usage(321, 12), background=True)
        result = stream_reply(events.reply_events(whole)) if stream else json_reply(whole)
        up.enqueue(
            json_reply({**whole, "status": "in_progress", "output": [], "usage": None}), result, json_reply(whole)
        )
        url = f"{proxy.base_url}/responses/{name}{'?stream=true&starting_after=1' if stream else ''}"
        for _ in range(3):
            got = httpx.get(url, headers={"authorization": "Bearer sk-one"}, timeout=10)
            assert got.status_code == 200
        assert got.json() == whole
        found = eventually(lambda: [o for o in records.outcomes(conversation(reply)) if o.input])
        assert [(o.input, o.output, o.outcome) for o in found] == [(321, 12, "ok")]  # once, however often it is fetched
