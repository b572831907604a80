import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.core.model import Conversation
from proxy.errors import NotUnderstoodError
from proxy.wire.base import FrameEdits, Piece
from proxy.wire.chat import ChatFormat
from tests.support.messy_json import json_values, messy

NO_EDITS = FrameEdits()


def own(conversation: Conversation) -> list[Piece]:
    return [Piece(element.raw, index) for index, element in enumerate(conversation.elements)]


def decode(body: bytes | dict[str, Any], **headers: str) -> Conversation:
    return ChatFormat().decode(body if isinstance(body, bytes) else json.dumps(body).encode(), headers)


def read(message: Any) -> Any:
    return ChatFormat().read_element(json.dumps(message).encode())


CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}


def messages() -> st.SearchStrategy[dict[str, Any]]:
    content = (
        st.none()
        | st.text(max_size=20)
        | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=9)}), max_size=3)
        | json_values()
    )
    roles = st.sampled_from(["system", "developer", "user", "assistant", "tool", "function", "other"])
    return st.fixed_dictionaries(
        {"role": roles, "content": content},
        optional={"tool_calls": st.just([CALL]), "tool_call_id": st.just("call_1"), "x": json_values()},
    )


@settings(max_examples=150)
@given(
    st.lists(messages(), max_size=5),
    st.dictionaries(st.text(max_size=6), json_values()),
    st.randoms(use_true_random=False),
)
def test_what_came_goes_out_byte_for_byte(items: list[Any], more: dict[str, Any], random: Any) -> None:
    chat = ChatFormat()
    body = messy({**more, "model": "m", "stream": True, "messages": items}, random)
    data = body.strip().encode("utf-8", "surrogatepass")
    try:
        conversation = chat.decode(data, {})
    except NotUnderstoodError:
        assert any(key in more for key in ("messages", "stream_options", "n", "max_tokens")) or "\ud800" in body
        return
    assert chat.encode(conversation, own(conversation), NO_EDITS) == data
    for index, element in enumerate(conversation.elements):
        if not element.texts:
            continue
        masked = chat.render(element, ["masked"] + [None] * (len(element.texts) - 1))
        pieces = own(conversation)
        pieces[index] = Piece(masked, index)
        out = chat.encode(conversation, pieces, NO_EDITS)
        before, _, after = data.partition(element.raw) if data.count(element.raw) == 1 else (b"", b"", b"")
        if before or after:
            assert out == before + masked + after
    edited = chat.encode(conversation, own(conversation), FrameEdits(ask_usage=True))
    assert json.loads(edited.decode("utf-8", "surrogatepass"))["stream_options"]["include_usage"] is True


def test_masking_one_text_leaves_every_other_byte() -> None:
    body = (
        b'{"model":"m", "temperature":0.10,"seed":1234567890123456789012345,"big":1e400,\n "temperature":0.10,'
        b'"messages":[ {"role":"user","content":"a\\/b\\u0041"} ,\r\n'
        b'{"role":"assistant","content":null,"tool_calls":[{"id":"c"}]},'
        b'{"role":"tool","tool_call_id":"c","content":"long \\u00e9 text","x":1.0, "content2":"long"}  ],'
        b'"top_p" : 1E0}\n'
    )
    chat = ChatFormat()
    conversation = chat.decode(body, {})
    tool = conversation.elements[2]
    assert tool.texts == ("long é text",)
    pieces = own(conversation)
    pieces[2] = Piece(chat.render(tool, ["short"]), 2)
    assert chat.encode(conversation, pieces, NO_EDITS) == body.replace(b'"long \\u00e9 text"', b'"short"')


def test_pieces_of_our_own_and_left_out_ones_are_joined_by_commas() -> None:
    chat = ChatFormat()
    conversation = chat.decode(b'{"messages":[ {"role":"user"} , {"role":"a"} ,  {"role":"b"} ]}', {})
    note = chat.note("\ud800 é")
    out = chat.encode(conversation, [own(conversation)[0], Piece(note, None), own(conversation)[2]], NO_EDITS)
    assert out == b'{"messages":[ {"role":"user"},' + note + b',{"role":"b"} ]}'
    assert json.loads(out)["messages"][1]["role"] == "user"
    assert (
        chat.encode(conversation, own(conversation)[1:], NO_EDITS) == b'{"messages":[ {"role":"a"} ,  {"role":"b"} ]}'
    )
    assert chat.encode(conversation, [], NO_EDITS) == b'{"messages":[  ]}'


def test_the_request_is_read() -> None:
    conversation = decode(
        {
            "model": "gpt",
            "messages": [{"role": "system", "content": "s"}, {"role": "developer", "content": "d"}, {"role": "user"}],
            "stream": True,
            "stream_options": {"include_usage": False},
            "tools": [{"type": "function"}],
            "max_tokens": 9,
            "max_completion_tokens": 7,
            "n": 2,
            "prompt_cache_key": "k",
        },
        **{"x-session-id": "s1"},
    )
    assert (conversation.wire, conversation.model, conversation.is_stream) == ("chat", "gpt", True)
    assert (conversation.head, conversation.has_tools, conversation.tools) == (2, True, b'[{"type": "function"}]')
    assert (conversation.max_output, conversation.choices, conversation.wants_usage) == (7, 2, False)
    assert (conversation.hints.scope, conversation.hints.cache_key) == ("session:s1", "k")
    assert not conversation.is_opaque


@pytest.mark.parametrize(
    ("more", "wants"),
    [
        ({}, True),
        ({"stream": False}, True),
        ({"stream": True}, False),
        ({"stream": True, "stream_options": None}, False),
        ({"stream": True, "stream_options": {"include_usage": True}}, True),
    ],
)
def test_who_wants_usage(more: dict[str, Any], wants: bool) -> None:
    assert decode({"messages": [], **more}).wants_usage is wants


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b'{"messages":"x"}',
        b'{"messages":[5]}',
        b'{"messages":["x"]}',
        b'{"messages":[{"content":"x"}]}',
        b'{"messages":[{"role":5}]}',
        b'{"messages":[{"role":"user","content":"x"}',
        b'{"messages":[{"role":"user","content":NaN}]}',
        b'{"messages":[],"temperature":NaN}',
        b'{"messages":[{"role":"user","content":"\xff"}]}',
        b'{"messages":[],"messages":[]}',
        b'{"messages":[]}{"messages":[]}',
        b'\xef\xbb\xbf{"messages":[]}',
        b'{"messages":' + b"[" * 50_000,
        b'{"messages":[{"role":"user","content":' + b"[" * 50_000 + b"]" * 50_000 + b"}]}",
    ],
)
def test_what_is_not_understood_says_so(body: bytes) -> None:
    with pytest.raises(NotUnderstoodError):
        decode(body)


def test_assistant_text_beside_calls_is_weak() -> None:
    both, bare = (
        read({"role": "assistant", "content": "x", "tool_calls": [CALL]}),
        read({"role": "assistant", "content": None, "tool_calls": [CALL]}),
    )
    assert [(atom.kind, atom.is_weak) for atom in both.atoms] == [("asst", True), ("call", False)]
    assert both.hash == bare.hash
    assert both.body_hash != bare.body_hash
    assert (both.kind, both.text, both.atoms[1].anchor) == ("tool_call", 'x\nf({"a": 1})', "call1")


def test_reencoded_messages_are_equal() -> None:
    compact = {**CALL, "function": {"name": "f", "arguments": '{"a":1}'}, "index": 0, "id": "call1"}
    same = [
        {"role": "assistant", "tool_calls": [CALL]},
        {
            "tool_calls": [compact],
            "role": "assistant",
            "content": "",
            "refusal": None,
            "audio": None,
            "function_call": None,
        },
        {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [compact]},
    ]
    assert len({read(message).hash for message in same}) == 1
    results = [
        {"role": "tool", "tool_call_id": "a", "content": "x\ny"},
        {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "x\r\ny "}], "name": "f"},
        {"role": "function", "name": "f", "content": "x\ny"},
    ]
    assert len({read(message).hash for message in results}) == 1
    heads = [{"role": "system", "content": "s"}, {"role": "developer", "content": [{"type": "text", "text": "s"}]}]
    assert len({read(message).hash for message in heads}) == 1
    assert read({"role": "user", "content": "s"}).hash != read(heads[0]).hash


@pytest.mark.parametrize("content", [{"content": None}, {"content": ""}, {}, {"content": []}])
def test_an_empty_content_beside_calls_is_forwarded_as_sent(content: dict[str, Any]) -> None:
    body = json.dumps({"messages": [{"role": "assistant", **content, "tool_calls": [CALL]}]}).encode()
    chat = ChatFormat()
    conversation = chat.decode(body, {})
    assert chat.encode(conversation, own(conversation), NO_EDITS) == body
    assert [atom.kind for atom in conversation.elements[0].atoms] == ["call"]


def test_the_kinds_of_assistant_messages() -> None:
    assert [a.kind for a in read({"role": "assistant", "content": ""}).atoms] == ["asst"]
    assert read({"role": "assistant", "refusal": "no"}).text == "no"
    assert [a.kind for a in read({"role": "assistant", "audio": {"id": "a"}}).atoms] == ["other"]
    legacy = read({"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}})
    answer = read({"role": "function", "name": "f", "content": "x"})
    assert legacy.calls[0].id == answer.answers == "f"
    assert legacy.atoms[0].anchor == answer.atoms[0].anchor == ""
    custom = read(
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls"}}]}
    )
    assert (custom.calls[0].name, custom.calls[0].arguments) == ("sh", "ls")
    spoken = read({"role": "assistant", "content": "x", "reasoning_details": [{"text": "deep"}]})
    assert spoken.text == "deep\nx"
    assert spoken.hash == read({"role": "assistant", "content": "x"}).hash


@pytest.mark.parametrize(
    "calls", [None, {}, [None], [{"function": None}], [{"id": 5, "function": {"arguments": {"a": 1}}}]]
)
def test_odd_calls_never_fail(calls: Any) -> None:
    assert read({"role": "assistant", "tool_calls": calls}).atoms


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("x", ("x",)),
        (
            [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}],
            ("x",),
        ),
        ([{"type": "text", "text": "x"}, {"type": "text", "text": "y"}], ("x", "y")),
        ([], ()),
        (None, ()),
        (7, ()),
    ],
)
def test_tool_content_of_any_shape_keeps_its_shape(content: Any, texts: tuple[str, ...]) -> None:
    message = {"role": "tool", "tool_call_id": "c", "content": content}
    element = read(message)
    assert element.texts == texts
    rendered = json.loads(ChatFormat().render(element, ["new"] * len(texts)))
    assert type(rendered["content"]) is type(content)
    if isinstance(content, list):
        assert [part for part in rendered["content"] if part["type"] != "text"] == [
            p for p in content if p["type"] != "text"
        ]


@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant"])
def test_only_results_are_maskable(role: str) -> None:
    assert read({"role": role, "content": "x" * 9000}).texts == ()


def test_failed_results_are_marked() -> None:
    assert read({"role": "tool", "content": "Error: no"}).is_failed
    assert read({"role": "tool", "content": "fine", "is_error": True}).is_failed
    assert not read({"role": "tool", "content": "fine"}).is_failed


def test_lone_surrogates_are_kept_in_bytes_and_printable_in_text() -> None:
    body = b'{"messages":[{"role":"tool","tool_call_id":"c","content":"a\\ud83d"},{"role":"user","content":"\\udE00"}]}'
    chat = ChatFormat()
    conversation = chat.decode(body, {})
    assert chat.encode(conversation, own(conversation), NO_EDITS) == body
    for element in conversation.elements:
        (element.text + "".join(element.texts) + "".join(atom.text for atom in element.atoms)).encode()


def test_errors_of_our_own_have_the_shape_that_clients_raise_on() -> None:
    chat = ChatFormat()
    assert json.loads(chat.error_body("m", code="c")) == {
        "error": {"message": "m", "type": "undercliff_error", "param": None, "code": "c"}
    }
    event = chat.error_event("m", code="c")
    assert event.startswith(b"data: {")
    assert event.endswith(b"\n\n")
    reader = chat.reader(is_stream=True, strip_usage=False)
    reader.feed(event)
    assert reader.error
    assert not reader.is_done


def test_a_long_known_history_is_decoded_in_a_blink() -> None:
    history: list[dict[str, Any]] = [{"role": "system", "content": "s" * 3000}]
    for n in range(100):
        history.append({"role": "assistant", "content": None, "tool_calls": [{**CALL, "id": f"call_{n}"}]})
        history.append({"role": "tool", "tool_call_id": f"call_{n}", "content": f"{n} " + "word \n" * 700})
    body = json.dumps({"model": "m", "messages": history, "tools": [{"d": "x" * 30_000}]}).encode()
    chat = ChatFormat()
    chat.decode(body, {})
    best = 1.0
    for _ in range(10):
        started = time.perf_counter()
        chat.decode(body, {})
        best = min(best, time.perf_counter() - started)
    assert best < 0.005  # 0.2 ms on an idle machine


def test_a_new_history_is_read_in_linear_time() -> None:
    hard = ["a" * 500_000, "-" * 500_000, " " * 500_000, "漢" * 200_000, '"\\' * 200_000, "\n" * 500_000]
    body = {"messages": [{"role": "tool", "tool_call_id": "c", "content": text} for text in hard]}
    data = json.dumps(body).encode()
    started = time.process_time()
    decode(data)
    assert time.process_time() - started < 1.5


WARM = ChatFormat()
VALID = (
    b'{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"a, \\"b\\" ]"},'
    b'{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"x"}]}],"stream":true}'
)


@settings(max_examples=400)
@given(
    st.integers(0, len(VALID) - 1),
    st.sampled_from([b"", b'"', b"]", b"}", b",", b"[", b"{", b" ", b"\\", b"\xff", b"9"]),
    st.integers(0, 3),
)
def test_a_damaged_body_is_refused_or_kept_whole_known_or_not(place: int, put: bytes, taken: int) -> None:
    WARM.decode(VALID, {})
    damaged = VALID[:place] + put + VALID[place + taken :]
    try:
        json.loads(damaged)
        is_json = True
    except ValueError:
        is_json = False
    for chat in (WARM, ChatFormat()):
        try:
            conversation = chat.decode(damaged, {})
        except NotUnderstoodError:
            continue
        assert is_json
        assert chat.encode(conversation, own(conversation), NO_EDITS) == damaged
        contents = [json.loads(element.raw) for element in conversation.elements]
        assert contents == json.loads(damaged)["messages"]
