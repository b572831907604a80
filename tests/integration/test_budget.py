"""The budget is a promise: by the provider's own count no window is over it, whatever the texts are made of."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support import builders, replies
from tests.support.provider_count import provider_count
from tests.support.serve import served
from tests.support.session import post
from tests.support.upstream import Action, Request, ScriptedUpstream

BUDGET = 12_000
STEPS = 42


def bills(request: Request) -> Action:
    return replies.json_reply(replies.completion("noted", prompt=provider_count(request.json()["messages"])))


def output(step: int) -> str:
    """Texts of which tokens are hard to guess: hashes, other scripts, plain code."""
    if step % 3 == 0:
        return "\n".join(f"{hashlib.sha256(f'{step} {n}'.encode()).hexdigest()} blob_{n}.bin" for n in range(14))
    if step % 3 == 1:
        return "\n".join(f"港の潮位計 {step}-{n} は {n * 37 % 101} センチ、状態は良好です" for n in range(24))
    return "\n".join(f"def quay_{step}_{n}(ship): return ship + {n}" for n in range(60))


def common(one: list[Any], other: list[Any]) -> int:
    """How many messages two lists begin with alike."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


@pytest.mark.parametrize(("policy", "reuse"), [("selector", 0.7), ("greedy", 0.0)])
def test_no_window_is_over_the_budget(tmp_path: Path, policy: str, reuse: float) -> None:
    messages: list[dict[str, Any]] = [builders.system("You move harbours."), builders.user("Move the harbour.")]
    models = {"*": {"window": 128_000, "cliff": BUDGET}}
    with (
        ScriptedUpstream(bills) as up,
        served(up.base_url, db=tmp_path / "x.db", models=models, policy__name=policy) as proxy,
    ):
        for step in range(1, STEPS + 1):
            call = builders.call(f"call_{step:03}aZ9q{step:03}", "bash", command=f"cat src/part_{step % 11}.py")
            messages += [builders.assistant(None, calls=[call]), builders.result(call["id"], output(step))]
            assert post(proxy, messages, tools=False).status_code == 200
    lists = [request.json()["messages"] for request in up.requests]
    counts = [provider_count(window) for window in lists]
    same = total = 0
    for before, after in pairwise(lists):
        total += provider_count(before)
        same += provider_count(before[: common(before, after)])
    rewritten = sum(counts) - same
    print(
        f"{policy}: largest of {len(counts)} windows {max(counts):,} of {BUDGET:,}, prefix reuse {same / total:.2f}, "
        f"input {sum(counts):,} tokens, of which {rewritten:,} uncached"
    )
    assert provider_count(messages) > 1.7 * BUDGET
    assert max(counts) <= BUDGET
    assert same / total >= reuse
