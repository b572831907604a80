"""Requests behind a previous response: taken over where that is safe, else passed as they came; always recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.support.builders import long_text
from tests.support.keeping_provider import Keeper
from tests.support.records import Records
from tests.support.replies import json_reply
from tests.support.serve import Served, served
from tests.support.session import EAGER, NEVER, from_store
from tests.support.upstream import Action, Request, ScriptedUpstream

TOOLS = [{"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}]
OMITTED = "output omitted from history"


def post(proxy: Served, input: Any, *, key: str = "sk-one", path: str = "responses", **fields: Any) -> httpx.Response:
    body = {"model": "scripted-1", "input": input, "tools": TOOLS, **fields}
    headers = {"authorization": f"Bearer {key}"}
    return httpx.post(f"{proxy.base_url}/{path}", json=body, headers=headers, timeout=30)


def ok(*args: Any, **options: Any) -> httpx.Response:
    reply = post(*args, **options)
    assert reply.status_code == 200, reply.text
    return reply


def result(call_id: str, text: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def name_of(reply: httpx.Response) -> str:
    return str(reply.json()["id"])


def conversation(reply: httpx.Response) -> str:
    return reply.headers["x-undercliff-conversation"]


def asks(keeper: Keeper, *ids: str) -> None:
    """The provider's next replies: one call each."""
    keeper.answers = []
    for call_id in ids:
        keeper.answers.append(keeper.called(call_id, what="tide"))


def chain(proxy: Served, keeper: Keeper, **fields: Any) -> list[httpx.Response]:
    """Two tool calls and a report, each request behind the response before it; then one more question."""
    asks(keeper, "call_aXb19cdE22", "call_bYc28deF33")
    replies = [ok(proxy, "read the gauges", **fields)]
    for item in (result("call_aXb19cdE22", long_text(1)), result("call_bYc28deF33", long_text(2))):
        replies.append(ok(proxy, [item], previous_response_id=name_of(replies[-1]), **fields))
    replies.append(ok(proxy, "and now?", previous_response_id=name_of(replies[-1]), **fields))
    return replies


def bodies(up: ScriptedUpstream) -> list[dict[str, Any]]:
    return [request.json() for request in up.requests if request.method == "POST"]


def deleting(keeper: Keeper) -> Callable[[Request], Action]:
    """The provider with its route to delete a response."""

    def answer(request: Request) -> Action:
        if request.method != "DELETE":
            return keeper(request)
        name = request.path.rpartition("/")[2]
        if keeper._kept.pop(name, None) is None:
            return json_reply({"error": {"message": f"Response with id '{name}' not found."}}, status=404)
        return json_reply({"id": name, "object": "response", "deleted": True})

    return answer


def test_row_34_a_chain_is_one_branch_and_its_lists_are_whole_and_valid() -> None:
    keeper = Keeper()
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__options=EAGER) as proxy:
        replies = chain(proxy, keeper)
        sent = bodies(up)
        # Until there is something to reduce, the provider's own copy does.
        assert [body.get("previous_response_id") for body in sent] == [None, name_of(replies[0]), None, None]
        items = sent[3]["input"]
        assert [item.get("type", item.get("role")) for item in items] == [
            "user", "reasoning", "function_call", "function_call_output", "reasoning", "function_call",
            "function_call_output", "reasoning", "message", "user",
        ]  # fmt: skip
        assert OMITTED in items[3]["output"] and OMITTED in items[6]["output"]
        assert all(item["encrypted_content"] for item in items if item.get("type") == "reasoning")
        assert not keeper.refusals
        assert len({conversation(reply) for reply in replies}) == 1
        records = Records(proxy.db)
        assert len(records.branches(conversation(replies[0]))) == 1
        texts = records.texts(conversation(replies[0]))
        assert long_text(1) in texts and long_text(2) in texts and "and now?" in texts
        assert len(texts) == 12
        assert [row.verdict for row, _ in records.exchanges(conversation(replies[0]))] == ["new"] + ["continue"] * 3


def test_row_34_switched_off_every_byte_passes_and_usage_is_read() -> None:
    keeper = Keeper()
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__options=EAGER, responses__takeover="off") as proxy:
        replies = chain(proxy, keeper)
        sent = bodies(up)
        assert [body.get("previous_response_id") for body in sent[1:]] == [name_of(reply) for reply in replies[:3]]
        assert sent[1]["input"] == [result("call_aXb19cdE22", long_text(1))]
        records = Records(proxy.db)
        rows = records.exchanges(conversation(replies[0]))
        assert [bool(row.note) for row, _ in rows] == [False, True, True, True]
        billed = [reply.json()["usage"]["input_tokens"] for reply in replies]
        assert [outcome.input for _, outcome in rows if outcome] == billed and billed[-1] > 3000
        assert [outcome.cost_direct == outcome.cost for _, outcome in rows if outcome] == [True] * 4
        assert len(records.texts(conversation(replies[0]))) == 12


def test_row_35_two_requests_behind_one_response_are_two_branches() -> None:
    keeper = Keeper()
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__options=EAGER) as proxy:
        replies = chain(proxy, keeper)
        other = ok(proxy, "or rather: why?", previous_response_id=name_of(replies[2]))
        assert conversation(other) == conversation(replies[0])
        branches = Records(proxy.db).branches(conversation(other))
        assert sorted(branch.parent_kind for branch in branches) == ["", "fork"]
        assert bodies(up)[-1]["input"][:-1] == bodies(up)[-2]["input"][:-1]  # the fork goes on from the same window
        assert bodies(up)[-1]["input"][-1]["content"] == "or rather: why?"
        assert not keeper.refusals


def test_row_36_a_response_that_nobody_knows_is_the_providers_business() -> None:
    keeper = Keeper()
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__options=EAGER) as proxy:
        reply = post(proxy, "go on", previous_response_id="resp_of_others")
        assert reply.status_code == 400 and "resp_of_others" in reply.text and len(up.requests) == 1
        assert bodies(up)[0]["previous_response_id"] == "resp_of_others" and bodies(up)[0]["input"] == "go on"


def test_row_36_a_chain_begun_elsewhere_is_recorded_but_never_taken_over() -> None:
    keeper = Keeper()
    with ScriptedUpstream(keeper) as up:
        first = httpx.post(f"{up.base_url}/responses", json={"model": "m", "input": "begun before"}, timeout=10)
        with served(up.base_url, policy__options=EAGER) as proxy:
            asks(keeper, "call_aXb19cdE22")
            second = ok(proxy, "look it up", previous_response_id=name_of(first))
            third = ok(proxy, [result("call_aXb19cdE22", long_text(1))], previous_response_id=name_of(second))
            last = ok(proxy, "and?", previous_response_id=name_of(third))
            assert bodies(up)[-1]["previous_response_id"] == name_of(third) and bodies(up)[-1]["input"] == "and?"
            assert conversation(last) == conversation(second)
            assert Records(proxy.db).learned() == []  # a bill for more than was seen teaches nothing
    assert not keeper.refusals


def test_row_37_new_instructions_are_sent_and_not_inherited() -> None:
    keeper = Keeper()
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__options=EAGER) as proxy:
        replies = chain(proxy, keeper, instructions="Be kind.")
        last = ok(proxy, "so?", previous_response_id=name_of(replies[-1]), instructions="Be short.")
        bare = ok(proxy, "so?", previous_response_id=name_of(last))
        assert bodies(up)[-3]["instructions"] == "Be kind."
        assert bodies(up)[-2]["instructions"] == "Be short." and OMITTED in json.dumps(bodies(up)[-2]["input"])
        assert "instructions" not in bodies(up)[-1] and "Be kind." not in up.requests[-1].body.decode()
        assert conversation(bare) == conversation(replies[0]) and not keeper.refusals


@pytest.mark.parametrize(
    "fields",
    [
        {"background": True},
        {"context_management": [{"type": "compaction", "compact_threshold": 90_000}]},
        {"prompt": {"id": "pmpt_1"}},
    ],
)
def test_what_asks_the_provider_for_more_is_not_taken_over(fields: dict[str, Any]) -> None:
    keeper = Keeper()
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__options=EAGER) as proxy:
        replies = chain(proxy, keeper)
        ok(proxy, "so?", previous_response_id=name_of(replies[2]), **fields)
        assert bodies(up)[-1]["previous_response_id"] == name_of(replies[2]) and bodies(up)[-1]["input"] == "so?"


def test_reasoning_that_only_the_provider_holds_keeps_the_chain_there() -> None:
    keeper = Keeper(seals=False)
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__options=EAGER) as proxy:
        replies = chain(proxy, keeper)
        assert [body.get("previous_response_id") for body in bodies(up)[1:]] == [name_of(r) for r in replies[:3]]


def test_items_that_the_provider_answered_itself_keep_the_chain_there() -> None:
    keeper = Keeper()
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__options=EAGER) as proxy:
        asks(keeper, "call_aXb19cdE22")
        search = {"type": "web_search_call", "id": "ws_0001c41fe2", "status": "completed", "action": {"type": "search"}}
        keeper.answers[0].insert(1, search)
        first = ok(proxy, "search")
        second = ok(proxy, [result("call_aXb19cdE22", long_text(1))], previous_response_id=name_of(first))
        ok(proxy, "so?", previous_response_id=name_of(second))
        assert bodies(up)[-1]["previous_response_id"] == name_of(second)


def test_a_response_that_was_not_to_be_stored_is_refused_as_it_would_be_without_us() -> None:
    keeper = Keeper()
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__options=EAGER) as proxy:
        asks(keeper, "call_aXb19cdE22")
        first = ok(proxy, "look", store=False)
        reply = post(proxy, [result("call_aXb19cdE22", long_text(1))], previous_response_id=name_of(first))
        assert reply.status_code == 400 and "not found" in reply.text
        assert bodies(up)[-1]["previous_response_id"] == name_of(first)


def test_a_restart_goes_on_with_the_same_bytes(tmp_path: Path) -> None:
    keeper, db = Keeper(), tmp_path / "x.db"
    with ScriptedUpstream(keeper) as up:
        with served(up.base_url, db, policy__options=EAGER) as proxy:
            replies = chain(proxy, keeper)
            ok(proxy, "so?", previous_response_id=name_of(replies[-1]))
            expected = up.requests[-1].body
            assert OMITTED.encode() in expected
        with served(up.base_url, db, policy__options=EAGER) as proxy:
            last = ok(proxy, "so?", previous_response_id=name_of(replies[-1]))
            assert up.requests[-1].body == expected
            assert conversation(last) == conversation(replies[0])


def test_row_40_another_key_never_gets_what_stands_behind_a_response() -> None:
    keeper = Keeper()
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__options=EAGER) as proxy:
        replies = chain(proxy, keeper)
        stolen = ok(proxy, "so?", key="sk-two", previous_response_id=name_of(replies[2]))
        assert bodies(up)[-1]["previous_response_id"] == name_of(replies[2]) and bodies(up)[-1]["input"] == "so?"
        assert conversation(stolen) != conversation(replies[0])
        assert long_text(1) not in Records(proxy.db).texts(conversation(stolen))


@pytest.mark.parametrize("stream", [False, True])
def test_an_overflow_behind_a_response_is_answered_with_a_smaller_list(stream: bool) -> None:
    keeper = Keeper()
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__options=NEVER) as proxy:
        replies = chain(proxy, keeper)
        keeper.window = 2000
        last = ok(proxy, "so?", previous_response_id=name_of(replies[-1]), stream=stream)
        assert len(keeper.refusals) == 1 and keeper.lists[-1][-1]["content"] == "so?"
        assert "grew too large" not in last.text and "context_length" not in last.text
        if stream:
            data = [line[6:] for line in last.text.splitlines() if line.startswith("data: ")]
            numbers = [json.loads(text)["sequence_number"] for text in data]
            assert numbers == list(range(len(numbers)))


def test_a_refused_takeover_goes_out_once_more_as_it_came() -> None:
    keeper = Keeper()
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__options=EAGER) as proxy:
        replies = chain(proxy, keeper)
        keeper.made.sealed = dict.fromkeys(keeper.made.sealed, "another key now")
        keeper.made.sealed.clear()
        keeper.made.reasoning_of["fc_0101c41fe2"] = "rs_of_another_time"
        keeper._kept[name_of(replies[-1])] = []
        last = ok(proxy, "so?", previous_response_id=name_of(replies[-1]))
        assert len(keeper.refusals) == 1 and bodies(up)[-1]["input"] == "so?"
        again = ok(proxy, "so what?", previous_response_id=name_of(last))
        assert bodies(up)[-1]["input"] == "so what?" and conversation(again) == conversation(last)


def test_a_conversation_at_the_provider_is_one_branch_and_never_taken_over(tmp_path: Path) -> None:
    """Its id says where each call belongs, also after a restart; what goes out is what came."""
    keeper, db = Keeper(), tmp_path / "x.db"
    asks(keeper, "call_aXb19cdE22")
    turns: list[tuple[Any, Any]] = [
        ("first", "conv_1"), ([result("call_aXb19cdE22", long_text(1))], {"id": "conv_1"}), ("second", "conv_1"),
    ]  # fmt: skip
    found: list[str] = []
    with ScriptedUpstream(keeper) as up:
        for turn in (turns[:2], turns[2:]):
            with served(up.base_url, db, policy__options=EAGER) as proxy:
                for input, name in turn:
                    reply = ok(proxy, input, conversation=name)
                    found.append(conversation(reply))
                    assert bodies(up)[-1]["input"] == input and bodies(up)[-1]["conversation"] == name
                records = Records(proxy.db)
        rows = records.exchanges(found[0])
        assert set(found) == {found[0]} and [row.verdict for row, _ in rows] == ["new", "continue", "continue"]
        assert all(row.note for row, _ in rows) and len(records.branches(found[0])) == 1
        assert rows[-1][1] and rows[-1][1].input == reply.json()["usage"]["input_tokens"]
        texts = records.texts(found[0])
        assert {"first", long_text(1), "second"} < set(texts) and len(texts) == 9


def test_a_response_in_a_conversation_can_be_gone_on_from_beside_it() -> None:
    keeper = Keeper()
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__options=EAGER) as proxy:
        first, second = (ok(proxy, text, conversation="conv_1") for text in ("first", "second"))
        beside = ok(proxy, "or so?", previous_response_id=name_of(first))
        third = ok(proxy, "third", conversation="conv_1")
        assert {conversation(reply) for reply in (second, beside, third)} == {conversation(first)}
        branches = Records(proxy.db).branches(conversation(first))
        assert sorted(branch.parent_kind for branch in branches) == ["", "fork"]
        assert bodies(up)[2]["previous_response_id"] == name_of(first) and bodies(up)[2]["input"] == "or so?"
        other = ok(proxy, "mine", conversation="conv_1", key="sk-two")
        assert conversation(other) != conversation(first)
        assert "first" not in Records(proxy.db).texts(conversation(other))


def test_compaction_is_asked_for_where_only_the_provider_holds_the_list() -> None:
    keeper = Keeper()
    settings: dict[str, Any] = {"responses__compact_threshold": True, "models": {"*": {"compact_at": 70_000}}}
    with ScriptedUpstream(keeper) as up, served(up.base_url, **settings) as proxy:
        ok(proxy, "first", conversation="conv_1")
        assert bodies(up)[-1]["context_management"] == [{"type": "compaction", "compact_threshold": 70_000}]
        ok(proxy, "alone")
        assert "context_management" not in bodies(up)[-1]
        theirs = [{"type": "compaction", "compact_threshold": 5000}]
        ok(proxy, "second", conversation="conv_1", context_management=theirs)
        assert bodies(up)[-1]["context_management"] == theirs
        keeper.refuses = "context_management"
        ok(proxy, "third", conversation="conv_2")
        assert "context_management" not in bodies(up)[-1] and len(keeper.refusals) == 1


def test_what_is_not_ours_goes_out_byte_for_byte_tools_and_all() -> None:
    keeper = Keeper()
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__options=EAGER) as proxy:
        replies = chain(proxy, keeper)
        for fields in (
            {"previous_response_id": name_of(replies[2]), "background": True},
            {"previous_response_id": "resp_of_others"},
            {"conversation": "conv_1"},
            {"context_management": [{"type": "compaction", "compact_threshold": 9000}]},
            {"previous_response_id": name_of(replies[0])},  # nothing behind it is to be made smaller yet
        ):
            body = json.dumps({"model": "m", "tools": TOOLS, "input": "so?", "stream": False, **fields}, indent=1)
            headers = {"authorization": "Bearer sk-one", "content-type": "application/json"}
            httpx.post(f"{proxy.base_url}/responses", content=body.encode(), headers=headers, timeout=20)
            assert up.requests[-1].body == body.encode(), fields


@pytest.mark.parametrize("stream", [False, True])
def test_a_reply_to_a_list_in_place_of_a_name_names_what_the_client_named(stream: bool) -> None:
    """As an ordinary provider says it, read by the provider's own library."""
    keeper = Keeper()
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__options=EAGER) as proxy:
        *_, last = chain(proxy, keeper)
        assert bodies(up)[-1]["previous_response_id"] is None
        client = openai.OpenAI(base_url=proxy.base_url, api_key="sk-one", max_retries=0)
        name = name_of(last)
        for text in ("so?", "and so?"):
            asked: dict[str, Any] = {"model": "scripted-1", "input": text, "previous_response_id": name}
            if stream:
                events = list(client.responses.create(**asked, stream=True))
                named = [event.response for event in events if hasattr(event, "response")]
                assert {response.previous_response_id for response in named} == {name} and len(named) == 3
                name = named[-1].id
            else:
                response = client.responses.create(**asked)
                assert response.previous_response_id == name
                name = response.id
            assert up.requests[-1].json()["previous_response_id"] is None
    assert not keeper.refusals


@pytest.mark.parametrize("is_restarted", [False, True], ids=["running", "restarted"])
def test_row_36_a_deleted_response_is_gone_here_too(is_restarted: bool, tmp_path: Path) -> None:
    """Who deletes a response and goes on from it gets the provider's own refusal, and its list is not used."""
    keeper = Keeper()
    with ScriptedUpstream(deleting(keeper)) as up, ExitStack() as stack:
        first = stack.enter_context(ExitStack())
        proxy = first.enter_context(served(up.base_url, tmp_path / "x.db", policy__options=EAGER))
        replies = chain(proxy, keeper)
        name = name_of(replies[-1])
        headers = {"authorization": "Bearer sk-one"}
        up.enqueue(json_reply({"error": {"message": "busy"}}, status=500))
        assert httpx.delete(f"{proxy.base_url}/responses/{name}", headers=headers).status_code == 500
        ok(proxy, "still there?", previous_response_id=name)
        assert "previous_response_id" not in bodies(up)[-1] or bodies(up)[-1]["previous_response_id"] is None
        assert httpx.delete(f"{proxy.base_url}/responses/{name}", headers=headers).json()["deleted"]
        if is_restarted:
            first.close()
            proxy = stack.enter_context(served(up.base_url, tmp_path / "x.db", policy__options=EAGER))
        reply = post(proxy, "so?", previous_response_id=name)
        assert reply.status_code == 400 and f"'{name}' not found" in reply.text
        assert bodies(up)[-1]["previous_response_id"] == name and bodies(up)[-1]["input"] == "so?"
        again = ok(proxy, "so?", previous_response_id=name_of(replies[-2]))
        assert conversation(again) == conversation(replies[0])


def test_row_36_a_deletion_that_overtakes_a_request_makes_no_list_of_it() -> None:
    """The request is under way when its chain goes: the provider's word counts, and nothing breaks."""
    keeper = Keeper()
    with ScriptedUpstream(deleting(keeper)) as up, served(up.base_url, policy__options=EAGER) as proxy:
        headers = {"authorization": "Bearer sk-one"}
        for _ in range(4):
            name = name_of(chain(proxy, keeper)[-1])
            with ThreadPoolExecutor(4) as pool:
                asked = [pool.submit(post, proxy, "so?", previous_response_id=name) for _ in range(3)]
                gone = pool.submit(httpx.delete, f"{proxy.base_url}/responses/{name}", headers=headers, timeout=20)
                assert {future.result().status_code for future in asked} <= {200, 400}
                assert gone.result().status_code == 200
            refused = post(proxy, "so?", previous_response_id=name)
            assert refused.status_code == 400 and f"'{name}' not found" in refused.text


def test_row_40_the_same_name_in_two_tenants_leads_each_to_its_own() -> None:
    """Two providers' accounts may hand out one name: each key gets the chain that it began."""
    keepers = {"sk-one": Keeper(), "sk-two": Keeper()}

    def by_key(request: Request) -> Action:
        return keepers[str(request.header("authorization")).removeprefix("Bearer ")](request)

    with ScriptedUpstream(by_key) as up, served(up.base_url, policy__options=EAGER) as proxy:
        names: dict[str, str] = {}
        for number, (key, keeper) in enumerate(keepers.items()):
            asks(keeper, "call_aXb19cdE22")
            opening = ok(proxy, f"read station {number}", key=key)
            item = result("call_aXb19cdE22", long_text(number))
            names[key] = name_of(ok(proxy, [item], key=key, previous_response_id=name_of(opening)))
        assert len(set(names.values())) == 1
        for number, key in enumerate(keepers):
            ok(proxy, "so?", key=key, previous_response_id=names[key])
            sent = json.dumps(bodies(up)[-1])
            assert f"read station {number}" in sent and f"read station {1 - number}" not in sent
    assert not any(keeper.refusals for keeper in keepers.values())


@pytest.mark.parametrize(
    "fields",
    [
        {"include": ["reasoning.encrypted_content"]},
        {"include": ["message.output_text.logprobs", "reasoning.encrypted_content"]},
        {"include": []},
        {"include": None},
        {"truncation": "disabled"},
        {"truncation": "auto"},
        {"truncation": None},
    ],
    ids=str,
)
def test_what_is_asked_beside_the_list_goes_out_as_it_came(fields: dict[str, Any]) -> None:
    keeper = Keeper()
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__options=EAGER) as proxy:
        replies = chain(proxy, keeper, **fields)
        last = ok(proxy, "so?", previous_response_id=name_of(replies[-1]), **fields)
        ((name, value),) = fields.items()
        assert all(name in body and body[name] == value for body in bodies(up))
        assert conversation(last) == conversation(replies[0]) and not keeper.refusals
        assert OMITTED in json.dumps(bodies(up)[-1]) or bodies(up)[-1].get("previous_response_id")


def test_custom_tools_in_a_chain_are_paired_and_made_smaller() -> None:
    keeper = Keeper()
    custom = {"type": "custom", "name": "patch", "description": "free text"}
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__options=EAGER) as proxy:
        call = {"type": "custom_tool_call", "id": "ctc_0001c41fe2", "call_id": "call_cXb19cdE22", "name": "patch",
                "input": "*** Begin Patch\nquay 4\n*** End Patch"}  # fmt: skip
        keeper.answers = [[keeper.thought(301), call]]
        first = ok(proxy, "patch it", tools=[custom])
        output = {"type": "custom_tool_call_output", "call_id": "call_cXb19cdE22", "output": long_text(7)}
        second = ok(proxy, [output], tools=[custom], previous_response_id=name_of(first))
        third = ok(proxy, "so?", tools=[custom], previous_response_id=name_of(second))
        ok(proxy, "and?", tools=[custom], previous_response_id=name_of(third))
        sent = bodies(up)[-1]["input"]
        kinds = [item.get("type") for item in sent]
        assert kinds.count("custom_tool_call") == kinds.count("custom_tool_call_output") == 1
        [shown] = [item for item in sent if item.get("type") == "custom_tool_call_output"]
        assert OMITTED in shown["output"]
        [said] = [item for item in sent if item.get("type") == "custom_tool_call"]
        assert said["input"] == call["input"]
    assert not keeper.refusals


def test_a_big_image_in_a_chain_goes_out_whole_and_is_counted_flat() -> None:
    keeper = Keeper()
    picture = {"type": "input_image", "image_url": "data:image/png;base64," + "iVBORw0KGgo" * 200_000}
    with ScriptedUpstream(keeper) as up, served(up.base_url, policy__options=EAGER) as proxy:
        asks(keeper, "call_aXb19cdE22")
        first = ok(proxy, [{"role": "user", "content": [{"type": "input_text", "text": "what is this"}, picture]}])
        second = ok(proxy, [result("call_aXb19cdE22", long_text(1))], previous_response_id=name_of(first))
        ok(proxy, "so?", previous_response_id=name_of(second))
        sent = bodies(up)[-1]["input"]
        assert picture in sent[0]["content"] and OMITTED in json.dumps(sent[1:])
        found = from_store(proxy.db, lambda store: store.windows(conversation(first)))[-1]
        manifest = from_store(proxy.db, lambda store: store.window(found))
        assert manifest is not None and manifest.entries[0].tokens < 20_000
    assert not keeper.refusals
