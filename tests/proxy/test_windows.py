"""Measure, decide, render: costs are counted once, stubs offered where shorter, bytes kept where nothing changed."""

from __future__ import annotations

from pathlib import Path

from policies.model import Budget, Form, Pressure
from proxy.core.identity import item_ids
from proxy.core.pricing import ModelFacts
from proxy.turn import whole
from proxy.windows import Limits, Prior
from proxy.wire.base import FrameEdits
from proxy.wire.chat import ChatFormat
from tests.support import builders
from tests.support.session import FOLDED, OMITTED
from tests.support.turns import bench

MESSAGES = [builders.system(), builders.user("read"), *builders.steps(4, 2000), *builders.step(9, "short")]
TALK = [
    message
    for number in range(8)
    for message in (builders.assistant("noted"), builders.user(builders.long_text(number, 900)))
]
LIMITS = Limits(Budget(10_000), ModelFacts(10_000).ratios)


async def test_measure_decide_and_render(tmp_path: Path) -> None:
    builder, fmt = bench(tmp_path).builder, ChatFormat()
    body = builders.body_bytes(builders.request([*MESSAGES, *TALK, builders.assistant("noted"), builders.user("so?")]))
    conversation = fmt.decode(body, {})
    ids = item_ids("c", conversation.elements)
    measured = await builder.measure(conversation, "c", ids)
    assert measured.tokens == sum(fact.tokens for fact in measured.facts)
    assert (await builder.measure(conversation, "c", ids)).facts == measured.facts
    assert (await builder.measure(conversation, "c", ids, Prior(measured))).facts is measured.facts
    assert measured.new_tokens(ids[1:]) == measured.facts[0].tokens
    offered = [bool(fact.stub_texts) for fact in measured.facts]
    assert offered == [False, False, *[False, True] * 4, False, False, *[False] * 18]
    same = builder.render(fmt, conversation, measured, whole(measured), FrameEdits())
    assert same.body == body and not same.is_rewritten and not same.bodies

    decision = builder.decide(conversation, measured, whole(measured).plan, set(ids), LIMITS, memory={})
    assert decision.tokens < measured.tokens and not decision.is_new_fold
    masked = builder.render(fmt, conversation, measured, decision, FrameEdits())
    assert masked.body.count(OMITTED) == 4 and len(masked.bodies) == 4
    again = builder.decide(conversation, measured, decision.plan, set(ids), LIMITS, memory={})
    assert again.plan == decision.plan and not again.reason

    pressed = builder.decide(
        conversation, measured, decision.plan, set(ids), LIMITS, pressure=Pressure("guard", 800), memory={}
    )
    assert pressed.is_new_fold and pressed.plan.fold is not None
    folded = builder.render(fmt, conversation, measured, pressed, FrameEdits())
    assert FOLDED in folded.body
    assert [entry.form for entry in folded.entries].count(int(Form.FOLDED)) == 1
