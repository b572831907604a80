"""A second, different way to label runs: what an action copies word for word, six tokens at a stretch.

It knows nothing of ids, paths or identifiers, so a selector that keeps what looks like those gains nothing by it.
What the agent wrote first itself is no copy of anything.
"""

from __future__ import annotations

import re

from proxy.evaluation.recorded.runs import Fact, Run, Step

LENGTH = 6
MAX_SOURCES = 3
MAX_FACTS = 12
_TOKEN = re.compile(r"\w+|[^\w\s]")
_TELLING = re.compile(r"[A-Za-z_]\w{3,}|\d{4,}")


def copied_runs(run: Run) -> list[Step]:
    """For each assistant turn what it copies from few earlier items, none of them pinned or in the last exchange."""
    seen: dict[tuple[str, ...], list[int]] = {}
    decisive = {step.index: step.is_decisive for step in run.steps}
    steps: list[Step] = []
    for item in run.items:
        spans = [(m.group(), m.start(), m.end()) for m in _TOKEN.finditer(_plain(item.text))]
        grams = [tuple(word for word, _, _ in spans[at : at + LENGTH]) for at in range(len(spans) - LENGTH + 1)]
        if item.kind == "assistant" and item.index > 1:
            facts = _facts(run, item.index, spans, grams, seen)
            if facts:
                steps.append(Step(item.index, decisive.get(item.index, False), tuple(facts)))
        for gram in set(grams):
            held = seen.setdefault(gram, [])
            if len(held) <= MAX_SOURCES:
                held.append(item.index)
    return steps


def _facts(
    run: Run, index: int, spans: list[tuple[str, int, int]], grams: list[tuple[str, ...]],
    seen: dict[tuple[str, ...], list[int]],
) -> list[Fact]:  # fmt: skip
    facts: list[Fact] = []
    newest = run.items[index - 1].call
    text = _plain(run.items[index].text)
    at = 0
    while at < len(grams) and len(facts) < MAX_FACTS:
        sources = seen.get(grams[at], [])
        atom = text[spans[at][1] : spans[at + LENGTH - 1][2]]
        is_known = 0 < len(sources) <= MAX_SOURCES and len(set(_TELLING.findall(atom))) >= 2 and "\n" not in atom
        if is_known and all(run.items[s].call < newest and not run.items[s].is_pinned for s in sources):
            literal = tuple(s for s in sources if atom in _plain(run.items[s].text))
            # What the agent said first itself, it need not find again: it is its way of writing.
            if literal and run.items[sources[0]].kind != "assistant":
                facts.append(Fact(atom, literal, "copy"))
                at += LENGTH
                continue
        at += 1
    return facts


def _plain(text: str) -> str:
    """Escapes of JSON arguments as the characters they stand for."""
    return text.replace("\\n", "\n").replace('\\"', '"').replace("\\t", "\t") if "\\" in text else text
