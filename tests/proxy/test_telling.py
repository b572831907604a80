"""A new fold is told by what the store has, put off while that is missing, and never where the window must shrink."""

from __future__ import annotations

from pathlib import Path

from policies.model import Budget, Pressure
from proxy.core.identity import item_ids
from proxy.core.pricing import ModelFacts
from proxy.folding import Folded
from proxy.live import Live
from proxy.summaries.book import SummaryBook
from proxy.telling import Telling
from proxy.turn import whole
from proxy.windows import Decision, Limits
from proxy.wire.chat import ChatFormat
from tests.support import builders
from tests.support.turns import bench

TALK = [
    message
    for number in range(60)
    for message in (builders.assistant("noted"), builders.user(builders.long_text(number, 900)))
]


class Book(SummaryBook):
    def __init__(self, texts: dict[str, str], is_whole: bool) -> None:
        self.texts, self.is_whole = texts, is_whole

    async def of_fold(self, folded: Folded, conversation: str) -> tuple[dict[str, str], bool]:
        texts = dict.fromkeys((part.segment for part in folded.parts if part.segment), "The mole was read.")
        return (texts if self.texts else {}), self.is_whole


async def told(tmp_path: Path, book: Book | None, *, must_shrink: bool) -> tuple[Decision, Folded | None, Decision]:
    builder = bench(tmp_path).builder
    conversation = ChatFormat().decode(builders.body_bytes(builders.request([builders.system(), *TALK])), {})
    ids = item_ids("c", conversation.elements)
    measured = await builder.measure(conversation, "c", ids)
    limits = Limits(Budget(30_000), ModelFacts(30_000).ratios)
    calm = whole(measured)
    pressed = builder.decide(
        conversation, measured, calm.plan, set(ids), limits, pressure=Pressure("threshold", 6_000), memory={}
    )
    assert pressed.folded is not None
    live = Live(None)  # type: ignore[arg-type]  # its plan and state are all that counts here
    decision, put_off = await Telling(builder, book).tell(
        pressed, conversation, measured, live, calm=calm, must_shrink=must_shrink
    )
    return decision, put_off, pressed


async def test_by_rules_alone(tmp_path: Path) -> None:
    decision, put_off, pressed = await told(tmp_path, None, must_shrink=False)
    assert decision is pressed and put_off is None


async def test_in_the_words_that_are_there(tmp_path: Path) -> None:
    decision, put_off, pressed = await told(tmp_path, Book({"any": ""}, True), must_shrink=False)
    assert put_off is None and decision.plan.fold is not None and pressed.plan.fold is not None
    assert "The mole was read." in decision.plan.fold.text
    assert decision.plan.fold.covers == pressed.plan.fold.covers and decision.plan.fold.item != pressed.plan.fold.item
    assert [slot.note for slot in decision.slots if slot.index is None] == [decision.plan.fold.text]
    assert decision.folded is not None and decision.folded.told >= 1


async def test_put_off_while_they_are_missing(tmp_path: Path) -> None:
    decision, put_off, pressed = await told(tmp_path, Book({}, False), must_shrink=False)
    assert put_off is pressed.folded and decision.plan.fold is None and decision.tokens > pressed.tokens


async def test_told_by_the_rules_where_it_must_shrink(tmp_path: Path) -> None:
    decision, put_off, pressed = await told(tmp_path, Book({}, False), must_shrink=True)
    assert decision is pressed and put_off is None
