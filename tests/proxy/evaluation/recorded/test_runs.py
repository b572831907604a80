"""Messages as candidates: groups, calls, pins, and the budgets of a run."""

from __future__ import annotations

from pathlib import Path

from proxy.evaluation.recorded.runs import load_run, run_of
from proxy.tokenizer import Tokenizer
from tests.proxy.evaluation.recorded.made import messages, run


def test_messages_become_candidates() -> None:
    made = run_of("x", messages(), Tokenizer())
    assert [c.kind for c in made.items[:4]] == ["system", "user", "assistant", "tool_result"]
    assert [c.is_pinned for c in made.items[:4]] == [True, True, False, False]
    assert made.items[2].group == made.items[3].group and made.items[3].tool == "read_file"
    assert "table_00.py" in made.items[3].source and made.tokens == sum(c.tokens for c in made.items)


def test_budgets_and_prefixes() -> None:
    made = run()
    assert made.budget(1) == made.tokens and made.budget(0) == made.pinned < made.budget(0.5) < made.tokens
    step = made.calls()[3]
    prefix = made.prefix(step)
    assert len(prefix) == step and not prefix[-1].is_seen and prefix[1].is_seen


def test_without_labels_beside_it_there_is_no_reference(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("")
    assert load_run(tmp_path / "x.jsonl", Tokenizer()) is None
