"""Every argument that cannot be meant: its name, its value on one line, what to give instead. Nothing is lost by it."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proxy import ContextStore, open_store
from proxy.errors import ConfigError, InputError, NotFoundError
from proxy.library import checking

Call = Callable[[Any], Any]
BAD: list[tuple[str, Call]] = [
    ("kind must be one of", lambda s: s.add(None, "x")),
    ("kind must be one of", lambda s: s.add(["user"], "x")),
    ("the body of a user is a text, not bytes", lambda s: s.add("user", b"x")),
    ("the body of a user is a text, not dict", lambda s: s.add("user", {"a": 1})),
    ("the body of a tool_result is a text, not list", lambda s: s.add("tool_result", ["x"])),
    ("the body of a user is a text, not NoneType", lambda s: s.add("user", None)),
    ("the body of a message is a mapping, not str", lambda s: s.add("message", "x")),
    ("a message's role is one of", lambda s: s.add("message", {"role": "nobody", "content": "x"})),
    ("of the role user needs content", lambda s: s.add("message", {"role": "user"})),
    ("a message's content is a text or a list", lambda s: s.add("message", {"role": "user", "content": 7})),
    ("a message must be JSON", lambda s: s.add("message", {"role": "user", "content": ["x", object()]})),
    ("tool_calls is a list of mappings", lambda s: s.add("message", {"role": "assistant", "tool_calls": "x"})),
    ("needs its tool_call_id", lambda s: s.add("message", {"role": "tool", "content": "x"})),
    ("answers no call", lambda s: s.add("message", {"role": "tool", "content": "x", "tool_call_id": "call_9"})),
    ("pin must be True or False, not 'no'", lambda s: s.add("user", "x", pin="no")),
    ("source must be a text", lambda s: s.add("tool_result", "x", source=5)),
    ("a file_read needs its source", lambda s: s.add("file_read", "x")),
    ("tool must be the name", lambda s: s.add("tool_result", "x", tool=5)),
    ("importance must be a number", lambda s: s.add("user", "x", importance="3")),
    ("importance must be a number, at most 1,000,000", lambda s: s.add("user", "x", importance=10**9)),
    ("importance must be a number", lambda s: s.add("user", "x", importance=float("nan"))),
    ("links are pairs", lambda s: s.add("user", "x", links=None)),
    ("links are pairs", lambda s: s.add("user", "x", links="abc")),
    ("links are pairs", lambda s: s.add("user", "x", links=("abc", "cites"))),
    ("a link's type is one of", lambda s: s.add("user", "x", links=[("abc", ["cites"])])),
    ("conversation must be a name", lambda s: s.add("user", "x", conversation="")),
    ("conversation must be a name", lambda s: s.context_get(1_000, model="m", conversation=5)),
    ("conversation must be a name", lambda s: s.model_of(b"x")),
    ("budget must be a whole number of tokens, at least 16, not '1000'", lambda s: s.context_get("1000", model="m")),
    ("budget must be", lambda s: s.context_get(-5, model="m")),
    ("budget must be", lambda s: s.context_get(1e4, model="m")),
    ("model must be the name of a model, not None", lambda s: s.context_get(1_000, model=None)),
    ("query must be a text, not 5", lambda s: s.search(5)),
    ("limit must be a whole number, at least 1, not None", lambda s: s.search("x", limit=None)),
    ("query must hold", lambda s: s.expand("abc", query="")),
    ("context must be a whole number, at least 0, not -1", lambda s: s.expand("abc", query="x", context=-1)),
    ("lines must be such as", lambda s: s.expand("abc", lines=(True, 2))),
    ("lines must be such as", lambda s: s.expand("abc", lines=(3, 0))),
    ("an id is a text", lambda s: s.pin(None)),
    ("draw on itself", lambda s: s.link("abc", "abc", "cites")),
]


@pytest.mark.parametrize(("says", "call"), BAD)
def test_a_bad_argument_is_named_and_nothing_is_lost(tmp_path: Path, says: str, call: Call) -> None:
    with open_store(tmp_path / "x.db") as store:
        store.add("user", "All is well.")
        with pytest.raises(InputError) as caught:
            call(store)
        assert str(caught.value).startswith(says) or says in str(caught.value)
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 240
        store.add("user", "And goes on.")
        assert [item["content"] for item in store.context_get(1_000, model="m").items] == [
            "All is well.",
            "And goes on.",
        ]


@pytest.mark.parametrize("id", ["nope", "\ud800", "x" * 100_000])
def test_an_unknown_id_is_not_found_whatever_is_in_it(tmp_path: Path, id: str) -> None:
    with open_store(tmp_path / "x.db") as store:
        known = store.add("user", "All is well.")
        calls: list[Callable[[ContextStore], Any]] = [
            lambda s: s.expand(id),
            lambda s: s.pin(id),
            lambda s: s.importance(id, 1.0),
            lambda s: s.link(known, id, "cites"),
            lambda s: s.link(id, known, "cites"),
            lambda s: s.add("user", "x", links=[(id, "cites")]),
        ]
        for call in calls:
            with pytest.raises(NotFoundError, match="there is no item") as caught:
                call(store)
            assert len(str(caught.value)) < 240 and caught.value.hint


@pytest.mark.parametrize("path", [None, 5, b"x.db", ""])
def test_a_path_that_is_none_makes_no_file(tmp_path: Path, path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="names no file"):
        open_store(path)
    with pytest.raises(ConfigError, match="policy must be a name, not None"):
        open_store(tmp_path / "x.db", policy=None)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_traceback_says_what_to_do(tmp_path: Path) -> None:
    with open_store(tmp_path / "x.db") as store, pytest.raises(InputError) as caught:
        store.add("user", b"x")  # type: ignore[arg-type]
    assert 'body.decode("utf-8", "replace")' in "".join(traceback.format_exception(caught.value))


def test_a_path_object_is_a_source_and_lines_may_stand_either_way(tmp_path: Path) -> None:
    with open_store(tmp_path / "x.db") as store:
        id = store.add("file_read", "one\ntwo\nthree", source=Path("src/app.py"))  # type: ignore[arg-type]
        assert store.expand(id, lines=(3, 2)) == store.expand(id, lines="3-2") == "two\nthree"
        call = store.context_get(1_000, model="m").items[0]["tool_calls"][0]
        assert "src/app.py" in call["function"]["arguments"]


def test_a_closed_store_cannot_be_entered_again(tmp_path: Path) -> None:
    store = open_store(tmp_path / "x.db")
    store.close()
    with pytest.raises(InputError, match="this store is closed"), store:
        pass


def test_a_value_is_shown_on_one_line() -> None:
    assert checking.shown("a\nb") == "'a\\nb'"
    assert len(checking.shown("x" * 500)) == checking.VALUE_CHARS
