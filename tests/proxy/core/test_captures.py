"""Recorded requests of real clients, alone and all mixed in one tenant. Skips where the recordings are not."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import pytest

from proxy.core.branches import LastOutcome, Placement
from proxy.core.model import Conversation, Element
from proxy.wire.chat import ChatFormat
from proxy.wire.responses import ResponsesFormat
from tests.support.talks import Desk

CAPTURES = Path(__file__).resolve().parents[3] / ".." / "shared" / "data" / "captures"
pytestmark = pytest.mark.skipif(not CAPTURES.is_dir(), reason="the recordings are not here")

CHAT, RESPONSES = ChatFormat(), ResponsesFormat()


@dataclass(frozen=True)
class Recorded:
    run: str
    number: int
    started: float
    truth: str
    conversation: Conversation
    reply: tuple[Element, ...]
    response_id: str
    outcome: LastOutcome


def read_run(run: str) -> list[Recorded]:
    found = []
    for path in sorted((CAPTURES / run).glob("*.json")):
        record = json.loads(path.read_text())
        if record["method"] == "POST" and isinstance(record["body"], dict):
            found.append(_read(run, record))
    return found


def _read(run: str, record: dict[str, Any]) -> Recorded:
    headers = {name.lower(): value for name, value in record["headers"]}
    wire = RESPONSES if record["path"].endswith("/responses") else CHAT
    answer = record["fake_response"]
    raws = [answer["message"]] if "message" in answer else answer.get("output", [])
    return Recorded(
        run,
        record["n"],
        record["t"],
        headers.get("x-test-truth", ""),
        wire.decode(json.dumps(record["body"]).encode(), headers),
        tuple(wire.read_element(json.dumps(raw).encode()) for raw in raws),
        answer.get("id", ""),
        "ok" if raws else "failed",
    )


def send(desk: Desk, recorded: Recorded) -> Placement:
    placement = desk.ask(recorded.conversation)
    end(desk, placement, recorded)
    return placement


def end(desk: Desk, placement: Placement, recorded: Recorded) -> None:
    desk.end(placement, recorded.reply, outcome=recorded.outcome, response_id=recorded.response_id)


RUNS = sorted(path.name for path in CAPTURES.iterdir() if path.is_dir()) if CAPTURES.is_dir() else []

CODES = {
    "new": "n", "continue": "c", "retry": "r", "side": "s", "subagent": "u",
    "epoch": "e", "fork": "f", "regenerate": "g", "twin": "t",
}  # fmt: skip
TWO_OF_FOUR = "na ca ca ca nb cb cb cb"
TWO_OF_THREE = "na ca ca nb cb cb"
TITLED = "sa nb( cb| rb)*"  # a title call first, then one conversation
EXPECTED = {
    "agents-sdk-unknown-tool": "na ca",
    "aider": "na sb ca ca",
    "codex-compaction": "na ca ca sb ec cc cc cc sd" + " ee" + " ce" * 9,
    "codex-fault-(429|500|503|cut)": "na ca ra ca",
    "crewai|llamaindex|llamaindex-unknown-tool": TWO_OF_FOUR,
    "reasoning-crewai|reasoning-llamaindex": TWO_OF_THREE,
    "langchain-summ": "na ca ca sb ca sc ca ca sd ca ca se ca sf ca sg ca ca",
    "openai-node": "na ca ca ca nb cb",
    "openai-python-chat": "na" + " ca" * 7 + " nb cb cb cb",
    "openai-python-collide": "na tb tc cc cb ca cb cc ca gd fe ce ce nf cf cf ca ca ca",
    "openai-python-fault-.*": "na ca ra ca ca ca ca nb cb cb",
    "openai-python-responses": "na ca ca ca ca fb nc cc cc cc",
    "opencode-fault-ctx": "sa nb cb cb sc ed cd cd cd",
    "opencode-fault-(429|500|cut)": "sa nb cb rb cb",
    "opencode-subagent": "sa nb uc ud cc cd cc cd cb cb",
    "(reasoning-)?opencode.*": TITLED,
    "smolagents-unknown-tool": "na nb cb cb sc cb cb cb sd se cb cb cb sf cb cb cb sg",
    ".*": "na( ca)*",
}


def outline(desk: Desk, run: str) -> tuple[str, list[Placement]]:
    names: dict[str, str] = {}
    placed = [send(desk, recorded) for recorded in read_run(run)]
    codes = [CODES[p.verdict] + names.setdefault(p.branch, ascii_lowercase[len(names)]) for p in placed]
    return " ".join(codes), placed


@pytest.mark.parametrize("run", RUNS)
def test_each_run_alone_falls_into_the_conversations_a_person_sees(run: str) -> None:
    found, placed = outline(Desk(), run)
    pattern = next(pattern for name, pattern in EXPECTED.items() if re.fullmatch(name, run))
    print(f"{run:32s} {found}")
    assert re.fullmatch(pattern, found)
    by_branch = {p.branch: p for p in placed}
    for p in placed:
        if p.verdict in ("side", "subagent", "epoch", "fork", "regenerate", "twin") and p.parent:
            assert by_branch[p.parent].conversation == p.conversation


def test_compactions_count_epochs_and_link_to_the_leaf_before() -> None:
    _, placed = outline(Desk(), "codex-compaction")
    epochs = [p for p in placed if p.verdict == "epoch"]
    assert [p.epoch for p in epochs] == [1, 2]
    assert epochs[0].parent == placed[0].branch and epochs[1].parent == epochs[0].branch
    assert len({p.conversation for p in placed}) == 1


def test_summaries_that_keep_recent_items_are_linked() -> None:
    _, placed = outline(Desk(), "langchain-summ")
    sides = [p.branch for p in placed if p.verdict == "side"]
    assert [p.summary_of for p in placed if p.summary_of] == sides


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("mode", ["answered", "in_flight", "restarted"])
def test_all_runs_mixed_in_one_tenant_stay_apart(seed: int, mode: str) -> None:
    desk, chooser = Desk(), random.Random(seed)
    queues = {run: read_run(run) for run in RUNS}
    alone = {run: partition(outline(Desk(), run)[1]) for run in RUNS}
    placed: dict[str, list[Placement]] = defaultdict(list)
    open_replies: dict[str, tuple[Placement, Recorded]] = {}
    while queues:
        run = chooser.choice(sorted(queues))
        recorded = queues[run].pop(0)
        if mode == "in_flight" and run in open_replies:
            end(desk, *open_replies.pop(run))
        if mode == "restarted" and chooser.random() < 0.05:
            desk.restart()
        placement = desk.ask(recorded.conversation)
        placed[run].append(placement)
        if mode == "in_flight" and not recorded.truth:
            open_replies[run] = (placement, recorded)
        else:
            end(desk, placement, recorded)
        if not queues[run]:
            del queues[run]
    owners: dict[str, set[str]] = defaultdict(set)
    for run, placements in placed.items():
        for placement in placements:
            owners[placement.branch].add(run)
    mixed = [sorted(runs) for runs in owners.values() if len(runs) > 1]
    split = [run for run in RUNS if partition(placed[run]) != alone[run]]
    print(
        f"{mode} {seed}: {sum(map(len, placed.values()))} requests, {len(owners)} branches, mixed {mixed}, "
        f"split otherwise than alone {split}, items sent {desk.items_sent}, stored {len(desk.items)}"
    )
    assert not mixed
    assert not split
    assert len(desk.items) < desk.items_sent / 4


def partition(placed: list[Placement]) -> list[int]:
    """Which requests share a branch, by the first request of each."""
    first: dict[str, int] = {}
    return [first.setdefault(p.branch, i) for i, p in enumerate(placed)]
