"""The lines of an output that tell most of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core import loglines
from proxy.core.loglines import choose_lines, closing_lines, error_lines, short_line, with_gaps


def log_with(*errors: str) -> str:
    lines = [f"2026-04-02T10:{n // 60:02}:{n % 60:02}Z INFO berth {n} moored" for n in range(400)]
    for position, error in zip(range(200, 400, 7), errors, strict=False):
        lines[position] = error
    return "\n".join(lines)


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


def test_closing_lines_of_one_endless_line_are_its_end() -> None:
    made = closing_lines("z" * 5_000 + " it broke")
    assert made.endswith("it broke")
    assert len(made) <= 601


def test_lines_with_a_term_come_with_their_neighbours() -> None:
    lines = [f"entry {n} of the pilot book, nothing to say about it" for n in range(400)]
    lines[143] = "bollard_73 is loose"
    chosen = choose_lines(lines, {"bollard_73"}, 2_000)
    assert {142, 143, 144} <= set(chosen)
    assert chosen == sorted(chosen)
    assert sum(len(lines[index]) + 1 for index in chosen) <= 2_000


def test_gaps_are_counted() -> None:
    assert with_gaps(list("abcdef"), [1, 2, 5]) == "… 1 line omitted\nb\nc\n… 2 lines omitted\nf"
    assert with_gaps(list("abc"), [0]) == "a\n… 2 lines omitted"


def test_a_cut_line_says_how_much_is_missing() -> None:
    assert short_line("word " * 200).endswith("… [600 chars of this line omitted]")


LINES = st.lists(
    st.lists(
        st.sampled_from(
            ["Error", "TideError", "exceptions", "TRACEBACK", "panicked", "fails", "\u017fegfault", "cr\u0131tical",
             "trac\u00e9", "E  ", "e  ", "un", "defined", "ok", " ", ".", "_", "tracebac\u212a"]
        )
    ).map("".join)
)  # fmt: skip


@given(LINES)
def test_errors_are_where_the_pattern_finds_them(lines: list[str]) -> None:
    found = [index for index, line in enumerate(lines) if loglines._ERROR_LINE.search(line)]
    assert loglines._speaking_of_errors(lines) == found
