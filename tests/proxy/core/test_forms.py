"""Stubs, excerpts and shapes: what they keep, what they say is missing, what they never cut."""

from __future__ import annotations

import base64
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.forms import (
    closing_lines,
    error_lines,
    excerpt,
    introduced_words,
    is_encoded,
    is_json_like,
    shape,
    size_words,
    stub,
    without_encoded,
    words_of,
)

BLOB = base64.b64encode(random.Random(1).randbytes(6_000)).decode()
WRAPPED = base64.encodebytes(random.Random(2).randbytes(6_000)).decode()
TRACEBACK = (
    "\n".join(f"collecting case {number} of the harbour suite" for number in range(150))
    + "\nTraceback (most recent call last):\n"
    + '  File "quay.py", line 12, in moor\n    raise KeyError("bollard 7")\n'
    + "KeyError: 'bollard 7'\nexit status 1\n"
)
LOG = "\n".join(
    f"2026-03-01T00:{n // 60:02}:{n % 60:02}Z {'ERROR pump 7 stalled' if n == 77 else 'INFO level ok'} #{n}"
    for n in range(200)
)


def test_stub_is_one_line_with_size_tool_and_id() -> None:
    made = stub("x" * 14_213, id="8841abcd", tool="search", failed=False)
    assert made == "[output omitted from history: 14,213 chars from search · id 8841abcd]"


def test_stub_names_the_call_and_the_words_it_introduced() -> None:
    made = stub("x" * 5_000, id="k1", tool="shell", failed=False, argument="grep -rn  'tide'\n src " + "y" * 90,
                words=("tide_gauge", "HarbourMap", "4272", "mole", "fifth"))  # fmt: skip
    assert made.count("\n") == 0
    call = made.split("call: ")[1].split(" · ")[0]
    assert len(call) == 70
    assert call.startswith("grep -rn 'tide' src yyy")
    assert "mentions: tide_gauge, HarbourMap, 4272, mole]" in made


def test_stub_speaks_of_retrieval_only_when_the_tool_is_there() -> None:
    assert "returns it" not in stub("x" * 900, id="a", tool="t", failed=False)
    assert 'ctx_expand("a") returns it' in stub("x" * 900, id="a", tool="t", failed=False, can_expand="ctx_expand")


def test_failed_stub_says_so_and_keeps_the_closing_lines() -> None:
    made = stub(TRACEBACK, id="e1", tool="shell", failed=True)
    first, *closing = made.splitlines()
    assert "· failed]" in first
    assert closing[-2:] == ["KeyError: 'bollard 7'", "exit status 1"]
    assert len(closing) == 5
    assert "collecting" not in made


def log_with(*errors: str) -> str:
    lines = [f"2026-04-02T10:{n // 60:02}:{n % 60:02}Z INFO berth {n} moored" for n in range(400)]
    for position, error in zip(range(200, 400, 7), errors, strict=False):
        lines[position] = error
    return "\n".join(lines)


def test_a_stub_keeps_the_error_line_in_the_middle_of_a_log() -> None:
    """MASK-06: a reduced log still says what went wrong."""
    error = "2026-04-02T10:03:21Z ERROR hold of booking BR-51822 lost at berth 31"
    head, *below = stub(log_with(error), id="a", tool="log", failed=False).split("\n")
    assert "output omitted" in head and below == [error]


def test_of_many_error_lines_the_first_and_the_last_stay_once_each() -> None:
    text = log_with("ERROR one", "ERROR one", "FATAL two", "x.y.TideError: three", "E   assert 4 == 5", "ERROR six")
    assert error_lines(text) == ["ERROR one", "E assert 4 == 5", "ERROR six"]
    assert error_lines("ERROR one\n" * 5_000 + "ERROR two\n" + "a\n" * 5_000) == ["ERROR one", "ERROR two"]
    assert error_lines("E   at the start\nfine") == ["E at the start"]


def test_error_lines_are_of_bounded_length() -> None:
    (line,) = error_lines("fine\nERROR " + "tide " * 10_000)
    assert len(line) <= 200 and line.endswith("…")


@pytest.mark.parametrize(
    "text",
    ["log.setLevel(logging.ERROR)", "raise TideError(f'late')", "except (TideError): pass", "0 errors, all fine",
     "    ERROR = 'E'", "if kind == 'ERROR': stop()", ""],
)  # fmt: skip
def test_what_only_speaks_of_errors_is_not_kept(text: str) -> None:
    assert error_lines(f"some text\n{text}\nmore") == []


def test_closing_lines_are_not_said_twice() -> None:
    made = stub("x\n" * 300 + "TideError: late", id="a", tool="t", failed=True)
    assert made.count("TideError: late") == 1


def test_closing_lines_of_one_endless_line_are_its_end() -> None:
    made = closing_lines("z" * 5_000 + " it broke")
    assert made.endswith("it broke")
    assert len(made) <= 601


def test_encoded_text_is_named_whole_never_cut() -> None:
    for data in (f"data:image/png;base64,{BLOB}", BLOB, WRAPPED):
        assert is_encoded(data)
        assert excerpt(data, id="a", tool="t", failed=False) is None
        made = stub(f"reading the picture\n{data}", id="a", tool="t", failed=True)
        assert data[40:80] not in made
        assert "[encoded data, " in made


def test_long_runs_that_are_not_data_stay() -> None:
    for text in ("-" * 500, "a" * 500, "/".join(["usr"] * 100)):
        assert without_encoded(text) == text
    assert not is_encoded("plain words " * 100)


def test_introduced_words_prefer_identifiers_and_skip_the_known() -> None:
    text = "the harbour reads tide_gauge_7 and HarbourMap at berth 4272, then harbour again"
    assert introduced_words(text, frozenset({"4272"})) == ("tide_gauge_7", "HarbourMap", "harbour", "reads")
    assert introduced_words(text, words_of(text)) == ()


def test_log_excerpt_keeps_ends_and_errors_and_says_what_is_missing() -> None:
    made = excerpt(LOG, id="l1", tool="tail", failed=False, argument="tail app.log", can_expand="ctx_expand")
    assert made is not None
    head, *body = made.splitlines()
    assert head.startswith(f"[excerpt of {size_words(len(LOG))} from tail · id l1 · kept ")
    assert 'ctx_expand("l1") returns all' in head
    assert any("ERROR pump 7 stalled #77" in line for line in body)
    assert body[0].endswith("#0")
    assert body[-1].endswith("#199")
    omitted = sum(int(line.split()[1]) for line in body if line.startswith("… "))
    assert omitted + sum(not line.startswith("… ") for line in body) == 200
    assert len(made) < 0.35 * len(LOG)


def test_excerpt_keeps_lines_with_the_terms() -> None:
    text = "\n".join(f"entry {n} of the pilot book: {'bollard_73' if n == 143 else 'nothing new'}" for n in range(300))
    plain = excerpt(text, id="a", tool="t", failed=False)
    asked = excerpt(text, id="a", tool="t", failed=False, terms={"bollard_73"})
    assert plain is not None
    assert asked is not None
    assert "bollard_73" not in plain
    assert "bollard_73" in asked


def test_no_excerpt_of_json_or_diffs_or_short_texts() -> None:
    rows = "[" + ",\n".join('{"berth": 1}' for _ in range(100)) + "]"
    diff = "diff --git a/q b/q\n@@ -1,3 +1,3 @@\n" + "\n".join("+ line" for _ in range(100))
    for text in (rows, diff, "one\ntwo\nthree"):
        assert excerpt(text, id="a", tool="t", failed=False) is None


def test_json_excerpt_is_the_shape_it_is_given() -> None:
    rows = "[" + ",".join('{"berth": 1, "ship": "Anna"}' for _ in range(100)) + "]"
    made = excerpt(rows, id="a", tool="api", failed=False, shape_text=shape([{"berth": 1, "ship": "Anna"}] * 100))
    assert made == "[excerpt of 2,901 chars from api · id a · kept its shape]\n[100 × {berth: number, ship: string}]"


def test_a_log_that_begins_with_a_bracket_is_not_json() -> None:
    assert is_json_like(' {"a": [1]} ')
    assert not is_json_like("[INFO] started\n[INFO] done [ok]")


def test_excerpt_shows_the_length_of_a_cut_line() -> None:
    text = "\n".join(["word " * 200, *(f"line {n}" for n in range(400))])
    made = excerpt(text, id="a", tool="t", failed=False)
    assert made is not None
    assert "… [600 chars of this line omitted]" in made


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"id": 7, "name": "Anna", "open": True, "note": None}, '{id: 7, name: "Anna", open: true, note: null}'),
        ({"text": "x" * 1_234}, "{text: string, 1,234 chars}"),
        ([{"a": 1}, {"b": "x"}], "[2 × {a: number, b: string}]"),
        ([1, "a", 2], "[3 × number | string]"),
        ([], "[]"),
        ({"a": {"b": {"c": {"d": {"e": 1}}}}}, "{a: {b: {c: {d: {1 keys}}}}}"),
        ({str(n): n for n in range(30)}, None),
    ],
)
def test_shape(value: object, expected: str | None) -> None:
    if expected is None:
        assert "… 6 more keys}" in shape(value)
    else:
        assert shape(value) == expected


@given(st.text(max_size=3_000), st.booleans())
def test_stub_is_deterministic_and_its_head_is_one_line(text: str, is_failed: bool) -> None:
    made = stub(text, id="i1", tool="t", failed=is_failed)
    assert made == stub(text, id="i1", tool="t", failed=is_failed)
    assert made.split("\n")[0].endswith("]")
    assert len(made) < 900


@given(st.lists(st.text(alphabet="abcde ERROR", max_size=60), min_size=12, max_size=200))
def test_excerpts_are_deterministic_and_shorter(lines: list[str]) -> None:
    text = "\n".join(lines)
    made = excerpt(text, id="i1", tool="t", failed=False)
    assert made == excerpt(text, id="i1", tool="t", failed=False)
    assert made is None or len(made) < len(text)
