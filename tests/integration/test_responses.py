"""The Responses API over sockets, as clients that send whole lists use it: pairs, reasoning, streams, codings."""

from __future__ import annotations

import json
import random
from typing import Any

import httpx
import pytest

from tests.integration.test_responses_chains import OMITTED, asks, bodies, conversation, ok, post, result
from tests.support import responses_events as events
from tests.support.builders import long_text
from tests.support.histories import Histories
from tests.support.keeping_provider import Keeper
from tests.support.records import Records
from tests.support.replies import cut_stream, encode_body, json_reply, stream_reply
from tests.support.serve import served
from tests.support.session import EAGER, NEVER
from tests.support.strict_responses import Made
from tests.support.upstream import Hang, ScriptedUpstream

USER = {"role": "user", "content": "read the gauges"}


def step(number: int, text: str) -> list[dict[str, Any]]:
    """Reasoning, a call behind it, and its output."""
    call_id = f"call_q{number:03d}Wb19cdE{number:03d}"
    return [
        events.reasoning_item(f"rs_{number:04d}", f"gAAAA/{number:04d}+seal=" * 9),
        events.call_item(f"fc_{number:04d}", call_id, "look", json.dumps({"what": f"gauge {number}"})),
        result(call_id, text),
    ]


@pytest.mark.parametrize("window", range(2200, 5200, 600))
def test_reas_01_reasoning_and_its_follower_stay_together_byte_for_byte(window: int) -> None:
    """Many windows, so that the cut would fall behind every r1; the provider refuses what is altered or alone."""
    keeper, settings = Keeper(), {"window__target_share": 0.4}
    with (
        ScriptedUpstream(keeper) as up,
        served(up.base_url, policy__options=NEVER, models={"*": {"window": window}}, **settings) as proxy,
    ):
        items: list[dict[str, Any]] = [USER]
        ok(proxy, items, store=False)
        for number in range(30):
            made = step(number, f"seen {number} {long_text(number, 240)}")
            keeper.made.add(made[:2])
            items += made
            if number % 10 == 9:
                items.append({"role": "user", "content": f"turn {number}"})
            ok(proxy, items, store=False)
        assert not keeper.refusals
        sent = up.requests[-1].body
        assert b"made by the proxy" in sent
        for item in items:
            if item.get("type") == "reasoning" and item["id"].encode() in sent:
                assert json.dumps(item, separators=(",", ":")).encode() in sent
        assert len(bodies(up)[-1]["input"]) < len(items)


def test_reas_03_and_04_unknown_keys_at_every_depth_survive() -> None:
    keeper = Keeper()
    odd = {"x_thoughts": "t" * 10_240, "nested": {"deep": [{"sig": "s=="}]}}
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__options=EAGER) as proxy:
        asks(keeper, "call_aXb19cdE22")
        keeper.answers[0][1] |= odd
        first = ok(proxy, [USER], store=False)
        assert first.json()["output"][1]["nested"] == odd["nested"]
        part = {"type": "input_text", "text": long_text(1), "x_mark": {"kept": 1}}
        output = {
            "type": "function_call_output",
            "call_id": "call_aXb19cdE22",
            "output": [part],
            "x_own": [1, {"a": 2}],
        }
        items = [USER, *first.json()["output"], output]
        second = ok(proxy, items, store=False)
        ok(proxy, [*items, *second.json()["output"], {"role": "user", "content": "and?"}], store=False)
        sent = bodies(up)[-1]["input"]
        assert sent[2] == first.json()["output"][1]
        assert OMITTED in sent[3]["output"][0]["text"] and sent[3]["output"][0]["x_mark"] == {"kept": 1}
        assert sent[3]["x_own"] == [1, {"a": 2}]
        assert any(b'"nested":{"deep":[{"sig":"s=="}]}' in raw.replace(b" ", b"") for raw in
                   Records(proxy.db).raws(conversation(second)))  # fmt: skip


def test_pair_03_unknown_items_that_name_each_other_are_whole_or_gone() -> None:
    keeper = Keeper()
    use = {"type": "strange_use", "id": "odd_1", "input": {"q": "x" * 2000}}
    said = {"role": "assistant", "content": "let me see"}
    answer = {"type": "strange_result", "strange_use_id": "odd_1", "content": "y" * 2000}
    with (
        ScriptedUpstream(keeper) as up,
        served(up.base_url, policy__options=EAGER, models={"*": {"window": 5000}}) as proxy,
    ):
        items: list[dict[str, Any]] = [USER, said, use, {"role": "user", "content": "in between"}, answer]
        for number in range(14):
            reply = ok(proxy, items, store=False)
            body = up.requests[-1].body.decode()
            halves = ('"strange_use"' in body, '"strange_result"' in body)
            assert halves in ((True, True), (False, False)), number
            if halves[0]:
                assert use in bodies(up)[-1]["input"] and answer in bodies(up)[-1]["input"]
            items += [*reply.json()["output"], {"role": "user", "content": long_text(number, 900)}]
        assert halves == (False, False) and "made by the proxy" in body and not keeper.refusals


@pytest.mark.parametrize("seed", range(8))
def test_every_kind_of_item_goes_through_and_is_stored_as_it_came(seed: int) -> None:
    histories = Histories(random.Random(seed), is_adjacent=False)
    keeper = Keeper()
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__name="passthrough") as proxy:
        items: list[dict[str, Any]] = []
        for added, reply in histories.exchanges(4):
            keeper.answers = [reply]
            items += added
            made = ok(proxy, items, store=False)
            assert made.json()["output"] == reply and bodies(up)[-1]["input"] == items
            items += reply
        raws = [json.loads(raw) for raw in Records(proxy.db).raws(conversation(made))]
        assert all(item in raws for item in items) and not keeper.refusals


OVERFLOW = "Your input exceeds the context window of this model. Please adjust your input and try again."
ERROR = {"type": "invalid_request_error", "code": "context_length_exceeded", "message": OVERFLOW, "param": "input"}
START = events.response("resp_bad", [], None)
OPENING: list[dict[str, Any]] = [
    {"type": "response.created", "response": START},
    {"type": "response.queued", "response": START},
    {"type": "response.in_progress", "response": START},
    {"type": "keepalive"},
]
FAILED = {"type": "response.failed", "response": {**START, "status": "failed", "error": ERROR}}


@pytest.mark.parametrize(
    "tail",
    [
        [{"type": "error", "error": ERROR}, FAILED],
        [{"type": "error", **{key: ERROR[key] for key in ("code", "message", "param")}}],
        [FAILED],
    ],
    ids=["nested, then failed", "flat", "failed alone"],
)
def test_an_overflow_inside_a_stream_is_answered_before_the_client_hears_of_it(tail: list[dict[str, Any]]) -> None:
    keeper = Keeper()
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__options=NEVER) as proxy:
        items = [USER, *[item for number in range(4) for item in step(number, long_text(number))], USER]
        up.enqueue(stream_reply(events.wire_events([*OPENING, *tail])))
        reply = ok(proxy, items, store=False, stream=True)
        assert len(up.requests) == 2 and len(up.requests[1].body) < len(up.requests[0].body) // 2
        data = [json.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: ")]
        assert [event["sequence_number"] for event in data] == list(range(len(data)))
        assert data[-1]["type"] == "response.completed" and "resp_bad" not in reply.text
        outcome = Records(proxy.db).outcome(conversation(reply))
        assert (outcome.outcome, outcome.attempts, outcome.input) == (
            "ok",
            2,
            data[-1]["response"]["usage"]["input_tokens"],
        )


def test_a_failure_behind_content_is_the_clients_own() -> None:
    begun = [*OPENING, {"type": "response.output_item.added", "output_index": 0, "item": events.message_item("m", "")}]
    raw = b"".join(events.wire_events([*begun, FAILED]))
    with ScriptedUpstream(Keeper()) as up, served(up.base_url) as proxy:
        up.enqueue(stream_reply([raw]))
        reply = ok(proxy, [USER], stream=True)
        assert reply.content == raw and len(up.requests) == 1
        assert Records(proxy.db).outcome(conversation(reply)).outcome == "error"


def ended(reason: str) -> dict[str, Any]:
    return {"status": "incomplete", "incomplete_details": {"reason": reason}}


@pytest.mark.parametrize(
    ("kind", "fields", "outcome", "finish"),
    [
        ("response.incomplete", ended("max_output_tokens"), "ok", "length"),
        ("response.incomplete", ended("steered"), "ok", "steered"),
        ("response.cancelled", {"status": "cancelled"}, "incomplete", "cancelled"),
        ("response.completed", {}, "ok", "stop"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("stream", [False, True])
def test_every_end_is_recorded_with_its_usage(
    kind: str, fields: dict[str, Any], outcome: str, finish: str, stream: bool
) -> None:
    whole = events.response(
        "resp_1", [events.message_item("msg_1", "as far as it came")], events.usage(77, 5), **fields
    )
    item = {"type": "response.output_item.done", "output_index": 0, "item": whole["output"][0]}
    streamed = events.wire_events([*OPENING, item, {"type": kind, "response": whole}])
    with ScriptedUpstream(Keeper()) as up, served(up.base_url) as proxy:
        up.enqueue(stream_reply(streamed) if stream else json_reply(whole))
        reply = ok(proxy, [USER], stream=stream)
        found = Records(proxy.db).outcome(conversation(reply))
        assert (found.outcome, found.finish, found.input, found.output) == (outcome, finish, 77, 5)
        assert "as far as it came" in Records(proxy.db).texts(conversation(reply))


def test_a_cut_stream_keeps_what_was_said() -> None:
    whole = events.response("resp_1", [events.message_item("msg_1", "half of a report")], events.usage(77, 5))
    parts = events.reply_events(whole)
    with ScriptedUpstream(Keeper()) as up, served(up.base_url) as proxy:
        up.enqueue(cut_stream(parts[:5]))
        reply = post(proxy, [USER], stream=True)
        assert reply.content.startswith(b"".join(parts[:5])) and "response.failed" in reply.text
        [only] = Records(proxy.db).conversations()
        assert Records(proxy.db).outcome(only).outcome == "interrupted"
        assert Records(proxy.db).texts(only)[-1].startswith("half of")


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_http_03_coded_bodies_are_read_and_made_smaller(coding: str) -> None:
    keeper = Keeper()
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__options=EAGER) as proxy:
        items: list[dict[str, Any]] = [USER, *step(1, long_text(1))]
        for _ in range(2):
            body = encode_body(json.dumps({"model": "m", "store": False, "input": items}).encode(), coding)
            headers = {"content-encoding": coding, "content-type": "application/json"}
            reply = httpx.post(f"{proxy.base_url}/responses", content=body, headers=headers, timeout=20)
            assert reply.status_code == 200, reply.text
            items += [*reply.json()["output"], {"role": "user", "content": "and?"}]
        last = up.requests[-1]
        assert last.header("content-encoding") is None and int(last.header("content-length") or 0) == len(last.body)
        assert OMITTED.encode() in last.body


def test_other_ways_to_a_response_pass_as_they_are() -> None:
    stream = events.wire_events(OPENING)
    with ScriptedUpstream(Keeper()) as up, served(up.base_url) as proxy:
        up.enqueue(json_reply({"id": "r", "status": "cancelled"}), json_reply({"id": "r", "deleted": True}))
        with httpx.Client(base_url=proxy.base_url, timeout=10) as client:
            assert client.post("responses/r/cancel").json() == {"id": "r", "status": "cancelled"}
            assert client.delete("responses/r").json()["deleted"]
            up.enqueue(json_reply({"object": "list", "data": []}))
            assert client.get("responses/r/input_items?limit=2").json()["data"] == []
            up.enqueue(stream_reply([stream[0], Hang()]))
            with client.stream("GET", "responses/r?stream=true&starting_after=4") as reply:
                assert next(reply.iter_raw()) == stream[0]  # each event at once, not at the end
        assert [request.method for request in up.requests] == ["POST", "DELETE", "GET", "GET"]
        assert up.requests[-1].query == "stream=true&starting_after=4"


def test_row_38_the_same_session_moves_from_chat_to_responses() -> None:
    """Row 38: one conversation, one branch, and the window goes on: what was masked stays so."""
    keeper = Keeper(made=Made())
    chat_reply = {"role": "assistant", "content": "The outer gauge reads as it always did."}
    call = {"id": "call_aXb19cdE22", "type": "function", "function": {"name": "look", "arguments": '{"what": "gauge"}'}}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You read gauges."},
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_aXb19cdE22", "content": long_text(1)},
    ]
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__options=EAGER) as proxy:
        headers = {"authorization": "Bearer sk-one"}
        up.enqueue(json_reply({"id": "c1", "object": "chat.completion", "choices": [
            {"index": 0, "message": chat_reply, "finish_reason": "stop"}]}))  # fmt: skip
        tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
        body = {"model": "scripted-1", "messages": messages, "tools": tools}
        first = httpx.post(f"{proxy.base_url}/chat/completions", json=body, headers=headers, timeout=20)
        items = [
            USER,
            {"type": "function_call", "call_id": call["id"], "name": "look", "arguments": '{"what":"gauge"}'},
            result("call_aXb19cdE22", long_text(1)),
            {"role": "assistant", "content": [{"type": "output_text", "text": chat_reply["content"]}]},
            {"role": "user", "content": "and now?"},
        ]
        second = ok(proxy, items, instructions="You read gauges.")
        assert conversation(first) == conversation(second)
        assert OMITTED in bodies(up)[-1]["input"][2]["output"]
        assert [row.verdict for row, _ in Records(proxy.db).exchanges(conversation(second))] == ["new", "continue"]
        assert len(Records(proxy.db).branches(conversation(second))) == 1
