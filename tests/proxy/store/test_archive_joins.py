"""What exports join: outcomes, last windows, sizes, the leaf path; and the list that has the same filters."""

from __future__ import annotations

from pathlib import Path

from policies.model import Form
from proxy.core.filters import Filters
from proxy.store import archive_joins
from proxy.store.archive import Archive
from proxy.store.listing import listed, totals
from tests.support import sample_store as sample


def test_joins(tmp_path: Path) -> None:
    with Archive(sample.sample_store(tmp_path)) as archive:
        ended = archive.read(lambda db: archive_joins.outcome(db, sample.EXCHANGE))
        assert (ended["input"], ended["reply_items"]) == (1234, ("i4answer",))
        assert archive.read(lambda db: archive_joins.outcome(db, "none")) == {}
        window = archive.read(lambda db: archive_joins.last_window(db, sample.EXCHANGE))
        assert window["id"] == sample.WINDOW and window["tail"][3][1] == Form.STUB
        sizes = archive.read(lambda db: archive_joins.item_sizes(db, sample.CONVERSATION, list(sample.RAW)))
        assert sizes == {id: len(data) for id, data in sample.RAW.items()}
        stub = sample.hashed(sample.STUB)
        assert archive.read(lambda db: archive_joins.body_sizes(db, [stub, b"none"])) == {stub: len(sample.STUB)}
        frame = archive.read(lambda db: archive_joins.last_frame(db, sample.CONVERSATION))
        assert frame == sample.PREFIX + sample.SUFFIX
        ids = ["i1user", "none", "i0system"]
        found = archive.read(lambda db: archive_joins.originals(db, sample.CONVERSATION, ids))
        assert found == [sample.RAW["i1user"], sample.RAW["i0system"]]
        assert archive.read(lambda db: archive_joins.leaf_path(db, "none")) == ()


def test_the_list_and_its_sums(tmp_path: Path) -> None:
    with Archive(sample.sample_store(tmp_path, extra_conversation="zother")) as archive:
        both = archive.read(lambda db: listed(db, Filters(), 10))
        assert [one.id for one in both] == ["zother", sample.CONVERSATION]
        assert archive.read(lambda db: listed(db, Filters(), 1, 1)) == both[1:]
        assert archive.read(lambda db: listed(db, Filters(outcome="ok"), 10)) == both[1:]
        sums = archive.read(lambda db: totals(db, Filters()))
        assert (sums["calls"], sums["input"], sums["cost"], sums["cost_direct"]) == (1, 1234, 0.0123, 0.02)
