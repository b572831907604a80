"""Recorded runs: their messages as candidates, their steps, and their budgets. Reference labels, if any."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from policies.model import NOT_OFFERED, Candidate, Kind
from proxy.core.grouping import key_argument
from proxy.tokenizer import Tokenizer

OVERHEAD = 4


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that an action used: `atom` in any of `sources`; a state need wants the item whole."""

    atom: str
    sources: tuple[int, ...]
    band: str
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    index: int
    is_decisive: bool
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """A recorded run; `tokens` and `pinned` are those that its budgets are made of."""

    name: str
    items: tuple[Candidate, ...]
    steps: tuple[Step, ...]
    tokens: int
    pinned: int
    is_concatenated: bool
    family: str

    def budget(self, share: float) -> int:
        return int(self.pinned + share * (self.tokens - self.pinned))

    def calls(self) -> list[int]:
        """Indices of the assistant turns that are asked for: the prefix before each is one request."""
        return [c.index for c in self.items if c.kind == "assistant" and c.index > 1]

    def prefix(self, step: int) -> tuple[Candidate, ...]:
        """The request before message `step`: all but the last exchange has been seen."""
        items = self.items[:step]
        newest = items[-1].call if items else 0
        at = len(items)
        while at and items[at - 1].call >= newest:
            at -= 1
        return (*items[:at], *(replace(c, is_seen=False) for c in items[at:]))


def run_of(name: str, messages: Sequence[Mapping[str, Any]], tokenizer: Tokenizer, family: str = "") -> Run:
    """A run without steps: `labels.derive` finds them."""
    items = tuple(_candidates(messages, tokenizer))
    pinned = sum(item.tokens for item in items if item.is_pinned)
    return Run(name, items, (), sum(item.tokens for item in items), pinned, False, family or name.split("-")[0])


def load_run(path: Path, tokenizer: Tokenizer) -> Run | None:
    """A run with the reference labels beside it; None without labels."""
    labels = path.parent / "labels" / f"{path.stem}.needs.json"
    if not labels.exists():
        return None
    meta = json.loads(path.with_suffix("").with_suffix(".meta.json").read_text(encoding="utf-8"))
    messages = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    known = json.loads(labels.read_text(encoding="utf-8"))
    run = run_of(path.stem, messages, tokenizer, meta["family"])
    steps = tuple(_step(step) for step in known["steps"])
    return replace(run, steps=steps, is_concatenated=bool(meta.get("concatenated")))


def _step(step: dict[str, Any]) -> Step:
    facts = tuple(
        Fact(str(need["atom"]), tuple(need["sources"]), need["band"], need["kind"] == "state") for need in step["needs"]
    )
    return Step(step["step"], step["decisive"], facts)


def _candidates(messages: Sequence[Mapping[str, Any]], tokenizer: Tokenizer) -> list[Candidate]:
    made: list[Candidate] = []
    names: dict[str, tuple[str, str]] = {}
    call = 0
    group = -1
    has_user = False
    for index, message in enumerate(messages):
        role = message["role"]
        text = _text(message.get("content"))
        kind: Kind = "tool_result" if role == "tool" else "system" if role in ("system", "developer") else role
        tool = source = ""
        if kind == "assistant":
            call += 1
            calls = [c["function"] for c in message.get("tool_calls") or []]
            for entry in message.get("tool_calls") or []:
                names[entry["id"]] = (entry["function"]["name"], key_argument(entry["function"]["arguments"]))
            text = "\n".join(part for part in [text, *(f"{c['name']}({c['arguments']})" for c in calls)] if part)
        if kind == "tool_result":
            tool, source = names.get(message.get("tool_call_id", ""), ("", ""))
        else:
            group += 1
        is_first_user = kind == "user" and not has_user
        has_user = has_user or kind == "user"
        tokens = tokenizer.count(text) + OVERHEAD
        made.append(
            Candidate(
                id=f"m{index:04d}", index=index, group=group, call=call, kind=kind,
                costs=(0, 0, NOT_OFFERED, NOT_OFFERED, NOT_OFFERED, tokens),
                is_pinned=kind == "system" or is_first_user, is_seen=True, tool=tool, source=source,
                size_chars=len(text), text=text,
            )
        )  # fmt: skip
    return made


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return ""
