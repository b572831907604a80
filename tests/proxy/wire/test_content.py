import base64
import json
from typing import Any

import pytest

from proxy.errors import NotUnderstoodError
from proxy.wire.content import IMAGE_TOKENS, TextSlot, read_content, render_texts, spans_of, texts_of

PNG = "data:image/png;base64," + base64.b64encode(b"\x89PNG" * 375_000).decode()
SLOT = TextSlot("content")


def test_string_and_parts_of_the_same_text_are_one() -> None:
    forms: list[Any] = [
        "a\nb ",
        [{"type": "text", "text": "a\r\nb"}],
        [{"type": "input_text", "text": "a"}, {"type": "output_text", "text": "b"}],
        [{"type": "text", "text": "a\nb", "cache_control": {"type": "ephemeral"}}],
    ]
    assert {read_content(form).canonical for form in forms} == {"a\nb"}


def test_images_count_flat_and_never_as_text() -> None:
    chat = read_content([{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": PNG}}])
    responses = read_content([{"type": "input_text", "text": "look"}, {"type": "input_image", "image_url": PNG}])
    assert chat == responses
    assert chat.text == "look\n[image image/png 1.5 MB]"
    assert chat.flat_tokens == IMAGE_TOKENS
    assert len(chat.canonical) < 100
    assert chat.canonical != read_content([{"type": "image_url", "image_url": {"url": PNG + "A"}}]).canonical


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ({"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}}, "[image https://x/y.png]"),
        ({"type": "input_audio", "input_audio": {"data": "A" * 4000, "format": "wav"}}, "[audio wav 3 KB]"),
        ({"type": "file", "file": {"filename": "a.pdf", "file_data": "A" * 4_000_000}}, "[file a.pdf 3.0 MB]"),
        ({"type": "input_file", "file_id": "file-1"}, "[file file-1]"),
        ({"type": "new_thing", "data": "A" * 90_000}, "[new_thing]"),
    ],
)
def test_media_have_a_marker(part: dict[str, Any], text: str) -> None:
    content = read_content([part])
    assert content.text == text
    assert 0 < content.flat_tokens <= 2200


@pytest.mark.parametrize("value", [None, [], "", [{"type": "text", "text": ""}]])
def test_nothing_is_nothing(value: Any) -> None:
    assert read_content(value).canonical == ""


@pytest.mark.parametrize("value", [7, {"a": 1}, [3, "x"], True])
def test_odd_content_is_read_all_the_same(value: Any) -> None:
    assert read_content(value).canonical


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("a\\n\u00e9", ("a\\n\u00e9",)),
        ([{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": PNG}}], ("x",)),
        ([{"type": "text", "text": "x"}, {"text": "y", "type": "text"}], ("x", "y")),
        ([], ()),
        (None, ()),
        (5, ()),
        ([{"type": "mystery", "text": "x"}, {"text": "untyped"}, "bare", None], ()),
        ([{"type": "text", "text": 5}], ()),
    ],
)
def test_texts_are_found_and_replaced_in_place(content: Any, texts: tuple[str, ...]) -> None:
    item = {"role": "tool", "content": content, "n": 1.50}
    for raw in (json.dumps(item).encode(), json.dumps(item, indent=1, ensure_ascii=False).encode()):
        assert texts_of(json.loads(raw), SLOT) == texts
        spans = spans_of(raw, SLOT)
        assert tuple(json.loads(raw[start:end]) for start, end in spans) == texts
        assert render_texts(raw, SLOT, [None] * len(texts)) == raw
        masked = json.loads(render_texts(raw, SLOT, [f"<{i}>" for i in range(len(texts))]))
        expected = json.loads(raw)
        if isinstance(content, str):
            expected["content"] = "<0>"
        elif isinstance(content, list):
            for i, part in enumerate(p for p in expected["content"] if isinstance(p, dict) and p.get("text") in texts):
                part["text"] = f"<{i}>"
        assert masked == expected


def test_only_the_texts_bytes_change() -> None:
    raw = (
        b'{"content" :\t[ {"text":"\\u0061","type":"text" , "x":1e400} ,{"type":"text","text":"b"}], "content2":"\\/"}'
    )
    assert render_texts(raw, SLOT, [None, "\ud800é"]) == raw.replace(b'"text":"b"', b'"text":"\\ud800\\u00e9"')


def test_of_two_equal_keys_the_last_is_the_text() -> None:
    raw = b'{"content":"a","content":"b"}'
    assert texts_of(json.loads(raw), SLOT) == ("b",)
    assert render_texts(raw, SLOT, ["c"]) == b'{"content":"a","content":"c"}'


def test_a_miscount_is_refused() -> None:
    with pytest.raises(NotUnderstoodError):
        render_texts(b'{"content":"a"}', SLOT, [])
    with pytest.raises(NotUnderstoodError):
        render_texts(b'{"content":"a"}', None, ["x"])
