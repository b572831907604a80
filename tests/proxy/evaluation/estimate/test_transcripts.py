"""Every shape of a transcript becomes the same messages; what is none is refused by file and line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from proxy.errors import ConfigError
from proxy.evaluation.estimate.transcripts import as_chat, read_lines, read_path, turns
from tests.support import builders
from tests.support.audited import fill

CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at": "gauge"}'}}
TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "You watch."},
    {"role": "user", "content": "how high?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "4711 mm"},
    {"role": "assistant", "content": "4711 mm."},
]
ITEMS: list[dict[str, Any]] = [
    {"role": "system", "content": "You watch."},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "how high?"}]},
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": '{"at": "gauge"}'},
    {"type": "function_call_output", "call_id": "call_1", "output": "4711 mm"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "4711 mm."}]},
]
CODEX = [
    {"type": "session_meta", "payload": {"id": "x", "instructions": "You watch.", "cwd": "/tmp"}},
    {"type": "turn_context", "payload": {"model": "gpt-5-codex"}},
    {"type": "event_msg", "payload": {"type": "user_message", "message": "how high?"}},
    *({"timestamp": "t", "type": "response_item", "payload": item} for item in ITEMS[1:]),
]
OPENCODE = {
    "info": {"id": "ses_1"},
    "messages": [
        {"info": {"role": "user"}, "parts": [{"type": "text", "text": "how high?"}]},
        {
            "info": {"role": "assistant", "modelID": "gpt-5"},
            "parts": [
                {"type": "step-start"},
                {"type": "tool", "callID": "call_1", "tool": "look",
                 "state": {"status": "completed", "input": {"at": "gauge"}, "output": "4711 mm"}},
            ],
        },
        {"info": {"role": "assistant", "modelID": "gpt-5"}, "parts": [{"type": "text", "text": "4711 mm."}]},
    ],
}  # fmt: skip


def lines(*values: Any) -> list[bytes]:
    return [json.dumps(value).encode() + b"\n" for value in values]


def said(messages: Any) -> list[tuple[str, Any]]:
    """Roles and words; calls by name and arguments."""
    return [
        (m["role"], [c["function"]["name"] for c in m["tool_calls"]] if m.get("tool_calls") else m["content"])
        for m in messages
    ]


@pytest.mark.parametrize(
    "given",
    [
        lines(*TALK),
        lines(TALK),
        lines({"model": "m", "messages": TALK}),
        lines({"messages": TALK[:2]}, {"messages": TALK[:4]}, {"messages": TALK}),
        lines({"model": "m", "input": ITEMS[1:], "instructions": "You watch."}),
        lines(*ITEMS),
        lines(*CODEX),
        [json.dumps(TALK, indent=1).encode()],
        json.dumps({"messages": TALK}, indent=1).encode().splitlines(keepends=True),
        lines({"request": {"messages": TALK}}),
    ],
    ids=["a message a line", "a list", "a body", "growing bodies", "responses body", "items", "codex", "pretty list",
         "pretty body", "wrapped"],
)  # fmt: skip
def test_every_shape_is_the_same_talk(given: list[bytes]) -> None:
    (found,) = read_lines("talk", given)
    assert said(found.messages) == said(TALK) and found.calls == 2 and list(turns(found.messages)) == [2, 4]


def test_opencode() -> None:
    (found,) = read_lines("talk", [json.dumps(OPENCODE, indent=1).encode()])
    assert said(found.messages) == said(TALK[1:]) and found.model == "gpt-5"


def test_the_model_is_the_file_s() -> None:
    assert read_lines("talk", lines(*CODEX))[0].model == "gpt-5-codex"
    assert read_lines("talk", lines({"model": "gpt-5-mini", "messages": TALK}))[0].model == "gpt-5-mini"


def test_several_talks_in_a_file() -> None:
    other = [TALK[0], {"role": "user", "content": "another"}, TALK[-1]]
    found = read_lines("talks", lines({"messages": TALK}, {"messages": other}))
    assert [one.name for one in found] == ["talks#1", "talks#2"] and found[1].calls == 1


def test_what_has_no_pair_is_left_out() -> None:
    orphan = {"role": "tool", "tool_call_id": "call_9", "content": "whose?"}
    waiting = {"role": "assistant", "content": "so", "tool_calls": [{**CALL, "id": "call_8"}]}
    assert said(as_chat([TALK[1], orphan, waiting, TALK[1]])) == [
        ("user", "how high?"), ("assistant", "so"), ("user", "how high?")
    ]  # fmt: skip


def test_images_and_lists_are_named() -> None:
    parts = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:x"}}]
    (message,) = as_chat([{"role": "user", "content": parts}])
    assert message["content"] == "look\n[image_url]"


@pytest.mark.parametrize("format", ["chat", "jsonl"])
def test_our_own_exports(tmp_path: Path, format: str) -> None:
    db, out = tmp_path / "x.db", tmp_path / f"out.{format}.jsonl"
    fill(db)
    command = [sys.executable, "-m", "proxy", "export", "--db", str(db), "--format", format, "-o", str(out)]
    subprocess.run(command, check=True, capture_output=True)
    found = read_path(out)
    assert len(found) >= 2 and all(one.messages[0]["content"] == builders.system()["content"] for one in found)


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.jsonl").write_bytes(b"".join(lines(*TALK)))
    (tmp_path / "deep/b.json").write_text(json.dumps(OPENCODE))
    (tmp_path / "notes.txt").write_text("no transcript")
    assert [one.name for one in read_path(tmp_path)] == ["a.jsonl", "b.json"]


def test_broken_lines_are_counted_or_refused() -> None:
    given = [*lines(TALK[0], TALK[1]), b'{"role": "assis\n', *lines(TALK[-1])]
    (found,) = read_lines("talk", given)
    assert found.skipped == 1 and found.calls == 1
    with pytest.raises(ConfigError, match="talk, line 3 is no JSON"):
        read_lines("talk", given, is_strict=True)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ([], "nothing in it"),
        ([b"hello\n"], "line 1 is no JSON"),
        (lines({"a": 1, "b": 2}), "line 1: no conversation in this shape .keys a, b"),
        (lines(7), "line 1: no conversation in this shape .int"),
        ([b"\xff\xfe\n"], "line 1 is no JSON"),
    ],
)
def test_what_is_no_transcript(given: list[bytes], named: str) -> None:
    with pytest.raises(ConfigError, match=named) as caught:
        read_lines("talk", given)
    assert "Accepted" in caught.value.hint


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        read_path(tmp_path / "none.jsonl")
    with pytest.raises(ConfigError, match="holds no"):
        read_path(tmp_path)
