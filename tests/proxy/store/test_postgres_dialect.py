"""SQLite's words in PostgreSQL's, and values that it cannot hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.store.postgres_dialect import from_database, to_database, translated


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("SELECT a FROM t WHERE b = ? AND c = ?", "SELECT a FROM t WHERE b = $1 AND c = $2"),
        ("SELECT ?1 WHERE a = ?2 AND b = ?1", "SELECT $1 WHERE a = $2 AND b = $1"),
        ("INSERT INTO t (a) VALUES (x'')", "INSERT INTO t (a) VALUES (''::bytea)"),
        (
            "SELECT number, length, head FROM chains WHERE id = ?",
            "SELECT number, length, head FROM chains WHERE id = $1 FOR UPDATE",
        ),
    ],
)
def test_statements(ours: str, theirs: str) -> None:
    assert translated(ours) == theirs


def test_a_pattern_becomes_one_of_like() -> None:
    assert translated("WHERE a = ? AND e.model GLOB ?").startswith("WHERE a = $1 AND e.model LIKE translate(")


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=4))
def test_every_text_comes_back_and_none_holds_nul_there(texts: list[str]) -> None:
    carried = to_database(texts)
    assert not any("\0" in text for text in carried)
    assert list(from_database(tuple(carried))) == texts


def test_truth_is_a_whole_number_and_the_rest_is_as_it_was() -> None:
    values = [True, False, 7, 0.5, None, b"\0"]
    assert to_database(values) == [1, 0, 7, 0.5, None, b"\0"]
    assert [type(value) for value in to_database(values)][:2] == [int, int]
    assert from_database((1, None, b"\0", "a\U0010fffe0\U0010fffeeb")) == (1, None, b"\0", "a\0\U0010fffeb")
