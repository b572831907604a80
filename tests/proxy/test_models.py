"""What is known of a model, and what is learnt of it from bills and refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from proxy.core.records import LearnedRow
from proxy.models import ModelBook
from proxy.prices import PriceBook
from tests.support.serve import make_config

URL = "http://provider.test/v1"


def book(tmp_path: Path, learned: tuple[LearnedRow, ...] = (), **entry: object) -> ModelBook:
    config = make_config(URL, tmp_path / "x.db", models={"m-*": {"window": 10_000, **entry}})
    return ModelBook(config, PriceBook(config.upstream.url, config.model), learned)


def test_limits_follow_the_configuration(tmp_path: Path) -> None:
    limits = book(tmp_path, compact_at=5000).limits("m-1")
    assert limits.facts.window == 10_000 and limits.thresholds.compact_at == 5000
    assert limits.reply_allowance(300) == 300 and limits.reply_allowance(99_999) == 10_000
    assert limits.reply_allowance(None) == 1000
    assert (limits.counted(100), limits.billed(100)) == (100, 100)


def test_a_limit_that_the_provider_names_wins_and_is_written_once(tmp_path: Path) -> None:
    models = book(tmp_path)
    (row,) = models.learn_limit("m-1", 4000).learned
    assert row == LearnedRow(URL, "m-1", "limit", 4000.0)
    assert models.limits("m-1").thresholds.boundary == 4000
    assert not models.learn_limit("m-1", 4000).learned
    assert models.limits("m-2").facts.window == 10_000


def test_bills_teach_the_ratio(tmp_path: Path) -> None:
    models = book(tmp_path)
    assert models.learn_usage("m-1", billed=2000, counted=1000).learned[0].value == 2.0
    assert models.limits("m-1").billed(100) == 200
    assert not models.learn_usage("m-1", billed=2001, counted=1000).learned  # too small a change for a row
    assert not models.learn_usage("m-1", billed=0, counted=1000).learned


def test_what_was_learnt_comes_back_for_this_provider_alone(tmp_path: Path) -> None:
    rows = (
        LearnedRow(URL, "m-1", "limit", 3000.0),
        LearnedRow(URL, "m-1", "ratio", 1.5),
        LearnedRow("http://other.test/v1", "m-2", "limit", 1.0),
        LearnedRow(URL, "", "refuses_usage", 1.0),
    )
    models = book(tmp_path, rows)
    assert models.limits("m-1").facts.window == 3000 and models.limits("m-1").ratio == 1.5
    assert models.limits("m-2").facts.window == 10_000
    assert models.refuses_usage


@pytest.mark.parametrize("name", ["", "unheard-of", "m-1:free", "x" * 500])
def test_any_name_has_limits(tmp_path: Path, name: str) -> None:
    assert book(tmp_path).limits(name).thresholds.boundary > 0


def test_a_refused_option_is_remembered(tmp_path: Path) -> None:
    models = book(tmp_path)
    assert models.learn_refusal().learned and models.refuses_usage


def test_a_restart_goes_on_with_the_same_ratio(tmp_path: Path) -> None:
    """Many small changes: what is in use is always what was written last, and it follows."""
    models = book(tmp_path)
    rows = [row for step in range(200) for row in models.learn_usage("m-1", billed=2000 + step, counted=1000).learned]
    assert models.limits("m-1").ratio == rows[-1].value == book(tmp_path, (rows[-1],)).limits("m-1").ratio
    assert 1 < len(rows) < 60 and rows[-1].value > 2.15


def test_a_limit_that_the_provider_names_wins_over_cliff_and_threshold(
    tmp_path: Path,
) -> None:
    models = book(tmp_path, cliff=8000, compact_at=7000)
    assert models.limits("m-1").thresholds.boundary == 8000 and models.limits("m-1").thresholds.compact_at == 7000
    models.learn_limit("m-1", 6000)
    marks = models.limits("m-1").thresholds
    assert (marks.boundary, marks.compact_at, marks.guard, marks.guard_cliff) == (6000, 4410, 5160, None)


def test_what_another_replica_learned_counts_from_then_on_and_nothing_is_learned_twice(tmp_path: Path) -> None:
    ours, theirs = book(tmp_path), book(tmp_path)
    ours.limits("m-1")
    limit, ratio = theirs.learn_limit("m-1", 6000), theirs.learn_usage("m-1", billed=1500, counted=1000)
    ours.recall([*limit.learned, *ratio.learned])
    assert ours.limits("m-1") == theirs.limits("m-1")
    assert ours.learn_limit("m-1", 6000).learned == ()


def test_a_threshold_that_cannot_act_is_told_once(tmp_path: Path) -> None:
    models = book(tmp_path, compact_at=9500)
    with capture_logs() as logs:
        for bill in (2000, 3000, 4000):
            assert models.limits("m-1").thresholds.compact_at == 7350
            models.learn_usage("m-1", billed=bill, counted=1000)
    assert [(entry["event"], entry["asked"], entry["used"]) for entry in logs] == [
        ("compact_at_cannot_act", 9500, 7350)
    ]
