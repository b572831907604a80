"""Runs of lines that stand elsewhere: found whole, numbers aside, in the newest place, in either direction."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core import overlap
from proxy.core.overlap import LineIndex, Run, read_lines

CODE = "\n".join(f"    level_{n} = survey({n})" for n in range(30))


def index_of(**items: str) -> LineIndex:
    index = LineIndex()
    for item, text in items.items():
        index.add(item, read_lines(text))
    return index


def test_a_run_is_as_long_as_the_lines_agree() -> None:
    asked = "\n".join(["new", *CODE.split("\n")[4:20], "newer"])
    assert index_of(a=CODE).runs(read_lines(asked)) == [Run(1, 17, "a", 4)]


def test_two_lines_are_no_run() -> None:
    asked = "\n".join(["new", *CODE.split("\n")[4:6], "newer"])
    assert index_of(a=CODE).runs(read_lines(asked)) == []


def test_line_numbers_do_not_count() -> None:
    lines = CODE.split("\n")
    for mark in ("\t", "→", ":", " | ", "  "):
        numbered = "\n".join(f"{n:6}{mark}{line}" for n, line in enumerate(lines, 101))
        runs = index_of(a=CODE).runs(read_lines(numbered))
        assert [(run.start, run.stop, run.at) for run in runs] == [(0, 30, 0)], mark
        assert read_lines(numbered).numbers[:2] == (101, 102)


def test_figures_that_do_not_count_up_are_no_line_numbers() -> None:
    table = "\n".join(f"{n * n}\tberths" for n in range(20))
    assert set(read_lines(table).numbers) == {-1}


def test_the_longest_place_is_taken_then_the_newest() -> None:
    lines = CODE.split("\n")
    index = index_of(short="\n".join(lines[:5]), long="\n".join(lines[:9]), again="\n".join(lines[:9]))
    assert index.runs(read_lines(CODE)) == [Run(0, 9, "again", 0)]


def test_an_indexed_item_can_be_asked_for_its_newer_copies() -> None:
    index = index_of(old=CODE, new="\n".join(["# now", *CODE.split("\n")[10:]]))
    assert index.runs(read_lines(CODE), but="old") == [Run(10, 30, "new", 1)]


def test_a_run_never_leads_through_lines_that_an_item_does_not_show() -> None:
    index = LineIndex()
    index.add("a", read_lines(CODE), [range(10), range(20, 30)])
    assert [(run.start, run.stop) for run in index.runs(read_lines(CODE))] == [(0, 10), (20, 30)]


def test_blank_lines_and_brackets_neither_begin_nor_end_a_run() -> None:
    text = "}\n\n" + "\n".join(CODE.split("\n")[:3]) + "\n\n}\n"
    assert index_of(a=text).runs(read_lines(text)) == [Run(2, 5, "a", 2)]


def test_the_oldest_items_leave_a_full_index() -> None:
    index = LineIndex()
    for item in ("a", "b"):
        index.add(item, read_lines("\n".join(f"{item} berth {n}" for n in range(overlap.MAX_LINES))))
    for item in range(overlap.INDEXED_LINES // overlap.MAX_LINES):
        index.add(str(item), read_lines("\n".join(f"{item} pilot {n}" for n in range(overlap.MAX_LINES))))
    assert index.runs(read_lines("a berth 1\na berth 2\na berth 3")) == []


def test_alike_lines_do_not_make_it_slow() -> None:
    text = "\n".join(["tick of the pump"] * 10_000)
    index = index_of(a=text, b=text)
    started = time.perf_counter()
    assert index.runs(read_lines(text))
    assert time.perf_counter() - started < 2


@given(st.lists(st.sampled_from(["alpha beta", "gamma delta", "", "}", "epsilon 1"]), max_size=40), st.data())
def test_what_a_run_says_is_true(lines: list[str], data: st.DataObject) -> None:
    other = data.draw(st.lists(st.sampled_from(["alpha beta", "gamma delta", "", "}", "new line"]), max_size=40))
    for run in index_of(a="\n".join(lines)).runs(read_lines("\n".join(other))):
        assert other[run.start : run.stop] == lines[run.at : run.at + run.stop - run.start]
        assert run.stop - run.start >= overlap.MIN_LINES


def test_memory_is_a_small_multiple_of_the_text_and_bounded() -> None:
    """A line costs its key and its place; what leaves the index leaves all of it."""
    index = LineIndex()
    texts = ["\n".join(f"{item:04} gauge {n} at the outer mole" for n in range(2_000)) for item in range(10)]
    tracemalloc.start()
    try:
        for item, text in enumerate(texts):
            index.add(f"i{item}", read_lines(text))
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < 9 * sum(map(len, texts))


def test_the_oldest_items_leave_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "INDEXED_LINES", 80)
    index = index_of(old=CODE, new=CODE.replace("level", "depth"), newer=CODE.replace("level", "height"))
    assert index.runs(read_lines(CODE)) == []
    assert [run.item for run in index.runs(read_lines(CODE.replace("level", "height")))] == ["newer"]
    index.add("again", read_lines(CODE.replace("level", "height")))
    index.add("last", read_lines("\n".join(f"quay {n}" for n in range(79))))
    assert len(index._places) == 79
