"""What an estimate says: one sentence, a line a transcript, and the same in JSON."""

from __future__ import annotations

import json

from proxy.core.model import Usage
from proxy.evaluation.estimate.replay import Call, Estimate, Left
from proxy.evaluation.estimate.report import as_json, headline, text


def made(through: float | None = 0.2, **more: object) -> Estimate:
    call = Call(
        Usage(300_000, 5, cached=1000), Usage(90_000, 5, cached=80_000), None if through is None else 0.8, through, True
    )
    return Estimate("talk.jsonl", "gpt-5", 400_000, 272_000, calls=[call], **more)  # type: ignore[arg-type]


def test_the_headline() -> None:
    assert headline([made()]) == "1 transcript with 1 calls cost $0.80; with undercliff $0.20, 75% less."
    assert "changed nothing" in headline([made(0.8)])
    assert "no price is known for gpt-5" in headline([made(None)])


def test_the_table_and_what_was_left_out() -> None:
    shown = text([made(left=[Left("abc", "stub", 9000, 7, "old\x1b[31m")], skipped=2)])
    assert "passed at call 1" in shown and "9,000 tokens, stub from call 7" in shown and "2 lines" in shown
    assert "\x1b" not in shown and all(len(line) <= 250 for line in shown.splitlines())
    assert "too large for gpt-5 at call 1" in text([Estimate("t", "gpt-5", 100, 0, calls=made().calls)])


def test_json_has_every_figure() -> None:
    found = json.loads(json.dumps(as_json([made(), made(None)])))
    assert found["total"] == {"transcripts": 2, "calls": 2, "direct_cost": 0.8, "cost": 0.2, "share": 0.25}
    assert found["transcripts"][0]["calls"][0]["direct_input"] == 300_000 and found["transcripts"][0]["crossed_at"] == 1
