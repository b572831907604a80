"""What an expand call gets: pieces by lines and by query, bounded, with what was left out named."""

from __future__ import annotations

import pytest

from proxy.core.expanding import Ask, clean_id, listing, parse_lines, piece

TEXT = "\n".join(f"line {number}" for number in range(1, 101))


def words(text: str) -> int:
    return len(text.split())


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("10-40", (10, 40)),
        (" 10 - 40 ", (10, 40)),
        ("lines 3", (3, 3)),
        ("7-", (7, 10**9)),
        ("-7", (1, 7)),
        ("40:10", (10, 40)),
        ("", None),
        ("all", None),
        ("-", None),
    ],
)
def test_lines_as_models_write_them(text: str, wanted: tuple[int, int] | None) -> None:
    assert parse_lines(text) == wanted


def test_ids_as_models_write_them() -> None:
    for text in ("abcdefgh2345", "id abcdefgh2345", "#abcdefgh2345", "'abcdefgh2345'", "[id abcdefgh2345]"):
        assert clean_id(text) == "abcdefgh2345"
    assert clean_id(" nope ") == "nope"


def test_the_whole_when_it_fits() -> None:
    assert piece(Ask("i"), TEXT, "tool result", 1000, words) == f"[id i · tool result · 100 lines]\n{TEXT}"


def test_lines_and_what_was_left_out() -> None:
    out = piece(Ask("i", lines=(3, 5)), TEXT, "t", 1000, words)
    assert out.splitlines()[1:] == ["line 3", "line 4", "line 5"]
    assert "lines 3-5 of 100 shown, 97 lines left out" in out and "lines=6-100" in out
    assert "it has 100 lines only" in piece(Ask("i", lines=(200, 300)), TEXT, "t", 1000, words)


def test_a_query_with_its_context_within_lines() -> None:
    out = piece(Ask("i", query="LINE 50"), TEXT, "t", 1000, words)
    assert out.splitlines()[1:] == [f"line {number}" for number in range(48, 53)] and "1 matching" in out
    both = piece(Ask("i", query="line 5", lines=(1, 10)), TEXT, "t", 1000, words)
    assert "line 5" in both and "line 50" not in both
    assert "no line holds 'zzz'" in piece(Ask("i", query="zzz"), TEXT, "t", 1000, words)


@pytest.mark.parametrize("limit", [2, 20, 55, 199])
def test_never_more_than_the_limit(limit: int) -> None:
    out = piece(Ask("i"), TEXT, "t", limit, words)
    body = "\n".join(out.splitlines()[1:])
    assert 0 < words(body) <= limit and "left out" in out and TEXT.startswith(body)
    asked = piece(Ask("i", max_tokens=10), TEXT, "t", limit, words)
    assert words("\n".join(asked.splitlines()[1:])) <= min(10, limit)


def test_one_endless_line_is_cut_and_says_so() -> None:
    out = piece(Ask("i"), "x " * 10_000, "t", 50, words)
    assert words("\n".join(out.splitlines()[1:])) <= 50 and "the last line is cut" in out


def test_a_listing_names_what_it_stands_for() -> None:
    assert "stands for 2 originals" in listing("s", ["id a", "id b"], 100, words)
    short = listing("s", [f"id {number}" for number in range(100)], 40, words)
    assert words(short) <= 44 and "more" in short
