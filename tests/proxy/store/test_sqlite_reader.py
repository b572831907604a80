"""Every question that grows with the data goes through an index, and carries no whole rows into a sorter."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.core.records import Batch, KeyRow
from proxy.store import sqlite_chain, sqlite_reader
from proxy.store.sqlite_connection import connect_reader, connect_writer
from proxy.store.sqlite_rows import write_batch
from tests.proxy.store.rows import make_fold, small_batch

QUESTIONS: dict[str, Callable[[sqlite3.Connection], object]] = {
    "find_branches": lambda db: sqlite_reader.find_branches(db, "t", [("node", b"1")], "s", 32),
    "branch": lambda db: sqlite_reader.branch(db, "c"),
    "branches": lambda db: sqlite_reader.branches(db, "c"),
    "items": lambda db: sqlite_reader.items(db, "c", ["ci1x0"]),
    "plan": lambda db: sqlite_reader.plan(db, "p"),
    "summary": lambda db: sqlite_reader.summary(db, "k"),
    "conversations": lambda db: sqlite_reader.conversations(db, None, 100),
    "conversations of a tenant": lambda db: sqlite_reader.conversations(db, "t", 100),
    "transcript": lambda db: sqlite_reader.transcript_page(db, "c", None, 0),
    "transcript of a branch": lambda db: sqlite_reader.transcript_page(db, "c", "c", 0),
    "model's view": lambda db: sqlite_reader.view(db, "c", False),
    "archive": lambda db: sqlite_reader.view(db, "c", True),
    "all of a view": lambda db: sqlite_reader.view(db, "c", None),
    "exchanges": lambda db: sqlite_reader.exchanges(db, "c"),
    "folds": lambda db: sqlite_reader.folds(db, "c"),
    "windows": lambda db: sqlite_reader.windows(db, "c"),
    "window": lambda db: sqlite_chain.window(db, "cw1"),
    "window of an exchange": lambda db: sqlite_chain.window(db, "ce1"),
    "path": lambda db: sqlite_chain.path(db, "cp1"),
    "body": lambda db: sqlite_reader.body(db, b"x"),
    "find_item": lambda db: sqlite_reader.find_item(db, "ci1x0", "t"),
    "coverage": lambda db: sqlite_reader.coverage(db, "c", "C1"),
    "search": lambda db: sqlite_reader.search(db, "tool words", "t", "c", 20),
}
_SORTS_A_FEW_OR_NUMBERS = {"search", "find_branches", "branches", "windows", "find_item"}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "ctx.db"
    with contextlib.closing(connect_writer(path)) as connection:
        write_batch(connection, small_batch(1))
        folds = (make_fold("C1", ["ci1x0"], branch="c"),)
        write_batch(connection, Batch(folds=folds, keys=(KeyRow("t", "node", b"1", "c"),)))
    return path


@pytest.mark.parametrize("name", QUESTIONS)
def test_no_question_scans_a_table(path: Path, name: str) -> None:
    statements: list[str] = []
    with contextlib.closing(connect_reader(path)) as connection:
        connection.set_trace_callback(statements.append)
        QUESTIONS[name](connection)
        connection.set_trace_callback(None)
        asked = [s for s in statements if s.startswith("SELECT") and "'main'." not in s]  # FTS5 asks itself
        assert asked
        for statement in asked:
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}")]
            scans = [step for step in plan if step.startswith("SCAN") and "INDEX" not in step]
            assert scans == [], statement
            if name not in _SORTS_A_FEW_OR_NUMBERS:
                assert not [step for step in plan if "TEMP B-TREE" in step], (statement, plan)
