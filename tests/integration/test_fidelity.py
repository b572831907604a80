"""What we do not change, we do not touch: the provider gets the client's bytes, whatever they look like."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count, pairwise
from typing import Any

import pytest

from tests.support import builders, replies
from tests.support.records import Records
from tests.support.replies import DONE, chunk, event, stream_reply
from tests.support.serve import Served, served
from tests.support.session import EAGER, OMITTED, conversation, ok, post, raw_messages, sent, step_answer, strict
from tests.support.upstream import ScriptedUpstream

NUMBERS = count(1)
NOTED = b'{"role":"assistant","content":"noted"}'


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream(strict) as upstream:
        yield upstream


@pytest.fixture(scope="module")
def proxy(up: ScriptedUpstream) -> Iterator[Served]:
    with served(up.base_url, policy__options=EAGER) as running:
        yield running


def opening() -> bytes:
    return json.dumps(builders.user(f"station {next(NUMBERS)}")).encode()


def body_of(*messages: bytes, rest: bytes = b"") -> bytes:
    return b'{"model":"scripted-1","messages":[' + b",".join(messages) + b"]" + rest + b"}"


def called(text: bytes, call_id: bytes = b"c1") -> list[bytes]:
    """A call and its result, whose content is the JSON given."""
    call = b'{"id":"' + call_id + b'","type":"function","function":{"name":"look","arguments":"{}"}}'
    return [
        b'{"role":"assistant","content":null,"tool_calls":[' + call + b"]}",
        b'{"role":"tool","tool_call_id":"' + call_id + b'","content":' + text + b"}",
    ]


def masked(proxy: Served, up: ScriptedUpstream, *messages: bytes, rest: bytes = b"") -> tuple[list[bytes], list[bytes]]:
    """The list sent, then again with an answer and a question behind: as the client and the provider had it."""
    ok(proxy, body_of(*messages, rest=rest))
    later = [*messages, NOTED, b'{"role":"user","content":"go on"}']
    ok(proxy, body_of(*later, rest=rest))
    return later, raw_messages(up.requests[-1].body)


ODD = (
    b'{ "model" : "scripted-1",\n\t"z":1.0, "a":1, "big": 1234567890123456789012345, "e":1e400, "messages" : [ '
    b'{"content":"caf\\u00e9 <b> & \\/ \xe6\xbd\xae","role":"user"} ,\r\n {"role":"system","content":"late"}],'
    b'"messages2":[],"dup":1,"dup":2,"temperature":0.10 }\n'
)


@pytest.mark.parametrize("ending", [b"", b" \n"])
def test_cache_01_nothing_to_rewrite_is_byte_identical(proxy: Served, up: ScriptedUpstream, ending: bytes) -> None:
    ok(proxy, ODD + ending)
    assert up.requests[-1].body == ODD + ending


def test_json_04_one_mask_changes_only_that_text(proxy: Served, up: ScriptedUpstream) -> None:
    rest = b', "n":12345678901234567890123.0, "p":0.10, "x":1e400, "d":1, "d":2, "s":"a\\/b"'
    tail = b'{"role":"user","content":"a\\/b","k":0.10,"k":12345678901234567890123456}'
    long = json.dumps(builders.long_text(1, 3000)).encode()
    client, provider = masked(proxy, up, opening(), *called(long), NOTED, tail, rest=rest)
    body = up.requests[-1].body
    differing = [i for i, (a, b) in enumerate(zip(client, provider, strict=True)) if a != b]
    assert differing == [2] and OMITTED in provider[2]
    stub = json.dumps(json.loads(provider[2])["content"], ensure_ascii=False).encode()
    assert body == body_of(*client, rest=rest).replace(long, stub)


@pytest.mark.parametrize("filler", [3000, 10])
def test_json_01_a_lone_surrogate_goes_through(proxy: Served, up: ScriptedUpstream, filler: int) -> None:
    """In a message that is masked, and in one that is not; the original comes back as it was."""
    text = b'"\\ud83d lone ' + b"x y z " * (filler // 6) + b'"'
    client, provider = masked(proxy, up, opening(), *called(text))
    assert (OMITTED in provider[2]) is (filler == 3000)
    if filler == 10:
        assert provider == client
    last = ok(proxy, up.requests[-1].body)
    assert client[2] in Records(proxy.db).raws(conversation(last))


def test_json_01_a_lone_surrogate_in_a_streamed_reply(proxy: Served, up: ScriptedUpstream) -> None:
    piece = b'data: {"choices":[{"index":0,"delta":{"content":"half \\udc00"},"finish_reason":null}]}\n\n'
    parts = [piece, event(chunk({}, finish="stop")), event(chunk(None, usage=replies.usage(50))), DONE]
    up.enqueue(stream_reply(parts))
    body = body_of(opening(), rest=b',"stream":true,"stream_options":{"include_usage":true}')
    reply = ok(proxy, body)
    assert reply.content == b"".join(parts)
    assert any(b"\\udc00" in raw for raw in Records(proxy.db).raws(conversation(reply)))


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity"])
def test_json_03_numbers_outside_the_standard(proxy: Served, up: ScriptedUpstream, number: bytes) -> None:
    """The provider decides; its own odd numbers come back as they are."""
    body = body_of(opening(), rest=b',"temperature":' + number)
    answer = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"logprobs":%s}]}' % number
    up.enqueue(replies.raw_reply(200, answer, [("content-type", "application/json")]))
    reply = ok(proxy, body)
    assert up.requests[-1].body == body and reply.content == answer


def test_json_03_in_a_stream(proxy: Served, up: ScriptedUpstream) -> None:
    odd = b'data: {"choices":[{"index":0,"delta":{"content":"x"},"logprobs":NaN,"finish_reason":null}]}\n\n'
    parts = [odd, event(chunk({}, finish="stop")), DONE]
    up.enqueue(stream_reply(parts))
    assert ok(proxy, body_of(opening(), rest=b',"stream":true')).content == b"".join(parts)


CONTENTS = [b'"content":null,', b'"content":"",', b"", b'"content":[],']


def test_json_06_every_empty_content_stays_what_it_is(proxy: Served, up: ScriptedUpstream) -> None:
    messages = [opening()]
    for number, content in enumerate(CONTENTS):
        call, result = called(b'"short"', b"c%d" % number)
        messages += [call.replace(b'"content":null,', content), result]
    client, provider = masked(proxy, up, *messages)
    assert provider == client
    raws = Records(proxy.db).raws(conversation(ok(proxy, body_of(*client))))
    assert [raws.count(message) for message in client if message != NOTED] == [1] * (len(client) - 1)


def test_reas_03_a_foreign_top_level_field_is_kept(proxy: Served, up: ScriptedUpstream) -> None:
    call, result = called(json.dumps(builders.long_text(2, 3000)).encode())
    thought = b'"reasoning_content":' + json.dumps(builders.long_text(3, 10_000)).encode()
    call = call.replace(b'"content":null', b'"content":null,' + thought)
    client, provider = masked(proxy, up, opening(), call, result)
    assert provider[1] == client[1] and OMITTED in provider[2]


def test_reas_04_unknown_keys_inside_a_call_survive(proxy: Served, up: ScriptedUpstream) -> None:
    extra = {"google": {"thought_signature": "c2lnbmF0dXJl", "deep": [1, {"n": None}]}}
    first: dict[str, Any] = {"index": 0, "id": "c1", "type": "function", "extra_content": extra}
    parts = [
        event(chunk({"role": "assistant", "tool_calls": [{**first, "function": {"name": "look", "arguments": "{}"}}]})),
        event(chunk({}, finish="tool_calls")),
        event(chunk(None, usage=replies.usage(50))),
        DONE,
    ]
    up.enqueue(stream_reply(parts))
    start = opening()
    rest = b',"stream":true,"stream_options":{"include_usage":true}'
    reply = ok(proxy, body_of(start, rest=rest))
    assert reply.content == b"".join(parts)
    assert any(b"c2lnbmF0dXJl" in raw for raw in Records(proxy.db).raws(conversation(reply)))
    call, result = called(json.dumps(builders.long_text(4, 3000)).encode())
    call = call.replace(b'"type":', b'"extra_content":' + json.dumps(extra).encode() + b',"type":')
    client, provider = masked(proxy, up, start, call, result)
    assert provider[1] == client[1] and OMITTED in provider[2]
    assert conversation(ok(proxy, body_of(*client))) == conversation(reply)


TEXT = builders.long_text(5, 5000)
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBORw0KGgo" * 27_000}}


@pytest.mark.parametrize(
    ("content", "is_masked"),
    [
        ([{"type": "text", "text": TEXT}, IMAGE], [True, False]),
        ([{"type": "text", "text": TEXT}, {"type": "text", "text": "short"}], [True, False]),
        ([{"type": "text", "text": TEXT}, {"type": "text", "text": TEXT[::-1]}], [True, True]),
        ([], []),
        (None, None),
        (7, None),
        ({"a": TEXT}, None),
        ([7, None, "odd"], [False] * 3),
    ],
)
def test_tokn_10_only_long_text_parts_are_masked(
    proxy: Served, up: ScriptedUpstream, content: Any, is_masked: list[bool] | None
) -> None:
    _, provider = masked(proxy, up, opening(), *called(json.dumps(content).encode()))
    got = json.loads(provider[2])["content"]
    if not is_masked:
        assert got == content
        return
    assert len(got) == len(content)
    for before, after, is_one in zip(content, got, is_masked, strict=True):
        assert (after != before) is is_one
        if is_one:
            assert after["type"] == "text" and OMITTED.decode() in after["text"]


def test_cache_02_forms_move_down_once_and_in_batches(up: ScriptedUpstream) -> None:
    """25 turns: each message changes at most once, never back; the breaks reported are the batches seen."""
    options = {"economics": False, "mask_at": 5000, "min_batch": 2000}
    with served(up.base_url, policy__options=options) as proxy:
        messages = [builders.system(), builders.user(f"station {next(NUMBERS)}")]
        since, windows = len(up.requests), []
        for number in range(25):
            step = builders.step(number, builders.long_text(number, 3000))
            up.enqueue(step_answer(step))
            windows.append(ok(proxy, messages))
            messages += step
        bodies = [raw_messages(request.body) for request in up.requests[since:]]
        breaks = sum(old != new[: len(old)] for old, new in pairwise(bodies))
        for place in range(len(bodies[-1])):
            forms = [OMITTED in body[place] for body in bodies if place < len(body)]
            assert forms == sorted(forms)
            assert len({body[place] for body in bodies if place < len(body)}) <= 2
        assert 2 <= breaks <= 8
        assert sum(one.breaks for one in Records(proxy.db).outcomes(conversation(windows[-1]))) == breaks


def test_cache_07_markers_stay_where_the_client_put_them(proxy: Served, up: ScriptedUpstream) -> None:
    messages = [builders.user(f"station {next(NUMBERS)}")]
    names = set()
    for number in range(6):
        step = builders.step(number, builders.long_text(number, 2000))
        up.enqueue(step_answer(step))
        names.add(conversation(ok(proxy, messages)))
        messages += step
        marked = json.loads(json.dumps(messages))
        text = marked[-1]["content"]
        marked[-1]["content"] = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]
        up.enqueue(step_answer(builders.step(number + 1, "")))
        names.add(conversation(ok(proxy, marked)))
        got = sent(up)
        assert got[-1] == marked[-1]
        assert json.dumps(got).count("cache_control") == 1 and len(got) == len(marked)
    assert len(names) == 1 and OMITTED in up.requests[-1].body


def test_cache_07_a_marker_on_a_masked_block_stays(proxy: Served, up: ScriptedUpstream) -> None:
    block = [{"type": "text", "text": builders.long_text(6, 3000), "cache_control": {"type": "ephemeral"}}]
    _, provider = masked(proxy, up, opening(), *called(json.dumps(block).encode()))
    (part,) = json.loads(provider[2])["content"]
    assert part["cache_control"] == {"type": "ephemeral"}


def test_cache_08_another_shape_is_the_same_item(proxy: Served, up: ScriptedUpstream) -> None:
    start = f"station {next(NUMBERS)}"
    messages: list[Any] = [builders.user(start), builders.assistant("noted"), builders.user("third")]
    names, conversations = [], set()
    for shape in ("third", [{"type": "text", "text": "third"}], [{"type": "text", "text": "third", "index": 0}]):
        messages[2] = builders.user("")
        messages[2]["content"] = shape
        reply = ok(proxy, messages)
        assert sent(up) == messages
        conversations.add(conversation(reply))
        names.append(len(messages))
        messages += [builders.assistant("noted"), builders.user(f"more {len(messages)}")]
    (name,) = conversations
    records = Records(proxy.db)
    assert records.texts(name).count("third") == 1
    assert len(records.branches(name)) == 1


def test_an_answer_of_four_hundred_is_the_providers_own(proxy: Served, up: ScriptedUpstream) -> None:
    """The strict provider really refuses: what passes above is not passed by everything."""
    orphan = [builders.user(f"station {next(NUMBERS)}"), builders.result("c9", "lost")]
    assert post(proxy, orphan).status_code == 400
