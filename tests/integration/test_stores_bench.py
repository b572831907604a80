"""The bench that puts the two stores side by side runs, in small, and has a figure for each of its cases."""

from __future__ import annotations

import pytest

from tests.bench import stores
from tests.proxy.store.backends import without_postgres


@pytest.mark.slow
@without_postgres
def test_both_stores_have_figures_in_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    figures = stores.main(["--rounds", "1", "--requests", "2", "--clients", "2", "--batches", "20"])
    cases = [*stores.SIZES, "store, 1 at once", "store, 16 at once"]
    assert {(one.store, one.case) for one in figures} == {(kind, case) for kind in stores.KINDS for case in cases}
    assert all(one.per_second > 0 for one in figures)
    assert "postgres" in capsys.readouterr().out
