"""Work between turns: who may do it, what stops it, and what is written down of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from policies.sticky import Sticky, StickyOptions
from proxy.compactor import Compactor, CompactorOptions
from proxy.core.model import Usage
from proxy.core.records import Batch, ClaimRow
from proxy.live import LiveBranches
from proxy.store.base import Store
from proxy.store.open import open_store
from proxy.summaries.base import Caller, Draft, Material, SummarizerError
from proxy.summaries.book import SummaryBook
from proxy.turn import Turn, Turns
from proxy.windows import WindowBuilder, WindowOptions
from tests.support import builders
from tests.support.turns import Bench, bench

CALLER = Caller("m")


@dataclass
class Scribe:
    """Answers by script, the last one for ever; keeps what it was given."""

    drafts: list[Draft | SummarizerError] = field(default_factory=lambda: [Draft("The mole was read.", cost=0.25)])
    given: list[Material] = field(default_factory=list)
    name: str = "scribe"
    version: str = "1"
    seals: bool = False

    async def summarize(self, material: Material, caller: Caller) -> Draft:
        self.given.append(material)
        draft = self.drafts.pop(0) if len(self.drafts) > 1 else self.drafts[0]
        if isinstance(draft, SummarizerError):
            raise draft
        return draft


@dataclass
class Clock:
    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Yard:
    """A compactor on a store of its own, and a turn after which a fold is near."""

    store: Store
    book: SummaryBook
    turns: Turns
    made: Bench
    clock: Clock

    def compactor(self, scribe: Scribe) -> Compactor:
        return Compactor(scribe, self.book, self.store, self.turns, CompactorOptions(), clock=self.clock)

    async def turn(self, bill: int = 27_000) -> Turn:
        talk = [builders.system(), builders.user("start")]
        for number in range(40):
            talk += [builders.assistant("noted"), builders.user(builders.long_text(number, 2500))]
        self.made.end(await self.made.begin(talk), bill=bill)
        talk += [builders.assistant("noted"), builders.user("so?")]
        turn = await self.made.begin(talk)
        self.made.end(turn, bill=bill)
        return turn


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    store = open_store(tmp_path / "x.db")
    await store.open()
    made = bench(tmp_path, window=40_000)
    book = SummaryBook(store, Scribe())
    builder = WindowBuilder(Sticky(StickyOptions(economics=False)), made.tokenizer, WindowOptions())
    live = LiveBranches(store)
    made.turns = turns = Turns(live, builder, made.models, made.tokenizer, book=book)
    made.live = live
    yield Yard(store, book, turns, made, Clock())
    await store.aclose()


async def test_missing_segments_are_written_once(yard: Yard) -> None:
    scribe, turn = Scribe([Draft("The mole was read.", usage=Usage(900, 20), cost=0.25)]), await yard.turn()
    compactor = yard.compactor(scribe)
    await compactor.after(turn, CALLER)
    count = len(scribe.given)
    assert count >= 2 and all(material.chars >= 8_000 for material in scribe.given)
    await compactor.after(turn, CALLER)
    assert len(scribe.given) == count
    calls = await yard.store.summary_calls()
    assert len(calls) == count and {call.outcome for call in calls} == {"ok"}
    assert compactor.counters.good == count and compactor.counters.cost == pytest.approx(0.25 * count)
    covered = await yard.store.summary(calls[0].key)
    assert covered is not None and covered.covers == tuple(item.id for item in scribe.given[0].items)
    claim = await yard.store.claim(f"summaries:{turn.placement.conversation}")
    assert claim is not None and claim[1] == yard.clock.now  # given back


async def test_nothing_is_asked_while_a_fold_is_far(yard: Yard) -> None:
    scribe = Scribe()
    await yard.compactor(scribe).after(await yard.turn(bill=9_000), CALLER)
    assert not scribe.given


async def test_another_process_at_work_is_left_to_it(yard: Yard) -> None:
    scribe, turn = Scribe(), await yard.turn()
    name = f"summaries:{turn.placement.conversation}"
    await yard.store.submit(Batch(claims=(ClaimRow(name, "another", 900.0, 1_100.0),)))
    compactor = yard.compactor(scribe)
    await compactor.after(turn, CALLER)
    assert not scribe.given
    yard.clock.now = 1_101.0
    await compactor.after(turn, CALLER)
    assert scribe.given


async def test_bad_drafts_end_it_until_the_window_has_grown(yard: Yard) -> None:
    scribe, turn = Scribe([Draft("")]), await yard.turn()
    compactor = yard.compactor(scribe)
    await compactor.after(turn, CALLER)
    assert len(scribe.given) == 2 and compactor.counters.given_up == 1
    yard.clock.now += 100_000
    await compactor.after(turn, CALLER)
    assert len(scribe.given) == 2
    turn.live.state.input = int(27_000 * 1.2) + 1
    scribe.drafts = [Draft("The mole was read.")]
    await compactor.after(turn, CALLER)
    assert len(scribe.given) > 2 and compactor.counters.good > 0


async def test_a_bad_first_draft_gets_a_second_chance(yard: Yard) -> None:
    scribe = Scribe([Draft("", finish="length"), Draft("The mole was read.")])
    compactor = yard.compactor(scribe)
    await compactor.after(await yard.turn(), CALLER)
    assert scribe.given[0] == scribe.given[1]
    assert compactor.counters.rejected == 1 and compactor.counters.given_up == 0


async def test_failures_pause_it_longer_and_longer(yard: Yard) -> None:
    scribe, turn = Scribe([SummarizerError("busy", retry_after_s=5), SummarizerError("busy")]), await yard.turn()
    compactor = yard.compactor(scribe)
    for wait, asked in ((0, 1), (59, 1), (2, 2), (119, 2), (2, 3)):
        yard.clock.now += wait
        await compactor.after(turn, CALLER)
        assert len(scribe.given) == asked
    assert {call.outcome for call in await yard.store.summary_calls()} == {"failed"}
