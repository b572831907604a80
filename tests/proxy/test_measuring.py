"""Offers become costs, a chosen excerpt stands in the plan from then on, and kept segments are written out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policies.model import NOT_OFFERED, Budget, Choice, Form, Selection, Situation
from proxy.core.identity import item_ids
from proxy.core.model import Conversation
from proxy.core.offers import Listed, Note, Offer
from proxy.core.pricing import ModelFacts
from proxy.core.window import EMPTY, Plan
from proxy.measuring import READ_CHARS
from proxy.tokenizer import Tokenizer
from proxy.windows import Decision, Limits, WindowBuilder, WindowOptions
from proxy.wire.base import FrameEdits
from proxy.wire.chat import ChatFormat
from tests.support import builders

LIMITS = Limits(Budget(10_000), ModelFacts(10_000).ratios)
MESSAGES = [builders.system(), builders.user("read"), *builders.steps(3, 2000), builders.assistant("noted")]


class FirstLines:
    """Offers the beginning of a result, and says that the result before it is stale."""

    def __init__(self) -> None:
        self.results: list[str] = []

    def read(self, item: Listed) -> Note | None:
        if not item.element.texts:
            return None
        stale = tuple(self.results[-1:])
        self.results.append(item.id)
        short = item.element.texts[0][:900]
        return Note(Offer("lines", (short,), bases=("base",)), cites=stale, stale=stale)


class Chosen:
    """A policy that gives some results a form and segments to keep."""

    name = "chosen"

    def __init__(self, form: Form, keep: tuple[int, ...] = ()) -> None:
        self.form, self.keep = form, keep
        self.asked: Situation | None = None

    def select(self, situation: Situation) -> Selection:
        self.asked = situation
        chosen = (2, 3) if self.form <= Form.FOLDED else (3,)
        choices = tuple(
            Choice(c.id, self.form, "chosen", keep=self.keep) if c.index in chosen else Choice(c.id, Form.FULL, "")
            for c in situation.candidates
        )
        return Selection(choices, "chosen")


def written(text: str, keep: tuple[int, ...], **about: Any) -> str:
    return f"[#{about['id']} {about['tool']} {keep}]"


def builder_of(policy: Chosen, makers: bool = True) -> WindowBuilder:
    return WindowBuilder(
        policy, Tokenizer(), WindowOptions(), makers=[FirstLines] if makers else [], render_keep=written
    )


def talk() -> tuple[Conversation, list[str]]:
    conversation = ChatFormat().decode(builders.body_bytes(builders.request(MESSAGES)), {})
    return conversation, item_ids("c", conversation.elements)


async def decided(policy: Chosen, plan: Plan = EMPTY, *, makers: bool = True) -> tuple[Decision, bytes]:
    builder = builder_of(policy, makers)
    conversation, ids = talk()
    measured = await builder.measure(conversation, "c", ids)
    memory: Mapping[str, float] = {}
    decision = builder.decide(conversation, measured, plan, set(ids), LIMITS, memory=memory)
    rendered = builder.render(ChatFormat(), conversation, measured, decision, FrameEdits())
    return decision, rendered.body


async def test_offers_become_costs_of_candidates() -> None:
    policy = Chosen(Form.FULL)
    await decided(policy)
    assert policy.asked is not None
    results = [c for c in policy.asked.candidates if c.kind == "tool_result"]
    others = [c for c in policy.asked.candidates if c.kind != "tool_result"]
    assert all(0 < c.costs[Form.EXCERPT] < c.tokens and c.excerpt == "lines" and c.bases == ("base",) for c in results)
    assert all(c.costs[Form.EXCERPT] == NOT_OFFERED and not c.excerpt for c in others)
    assert [c.is_stale for c in results] == [True, True, False]
    assert [c.cites for c in results] == [(), (results[0].id,), (results[1].id,)]


async def test_a_chosen_excerpt_stays_though_it_is_offered_no_more() -> None:
    decision, body = await decided(Chosen(Form.EXCERPT))
    (mask,) = decision.plan.masks.values()
    assert (mask.form, mask.kind, mask.bases) == (Form.EXCERPT, "lines", ("base",))
    assert len(mask.texts) == 1 and str(mask.texts[0]).encode()[:20] in body
    policy = Chosen(Form.EXCERPT)
    again, same = await decided(policy, decision.plan, makers=False)
    assert again.plan == decision.plan and same == body and again.tokens == decision.tokens
    assert policy.asked is not None
    held = policy.asked.candidates[3]
    assert (held.costs[Form.EXCERPT], held.excerpt, held.bases) == (held.tokens - _saved(decision), "lines", ("base",))


def _saved(decision: Decision) -> int:
    conversation, _ = talk()
    (mask,) = decision.plan.masks.values()
    count = Tokenizer().count
    return count(conversation.elements[3].texts[0]) - count(mask.texts[0] or "")


async def test_kept_segments_select_what_an_excerpt_holds() -> None:
    decision, body = await decided(Chosen(Form.EXCERPT, (0, 2)))
    (item, mask), *_ = decision.plan.masks.items()
    assert mask.keep == (0, 2) and f"[#{item} ".encode() in body
    policy = Chosen(Form.EXCERPT)
    again, same = await decided(policy, decision.plan)
    assert again.plan == decision.plan and same == body
    assert policy.asked is not None and policy.asked.kept == {item: (0, 2)}
    other, _ = await decided(Chosen(Form.EXCERPT, (1,)), decision.plan)
    assert other.plan.masks[item].keep == (1,)


async def test_kept_segments_of_folded_items_stand_below_the_digest() -> None:
    decision, body = await decided(Chosen(Form.FOLDED, (1,)))
    fold = decision.plan.fold
    assert fold is not None and set(fold.keeps) == set(fold.covers)
    assert all(f"[#{item} ".encode() in body for item in fold.covers)
    assert decision.plan.kept() == dict(fold.keeps)
    again, same = await decided(Chosen(Form.FOLDED), decision.plan)
    assert again.plan.fold is not None and not again.is_new_fold and same == body


async def test_an_enormous_text_is_not_read_for_excerpts_but_has_its_stub() -> None:
    messages = [builders.user("go"), *builders.step(0, "row\n" * (READ_CHARS // 4 + 1)), *builders.step(1, "r " * 999)]
    conversation = ChatFormat().decode(builders.body_bytes(builders.request(messages)), {})
    ids = item_ids("c", conversation.elements)
    measured = await builder_of(Chosen(Form.FULL)).measure(conversation, "c", ids)
    enormous, usual = [fact for fact in measured.facts if fact.size_chars]
    assert enormous.excerpt == "" and 0 < enormous.stub_tokens < enormous.tokens
    assert usual.excerpt == "lines"
