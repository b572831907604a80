"""Stubs, excerpts, kept segments: what they keep, what they say is missing, what they never cut."""

from __future__ import annotations

import base64
import json
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.segments import split
from proxy.core.forms import Excerpt, Kept, excerpt, kept_segments, region, stub
from proxy.core.texts import is_encoded, size_words

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


def test_no_form_names_a_tool_that_may_not_be_there() -> None:
    """MASK-01: retrieval is the tool's own affair; a text that stands for another gives its id."""
    for made in (stub(LOG, id="a9", tool="t", failed=False), read_lines(LOG).text,
                 kept_segments(LOG, (3,), id="a9", tool="t", failed=False, argument="")):  # fmt: skip
        assert "a9" in made.split("\n")[0]
        assert "expand" not in made


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


def test_closing_lines_are_not_said_twice() -> None:
    made = stub("x\n" * 300 + "TideError: late", id="a", tool="t", failed=True)
    assert made.count("TideError: late") == 1


def test_encoded_text_is_named_whole_never_cut() -> None:
    for data in (f"data:image/png;base64,{BLOB}", BLOB, WRAPPED):
        assert is_encoded(data)
        assert excerpt(data, id="a", tool="t", failed=False) is None
        made = stub(f"reading the picture\n{data}", id="a", tool="t", failed=True)
        assert data[40:80] not in made
        assert "[encoded data, " in made


def read_lines(text: str, **options: object) -> Excerpt:
    made = excerpt(text, id="a9", tool="t", failed=False, **options)  # type: ignore[arg-type]
    assert made is not None
    return made


@pytest.mark.parametrize("data", [f"data:image/png;base64,{BLOB}", BLOB, WRAPPED.rstrip("\n")])
def test_no_form_cuts_into_encoded_data(data: str) -> None:
    """MASK-13: a run is there whole, or named with its size."""
    text = "\n".join([*(f"berth {n} of the harbour list, all quiet" for n in range(300)), data, "done"])
    keep = tuple(range(0, len(split(text)), 2))
    texts = [
        stub(text, id="a", tool="t", failed=True),
        read_lines(text).text,
        kept_segments(text, keep, id="a", tool="t", failed=False, argument=""),
        kept_segments(text, tuple(range(295, len(split(text)))), id="a", tool="t", failed=False, argument=""),
    ]
    for made in texts:
        assert data in made or not any(data[at : at + 24] in made for at in range(0, len(data) - 24, 24))
    assert any(data in made for made in texts)


def test_log_excerpt_keeps_ends_and_errors_and_says_what_is_missing() -> None:
    found = excerpt(LOG, id="l1", tool="tail", failed=False, argument="tail app.log")
    assert found is not None and found.kind == "lines"
    made = found.text
    head, *body = made.splitlines()
    assert head.startswith(f"[excerpt of {size_words(len(LOG))} from tail · id l1 · kept ")
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
    assert "bollard_73" not in plain.text
    assert "bollard_73" in asked.text


def test_no_excerpt_of_broken_json_or_short_texts() -> None:
    rows = "[" + ",\n".join('{"berth": 1}' for _ in range(100)) + "]"
    for text in (rows, "one\ntwo\nthree"):
        assert excerpt(text, id="a", tool="t", failed=False) is None
    assert excerpt(rows[:-3] + "]", id="a", tool="t", failed=False, parse=parse) is None


def parse(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


def test_json_becomes_its_shape_with_the_rows_that_are_asked_for() -> None:
    rows = json.dumps([{"berth": n, "ship": "Anna" if n != 7 else "Brigantine_7"} for n in range(100)])
    plain = excerpt(rows, id="a", tool="api", failed=False, parse=parse)
    assert plain == Excerpt(
        "shape",
        f"[excerpt of {size_words(len(rows))} from api · id a · kept its shape]\n"
        "[100 × {berth: number, ship: string}]",
    )
    asked = read_lines(rows, terms={"Brigantine_7"}, parse=parse)
    assert "kept its shape and 1 of 1 matching rows" in asked.text
    assert asked.text.endswith('\n7: {berth: 7, ship: "Brigantine_7"}')


def test_code_and_diffs_become_outlines() -> None:
    code = "\n".join(f"def quay_{n}(ship):\n    tide = read_tide(ship)\n    return tide + {n}\n" for n in range(60))
    assert read_lines(code).kind == "outline"
    assert "def quay_17(ship):" in read_lines(code).text
    diff = "diff --git a/q.py b/q.py\n@@ -1,3 +1,3 @@ def moor():\n" + "\n".join("+ line" for _ in range(100))
    assert read_lines(diff).text.endswith("@@ -1,3 +1,3 @@ def moor():  (+100 −0)\n…")


def test_excerpt_shows_the_length_of_a_cut_line() -> None:
    text = "\n".join(["word " * 200, *(f"line {n}" for n in range(400))])
    made = excerpt(text, id="a", tool="t", failed=False)
    assert made is not None
    assert "… [600 chars of this line omitted]" in made.text


def test_kept_segments_are_word_for_word_under_a_header_with_the_id() -> None:
    text = "\n".join(f"line {n} of the log" for n in range(9))
    made = kept_segments(text, (1, 2, 8), id="k3", tool="tail", failed=False, argument="tail  app.log")
    assert (
        made
        == "[#k3 tail 3/9 lines · call: tail app.log]\n…\nline 1 of the log\nline 2 of the log\n…\nline 8 of the log"
    )
    assert kept_segments(text, (99,), id="k3", tool="t", failed=True, argument="") == "[#k3 t 0/9 lines · failed]"


def test_a_region_is_its_items_in_order() -> None:
    items = [Kept("a", "user", "one\ntwo", (0,)), Kept("b", "shell", "three\nfour", (1,), "ls", is_failed=True)]
    assert region(items) == "[#a user 1/2 lines]\none\n…\n[#b shell 1/2 lines · failed · call: ls]\n…\nfour"
    assert region([]) == ""


def test_a_kept_part_of_json_comes_with_the_keys_above_it() -> None:
    text = json.dumps(
        {"orders": [{"id": f"#W{n}", "items": [{"sku": f"{n}-{k}" * 9} for k in range(9)]} for n in range(4)]}
    )
    numbers = [index for index, part in enumerate(split(text)) if "2-3" in part.text]
    made = kept_segments(text, numbers[:1], id="k", tool="api", failed=False, argument="")
    assert "orders.2" in made and "2-32-3" in made


def seconds(text: str) -> float:
    started = time.perf_counter()
    stub(text, id="a", tool="t", failed=True)
    excerpt(text, id="a", tool="t", failed=False, terms={"tide"}, parse=parse)
    kept_segments(text, (0, 2), id="a", tool="t", failed=False, argument="")
    return time.perf_counter() - started


@pytest.mark.parametrize(
    "piece",
    ["a" * 997 + "\n", "-" * 61 + "\n", " " * 500, "ERROR x\n", "def f(a):\n", "+x\n@@ -1 +1 @@\n", "港" * 80 + "\n",
     "Ab3/" * 40, '{"a": [1, {"b": "tide"}]},\n'],
)  # fmt: skip
def test_time_is_linear_in_the_text(piece: str) -> None:
    short, long = piece * (100_000 // len(piece)), piece * (800_000 // len(piece))
    least = min(seconds(short) for _ in range(3))
    assert min(seconds(long) for _ in range(2)) < 8 * 3 * max(least, 0.004)


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
    assert made is None or len(made.text) < len(text)
