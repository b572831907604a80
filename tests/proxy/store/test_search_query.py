"""User text never becomes query syntax."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.store.search_query import parse_query


@pytest.mark.parametrize(
    ("text", "match", "literals"),
    [
        ("plain words", '"plain" "words"', ()),
        ("re-index", '"re-index"', ("re-index",)),
        ("C++", '"C++"', ("c++",)),
        ('say "this', '"say" """this"', ()),
        ("end.", '"end."', ()),
        ("can’t", '"can’t"', ("can't",)),
        ("-- ++", "", ("--", "++")),
        ("NEAR(a b)", '"NEAR(a" "b)"', ("near(a",)),
    ],
)
def test_words_become_quoted_phrases_and_signs_are_looked_for(text: str, match: str, literals: tuple[str, ...]) -> None:
    query = parse_query(text)
    assert (query.match, query.literals) == (match, literals)


@given(st.text(st.characters(exclude_categories=()), max_size=60))
def test_no_text_is_a_syntax_error(text: str) -> None:
    index = sqlite3.connect(":memory:")
    index.execute("CREATE VIRTUAL TABLE texts USING fts5 (text)")
    match = parse_query(text).match
    if match:
        index.execute("SELECT rowid FROM texts WHERE texts MATCH ?", (match,)).fetchall()
    index.close()


def test_accepts_looks_for_signs_only() -> None:
    assert parse_query("ns::name").accepts("call NS::Name")
    assert not parse_query("ns::name").accepts("ns name")
    assert parse_query("anything").accepts("")
