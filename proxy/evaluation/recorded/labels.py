"""Which earlier facts each action used, derived from the messages alone: deterministic, and no model is asked.

An atom of an action is a need when an earlier item holds it that a window could have lost. Dropped are those that are
new, in the system prompt or in the last exchange, used in three unrelated task groups, in more than three items,
coined by the agent itself, or part of a longer need with the same sources. Writes also need the newest result about
what they write, whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from proxy.evaluation.recorded.atoms import EXEMPT, OWN, Atoms, atoms_of, values
from proxy.evaluation.recorded.runs import Fact, Run, Step

MAX_SOURCES = 3
MAX_STATES = 3
GENERIC_GROUPS = 3
NEAR_MESSAGES = 6
MID_SHARE = 0.25
WORD_BOUNDED = 12
"""Atoms shorter than this must stand as words of their own."""

_WRITES = re.compile(
    r"(?:^|[\s;&|])(?:sed\s+(?:-\w+\s+)*-\w*i|tee\s|git\s+(?:apply|commit)|patch\s|(?:cp|mv|rm)\s)|<<|[^0-9&>]>{1,2}\s*[\w./~]"
    r"|COMPLETE_TASK|^\s*(?:edit|create|submit|insert|write|str_replace)\b|\.write\(",
    re.MULTILINE,
)
_WRITE_TOOL = re.compile(
    r"(?:^|_)(?:edit|write|create|insert|patch|update|modify|cancel|exchange|return|book|submit|send|delete|replace|"
    r"editor|apply|add|set|finish|transfer)(?:_|$)"
)
_NUMBERED = re.compile(r"^#?\w*\d{5,}$|^\d{4}-\d\d-\d\d$")
_READS = re.compile(r"^(?:view|read|cat|open)$")


def derive(run: Run, messages: Sequence[Mapping[str, Any]], common: frozenset[str] = frozenset()) -> Run:
    """The run with its steps. `messages` are those that it was made from; `common` atoms are nobody's facts."""
    book = _Book(run)
    last = max((c.index for c in run.items if c.kind == "assistant"), default=0)
    steps: list[Step] = []
    for item in run.items:
        if item.kind != "assistant" or item.index < 2:
            continue
        is_write = writes(messages[item.index])
        atoms = atoms_of(messages[item.index])
        facts = _facts(book, item.index, atoms, common)
        if is_write:
            facts = [*_states(book, item.index, atoms, common), *facts]
        if facts:
            steps.append(Step(item.index, is_write or item.index == last, tuple(facts)))
    return replace(run, steps=tuple(steps))


def common_atoms(runs: Iterable[tuple[str, Sequence[Mapping[str, Any]]]]) -> frozenset[str]:
    """Atoms that actions of three unrelated groups of (group, messages) use: habits, not facts of one run."""
    groups: dict[str, set[str]] = {}
    for group, messages in runs:
        for message in messages:
            if message.get("role") == "assistant":
                for atom, kind in atoms_of(message).items():
                    if kind not in EXEMPT:
                        groups.setdefault(atom, set()).add(group)
    return frozenset(atom for atom, used in groups.items() if len(used) >= GENERIC_GROUPS)


def group_of(name: str) -> str:
    """The task group of a run by its name: the repository that it works on, or the first word."""
    repository = re.search(r"-([a-z]+)__", name)
    return repository[1] if repository else name.split("-")[0]


def plain(text: str) -> str:
    """Escapes of JSON arguments as the characters they stand for."""
    return text.replace("\\n", "\n").replace('\\"', '"').replace("\\t", "\t") if "\\" in text else text


def writes(message: Mapping[str, Any]) -> bool:
    """Does the action change something: a file, an order, a submission?"""
    for call in message.get("tool_calls") or ():
        name = call["function"]["name"].lower()
        told = values(call["function"]["arguments"])
        if _WRITE_TOOL.search(name) and not any(_READS.match(value) for value in told):
            return True
        if any(_WRITES.search(value) for value in told):
            return True
    return False


def holds(text: str, atom: str) -> bool:
    """Does the text hold the atom, a short one as a word of its own?"""
    if atom not in text:
        return False
    return len(atom) >= WORD_BOUNDED or re.search(rf"(?<!\w){re.escape(atom)}(?!\w)", text) is not None


class _Book:
    """The run's texts, and who holds which atom: each atom is looked for once."""

    def __init__(self, run: Run) -> None:
        self.items = run.items
        self.texts = [plain(item.text) for item in run.items]
        self._held: dict[str, tuple[int, ...]] = {}
        self.sums = [0]
        for item in run.items:
            self.sums.append(self.sums[-1] + item.tokens)

    def sources(self, atom: str, before: int) -> tuple[int, ...]:
        if atom not in self._held:
            self._held[atom] = tuple(i for i, text in enumerate(self.texts) if holds(text, atom))
        return tuple(i for i in self._held[atom] if i < before)

    def is_newest(self, index: int, step: int) -> bool:
        """Is the item in the exchange just before the step, which every legal window has?"""
        return self.items[index].call == self.items[step - 1].call

    def newest_about(self, atom: str, step: int) -> int | None:
        """The newest result that tells of the object, or whose call names it."""
        for source in reversed(self.sources(atom, step)):
            if self.items[source].kind == "tool_result":
                return source
            if self.items[source].kind == "assistant" and source + 1 < step:
                after = self.items[source + 1]
                if after.kind == "tool_result":
                    return after.index
        return None

    def band(self, sources: Sequence[int], step: int) -> str:
        latest = max(sources)
        if all(self.items[source].is_pinned for source in sources):
            return "task"
        if step - latest <= NEAR_MESSAGES:
            return "near"
        return "mid" if self.sums[step] - self.sums[latest + 1] <= MID_SHARE * self.sums[step] else "far"


def _facts(book: _Book, step: int, atoms: Atoms, generic: frozenset[str]) -> list[Fact]:
    kept: list[tuple[str, tuple[int, ...]]] = []
    for atom, kind in atoms.items():
        if atom in generic and kind not in EXEMPT:
            continue
        sources = book.sources(atom, step)
        if not sources or book.items[sources[0]].kind == "system":
            continue
        if any(book.is_newest(source, step) for source in sources):
            continue
        if sum(not book.items[source].is_pinned for source in sources) > MAX_SOURCES:
            continue
        if book.items[sources[0]].kind == "assistant" and kind not in OWN:
            continue
        kept.append((atom, sources))
    return [
        Fact(atom, sources, book.band(sources, step))
        for atom, sources in kept
        if not any(atom in other and atom != other and sources == theirs for other, theirs in kept)
    ]


def _states(book: _Book, step: int, atoms: Atoms, generic: frozenset[str]) -> list[Fact]:
    """The newest result about each object of a write; one result is needed once, by the first of its names."""
    found: dict[int, str] = {}
    objects = (atom for atom, kind in atoms.items() if kind in ("path", "file", "id") or _NUMBERED.search(atom))
    for atom in sorted(set(objects) - generic):
        newest = book.newest_about(atom, step)
        if newest is not None and not book.is_newest(newest, step):
            found.setdefault(newest, atom)
    newest_first = sorted(found.items(), reverse=True)[:MAX_STATES]
    return [Fact(atom, (index,), book.band((index,), step), is_whole=True) for index, atom in newest_first]
