"""What each recorded action needed of what came before: derived from the messages alone, the same in every process.

An action's atoms are values of its call's arguments and what looks like a path, an id, a name, money or a quotation;
of its words only the former of these. An atom that few earlier items hold is a need: one of them must be in the window.
What is new, in the system prompt or in the last exchange, said too often, or the agent's own coinage is none. A write
needs the newest result about its object whole as well.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from policies.kinds import kind_of_call
from policies.model import Candidate
from proxy.core.grouping import key_argument
from proxy.evaluation.recorded.runs import Fact, Run, Step

MAX_SOURCES = 3
NEAR_MESSAGES = 6
MID_SHARE = 0.25
COMMON_RUNS = 3
SHORT = 12
"""Atoms shorter than that must stand as words of their own."""

_BLOCK = re.compile(r"```(?:\w+)?\n(.*?)```", re.DOTALL)
_STRONG = re.compile(
    r"https?://[^\s\"'<>)]+"
    r"|[\w.+-]+@[\w-]+\.[\w.]+"
    r"|(?:[\w.-]+/)+[\w.-]+"
    r"|\b[\w-]+\.(?:py|js|ts|tsx|jsx|go|rs|c|h|cpp|java|rb|md|txt|toml|ya?ml|json|cfg|ini|sh|sql|csv|html|css|rst)\b"
    r"|[$€£]\s?\d[\d,.]*\d"
    r"|\b\d{4}-\d\d-\d\d\b"
    r"|#?\b[A-Za-z]*\d{5,}\b"
    r"|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b"
)
_NAMES = re.compile(
    r"\b[A-Za-z]\w*(?:\.[A-Za-z_]\w*)+\b|\b[a-z0-9]+(?:_[a-z0-9]+)+\b|\b[a-z]+[A-Z]\w+\b|\b[A-Z][a-z]+[A-Z]\w+\b"
)
_QUOTED = re.compile(r"'([^'\n]{6,80})'|\"([^\"\n]{6,80})\"")
_WRITES = re.compile(
    r"edit|write|replace|insert|patch|create|apply|book|cancel|update|modify|exchange|return|submit|refund|send|set_|add_|delete"
)


def derive(run: Run, messages: Sequence[Mapping[str, Any]], common: frozenset[str] = frozenset()) -> Run:
    """The run with its steps. `messages` are those that it was made from; `common` atoms are nobody's facts."""
    holders = _Holders(run.items)
    steps = []
    last = max((c.index for c in run.items if c.kind == "assistant"), default=-1)
    for item in run.items:
        if item.kind != "assistant" or item.index < 2:
            continue
        calls = _calls(messages[item.index])
        is_write = any(_is_write(name, arguments) for name, arguments in calls)
        facts = (*_facts(run, item, calls, holders, common), *(_states(run, item, calls) if is_write else ()))
        if facts:
            steps.append(Step(item.index, is_write or item.index == last, facts))
    return replace(run, steps=tuple(steps))


def _calls(message: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(tool, arguments) of an action; a code block in its text is a command of agents without tools."""
    found = [(str(c["function"]["name"]), str(c["function"]["arguments"])) for c in message.get("tool_calls") or ()]
    content = message.get("content")
    return found or [("bash", block) for block in _BLOCK.findall(content if isinstance(content, str) else "")]


def _is_write(name: str, arguments: str) -> bool:
    kind = kind_of_call(name, key_argument(arguments) if arguments.startswith("{") else arguments)
    return kind == "edit" or (kind == "api" and _WRITES.search(name.lower()) is not None)


# -- facts -------------------------------------------------------------------------------------------


def _facts(
    run: Run, item: Candidate, calls: Sequence[tuple[str, str]], holders: _Holders, common: frozenset[str]
) -> list[Fact]:
    kept: dict[str, tuple[int, ...]] = {}
    newest = run.items[item.index - 1].call
    for atom, is_strong in _atoms(item.text, calls):
        if atom in common:
            continue
        sources = holders.of(atom, item.index, MAX_SOURCES)
        if not sources or len(sources) > MAX_SOURCES:
            continue
        held = [run.items[index] for index in sources]
        if any(one.kind == "system" or one.call == newest for one in held):
            continue
        if held[0].kind == "assistant" and not is_strong:
            continue  # its own coinage
        kept[atom] = sources
    facts: list[Fact] = []
    for atom, sources in sorted(kept.items(), key=lambda pair: (-len(pair[0]), pair[0])):
        if not any(atom in fact.atom and set(sources) == set(fact.sources) for fact in facts):
            facts.append(Fact(atom, sources, _band(run, item.index, sources)))
    return sorted(facts, key=lambda fact: (fact.sources, fact.atom))


def common_atoms(runs: Sequence[Sequence[Mapping[str, Any]]]) -> frozenset[str]:
    """What the actions of many runs say: the habits of a scaffold, not what a run found out. Ids are never that."""
    held: Counter[str] = Counter()
    for messages in runs:
        held.update(
            {
                atom
                for message in messages
                if message.get("role") == "assistant"
                for atom, _ in _atoms(str(message.get("content") or ""), _calls(message))
            }
        )
    return frozenset(atom for atom, count in held.items() if count >= COMMON_RUNS and not re.search(r"\d{5,}", atom))


def _atoms(text: str, calls: Sequence[tuple[str, str]]) -> Iterator[tuple[str, bool]]:
    """(atom, whether it counts even where the agent said it first), each once."""
    seen: set[str] = set()
    found: list[tuple[str, bool]] = []
    for _, arguments in calls:
        for value in _values(arguments):
            found += _of_value(value)
    if not calls:
        found += [(match, True) for match in _STRONG.findall(text)]
    for atom, is_strong in found:
        atom = atom.strip().strip(".,;:")
        if len(atom) >= 5 and atom not in seen:
            seen.add(atom)
            yield atom, is_strong


def _values(arguments: str) -> Iterator[str]:
    """The texts in a call's arguments; all of it where it is no JSON."""
    try:
        waiting: list[Any] = [json.loads(arguments)]
    except ValueError:
        yield arguments
        return
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += list(value.values())[::-1]
        elif isinstance(value, list):
            waiting += value[::-1]
        elif isinstance(value, str):
            yield value
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield str(value)


def _of_value(value: str) -> list[tuple[str, bool]]:
    found: list[tuple[str, bool]] = []
    if "\n" not in value and 5 <= len(value) <= 80:
        found.append((value, True))
    found += [(match, True) for match in _STRONG.findall(value)]
    found += [(match, False) for match in _NAMES.findall(value) if len(match) >= 6]
    found += [(one or other, False) for one, other in _QUOTED.findall(value)]
    if "\n" in value:
        found += [(line.strip(), False) for line in value.splitlines() if 24 <= len(line.strip()) <= 200]
    return found


def _band(run: Run, step: int, sources: Sequence[int]) -> str:
    latest = max(sources)
    if all(run.items[source].is_pinned for source in sources):
        return "task"
    if step - latest <= NEAR_MESSAGES:
        return "near"
    back = sum(item.tokens for item in run.items[latest:step])
    return "mid" if back <= MID_SHARE * sum(item.tokens for item in run.items[:step]) else "far"


class _Holders:
    """Which items hold a text. A word of it leads there: only items with its rarest word are searched."""

    def __init__(self, items: Sequence[Candidate]) -> None:
        self._items = items
        self._texts = [plain(item.text) for item in items]
        self._by_word: dict[str, list[int]] = defaultdict(list)
        for index, text in enumerate(self._texts):
            for word in sorted(set(re.findall(r"\w+", text))):
                self._by_word[word].append(index)

    def of(self, atom: str, before: int, most: int) -> tuple[int, ...]:
        """Items before that one, in order; one more than `most` for more than that."""
        words = re.findall(r"\w+", atom)
        # The first and last word may be parts of longer ones; the ones between must stand there as they are.
        inner = words[1:-1] if len(words) > 2 else words if len(atom) < SHORT else []
        candidates: Sequence[int] = range(before)
        if inner:
            candidates = min((self._by_word.get(word, ()) for word in inner), key=len)
        found: list[int] = []
        for index in candidates:
            if index >= before or len(found) > most:
                break
            if _stands(atom, self._texts[index]):
                found.append(index)
        return tuple(found)


def _stands(atom: str, text: str) -> bool:
    if atom not in text:
        return False
    return len(atom) >= SHORT or re.search(rf"(?<!\w){re.escape(atom)}(?!\w)", text) is not None


def plain(text: str) -> str:
    """Escapes of JSON arguments as the characters they stand for."""
    return text.replace("\\n", "\n").replace('\\"', '"').replace("\\t", "\t") if "\\" in text else text


# -- states ------------------------------------------------------------------------------------------


def _states(run: Run, item: Candidate, calls: Sequence[tuple[str, str]]) -> Iterator[Fact]:
    """The newest result about each object that is written, unless it is in the last exchange."""
    newest = run.items[item.index - 1].call
    for name in sorted({name for _, arguments in calls for name in objects(arguments)}):
        about = [c for c in run.items[: item.index] if c.kind == "tool_result" and name in objects(c.source)]
        if about and about[-1].call != newest:
            yield Fact(name, (about[-1].index,), _band(run, item.index, (about[-1].index,)), is_whole=True)


def objects(text: str) -> frozenset[str]:
    """File names and long ids that a call names."""
    names = [path.rpartition("/")[2] for path in re.findall(r"[\w./-]+\.\w{1,5}\b", text)]
    return frozenset(name for name in (*names, *re.findall(r"#?\b[A-Za-z]*\d{5,}\b", text)) if len(name) >= 5)
