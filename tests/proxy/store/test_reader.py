"""Every question that grows with the data goes through an index, and carries no whole rows into a sorter."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.core.records import Batch, KeyRow
from proxy.store import deltas, reader
from proxy.store.rows import write_batch
from proxy.store.sqlite_connection import connect_reader, connect_writer
from tests.proxy.store.rows import make_fold, small_batch

QUESTIONS: dict[str, Callable[[sqlite3.Connection], object]] = {
    "find_branches": lambda db: reader.find_branches(db, "t", [("node", b"1")], "s", 32),
    "branch": lambda db: reader.branch(db, "c"),
    "branches": lambda db: reader.branches(db, "c"),
    "items": lambda db: reader.items(db, "c", ["ci1x0"]),
    "plan": lambda db: reader.plan(db, "p"),
    "summary": lambda db: reader.summary(db, "k"),
    "conversations": lambda db: reader.conversations(db, None, 100),
    "conversations of a tenant": lambda db: reader.conversations(db, "t", 100),
    "transcript": lambda db: reader.transcript_page(db, "c", None, 0),
    "transcript of a branch": lambda db: reader.transcript_page(db, "c", "c", 0),
    "model's view": lambda db: reader.view(db, "c", False),
    "archive": lambda db: reader.view(db, "c", True),
    "all of a view": lambda db: reader.view(db, "c", None),
    "exchanges": lambda db: reader.exchanges(db, "c"),
    "folds": lambda db: reader.folds(db, "c"),
    "windows": lambda db: reader.windows(db, "c"),
    "window": lambda db: deltas.window(db, "cw1"),
    "window of an exchange": lambda db: deltas.window(db, "ce1"),
    "path": lambda db: deltas.path(db, "cp1"),
    "body": lambda db: reader.body(db, b"x"),
    "find_item": lambda db: reader.find_item(db, "ci1x0", "t"),
    "coverage": lambda db: reader.coverage(db, "c", "C1"),
    "search": lambda db: reader.search(db, reader.ranked, "tool words", "t", "c", 20),
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
