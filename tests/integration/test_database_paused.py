"""PERF-06 in small, over a real database that is stopped: everybody is served, memory is bounded, all of it arrives."""

from __future__ import annotations

from tests.bench import paused


def test_perf_06_a_database_that_stands_still() -> None:
    made = paused.play(seconds=4, rate=15)
    assert len(made.during) == 60 and made.failed == 0
    assert made.is_degraded and made.spool_mb > 0
    assert made.missing == 0
    assert made.rss_most < made.rss_before + 60
