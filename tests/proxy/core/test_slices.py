from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.slices import Slice, Span, slice_lines, slice_query, split_lines

TEXT = "\n".join(f"line {number}" for number in range(1, 21)) + "\n"


@pytest.mark.parametrize(
    ("first", "last", "shown"),
    [(1, 3, (1, 3)), (19, 99, (19, 20)), (-5, 1, (1, 1)), (0, 2, (1, 2)), (20, 20, (20, 20))],
)
def test_lines_are_cut_to_the_text(first: int, last: int, shown: tuple[int, int]) -> None:
    found = slice_lines(TEXT, first, last)
    (span,) = found.spans
    assert (span.first, span.last) == shown
    assert span.lines == tuple(f"line {number}" for number in range(shown[0], shown[1] + 1))
    assert f"lines {shown[0]}-{shown[1]} of 20 shown" in found.left_out


@pytest.mark.parametrize(("first", "last"), [(21, 30), (5, 4)])
def test_no_lines_say_so(first: int, last: int) -> None:
    assert slice_lines(TEXT, first, last) == Slice((), 20)
    assert slice_lines(TEXT, first, last).left_out == "none of 20 lines shown"


def test_everything_leaves_nothing_out() -> None:
    assert slice_lines(TEXT, 1, 20).left_out == ""
    assert slice_lines("", 1, 1) == Slice((), 0)


def test_query_keeps_context_and_merges_neighbours() -> None:
    found = slice_query("a\nb\nHIT\nc\nd\ne\nf\nhit\nhit\ng\n", "hit", context=1)
    assert found.spans == (Span(2, ("b", "HIT", "c")), Span(7, ("f", "hit", "hit", "g")))
    assert found.matches == 3
    assert found.left_out == "lines 2-4, 7-10 of 10 shown, 3 lines left out"


def test_query_spans_that_touch_become_one() -> None:
    assert slice_query("x\na\na\nx", "x", context=1).spans == (Span(1, ("x", "a", "a", "x")),)


@pytest.mark.parametrize("query", ["a.c", "(", "[x", "%", "*", '"', "'; drop"])
def test_query_is_literal(query: str) -> None:
    assert slice_query("abc\n", query).matches == 0
    assert slice_query(f"abc\nsee {query} here\n", query, context=0).spans == (Span(2, (f"see {query} here",)),)


def test_empty_query_finds_nothing() -> None:
    assert slice_query(TEXT, "").matches == 0


def test_only_line_feeds_end_a_line() -> None:
    assert split_lines("a\r\nb\x0cc\u2028d\n\ne") == ["a", "b\x0cc\u2028d", "", "e"]
    assert split_lines("\n") == [""]


@given(st.text(alphabet="ab\n", max_size=40), st.text(alphabet="ab", min_size=1, max_size=2), st.integers(0, 3))
def test_query_shows_all_hits_and_only_their_surroundings(text: str, query: str, context: int) -> None:
    lines = split_lines(text)
    hits = {number for number, line in enumerate(lines, 1) if query in line}
    found = slice_query(text, query, context)
    shown = [number for span in found.spans for number in range(span.first, span.last + 1)]
    assert found.matches == len(hits)
    assert shown == sorted({n for hit in hits for n in range(hit - context, hit + context + 1) if 0 < n <= len(lines)})
    assert all(span.lines == tuple(lines[span.first - 1 : span.last]) for span in found.spans)
    assert all(a.last + 1 < b.first for a, b in zip(found.spans, found.spans[1:], strict=False))
