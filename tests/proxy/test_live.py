"""Branches in memory: what a stopped request leaves behind, and which of two ends counts."""

from __future__ import annotations

from proxy.core.branches import finish
from proxy.core.identity import emitted, probe
from proxy.live import LiveBranches
from proxy.store.null import NullStore
from tests.support import talks

TENANT = "t"
FIRST = [talks.system("You watch."), talks.user("a long watch")]


async def test_receipts_of_a_request_that_was_never_recorded_go_with_the_next() -> None:
    """The client left before the rows were made: the next request on that branch carries its receipts too."""
    branches = LiveBranches(NullStore())
    asked = probe(talks.conversation(FIRST), TENANT)
    stopped, live, first = await branches.place(asked, discriminator="x1")
    branches.leave(live)
    placement, live, second = await branches.place(asked, discriminator="x2")
    assert placement.branch == stopped.branch
    assert first and set(first) <= set(second) == set(live.unsaved)


async def test_an_end_that_comes_late_does_not_move_a_branch_back() -> None:
    branches = LiveBranches(NullStore())
    _, live, _ = await branches.place(probe(talks.conversation(FIRST), TENANT), discriminator="x1")
    early = live.view
    branches.finish(live, finish(early, emitted([talks.assistant("aye")], "r1"), "ok", branches.tick()), ())
    longer = [*FIRST, talks.assistant("aye"), talks.user("and now?")]
    placement, again, _ = await branches.place(probe(talks.conversation(longer), TENANT), discriminator="x2")
    assert placement.verdict == "continue" and again is live
    newer = live.view
    branches.finish(live, early, ())
    assert live.view is newer


async def test_tenants_never_meet() -> None:
    branches = LiveBranches(NullStore())
    one, _, _ = await branches.place(probe(talks.conversation(FIRST), "a"), discriminator="x1")
    two, _, _ = await branches.place(probe(talks.conversation(FIRST), "b"), discriminator="x1")
    assert one.conversation != two.conversation and one.branch != two.branch
