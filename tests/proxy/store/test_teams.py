"""The bill of a day is one range of an index, however large the store is. What it says is in the contract's suite."""

from __future__ import annotations

from pathlib import Path

from proxy.store.sqlite_connection import connect_writer
from proxy.store.teams import _CALLS, _SUMMARIES


def test_a_day_s_bill_reads_no_whole_table(tmp_path: Path) -> None:
    connection = connect_writer(tmp_path / "x.db")
    for statement, values in ((_CALLS, ("t", "0", "2026")), (_SUMMARIES, ("t", "2026"))):
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
        assert plan and all("SCAN" not in step for step in plan), plan
    connection.close()
