"""What each plain rule takes off recorded runs, and what forms cost: `python -m tests.bench.rules [FOLDER [GLOB]]`.

Shares are of all tokens of a run's last request, with every result's shorter form standing in for it.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path

import orjson

from proxy.core.delta import DeltaMaker
from proxy.core.digest import DigestItem, digest
from proxy.core.excerpts import ExcerptReader
from proxy.core.forms import stub
from proxy.core.grouping import pair_results
from proxy.core.links import LinkReader
from proxy.core.offers import Listed, Maker, Note
from proxy.core.staleness import StaleReader
from proxy.core.subtasks import SubtaskReader
from proxy.tokenizer import Tokenizer
from proxy.wire.chat import ChatFormat
from proxy.wire.values import parse_value

TRACES = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "traces"
MASKED_FROM = 500
MAKERS: dict[str, Callable[[], Maker]] = {
    "delta": DeltaMaker,
    "excerpt": lambda: ExcerptReader(parse_value),
    "stale": StaleReader,
    "subtasks": SubtaskReader,
    "links": LinkReader,
}


@dataclass(slots=True)
class Totals:
    """Tokens over all runs."""

    runs: int = 0
    items: int = 0
    chars: int = 0
    tokens: int = 0
    outputs: int = 0  # tokens of tool results
    saved: Counter[str] = field(default_factory=Counter)
    forms: Counter[str] = field(default_factory=Counter)
    offered: Counter[str] = field(default_factory=Counter)
    told: Counter[str] = field(default_factory=Counter)  # tokens of summaries by rules
    links: int = 0
    seconds: Counter[str] = field(default_factory=Counter)


class Run:
    """One recorded run, read by every rule on its own."""

    def __init__(self, path: Path, tokenizer: Tokenizer, totals: Totals) -> None:
        messages = [orjson.loads(line) for line in path.read_bytes().splitlines() if line.strip()]
        body = orjson.dumps({"model": "m", "messages": messages})
        elements = ChatFormat().decode(body, {}).elements
        sites = pair_results(elements)
        self.items = [
            Listed(f"i{index:011}", index, element, sites[index].call, sites[index].key_argument)
            if index in sites
            else Listed(f"i{index:011}", index, element)
            for index, element in enumerate(elements)
        ]
        self.count = tokenizer.count
        self.totals = totals
        totals.runs += 1
        totals.items += len(elements)
        totals.chars += sum(len(element.text) for element in elements)
        self.tokens = {item.id: self.count(item.element.text) for item in self.items}
        self.stubs = {item.id: self._stub(item) for item in self.items if item.element.kind == "tool_result"}
        totals.tokens += sum(self.tokens.values())
        totals.outputs += sum(self.tokens[id] for id in self.stubs)

    def _stub(self, item: Listed) -> int:
        text = item.element.text
        tool = item.call.name if item.call else ""
        if len(text) < MASKED_FROM:
            return self.tokens[item.id]
        made = stub(text, id=item.id, tool=tool, failed=item.element.is_failed, argument=item.argument)
        return min(self.tokens[item.id], self.count(made))

    def read(self) -> None:
        notes = {name: self._notes(name) for name in MAKERS}
        self._duplicates()
        self._offers("overlaps", notes["delta"])
        self._offers("excerpts", notes["excerpt"])
        self._reduced("stale reads", {id for note in notes["stale"].values() for id in note.stale})
        self._subtasks()
        self._told(notes["subtasks"])
        self._both(notes["delta"])
        self._forms(notes["excerpt"])
        self.totals.links += sum(len(note.cites) for note in notes["links"].values())

    def _notes(self, name: str) -> dict[str, Note]:
        maker = MAKERS[name]()
        started = time.process_time()
        found = {item.id: note for item in self.items if (note := maker.read(item)) is not None}
        self.totals.seconds[name] += time.process_time() - started
        return found

    def _copies(self) -> set[str]:
        """Results that an earlier one equals, byte for byte."""
        seen: set[bytes] = set()
        copies: set[str] = set()
        for item in self.items:
            if item.id not in self.stubs:
                continue
            key = blake2b(item.element.text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
            if key in seen:
                copies.add(item.id)
            seen.add(key)
        return copies

    def _duplicates(self) -> None:
        self._reduced("exact duplicates", self._copies())

    def _reduced(self, rule: str, ids: set[str]) -> None:
        self.totals.saved[rule] += sum(self.tokens[id] - self.stubs[id] for id in ids if id in self.stubs)

    def _subtasks(self) -> None:
        reader = SubtaskReader()
        all_steps: set[str] = set()
        for item in self.items:
            ended = reader.finished(item)
            if ended is not None:
                self._reduced(f"subtasks: {ended.kind}", set(ended.steps) - all_steps)
                all_steps.update(ended.steps)
        self._reduced("subtasks", all_steps)

    def _told(self, notes: dict[str, Note]) -> None:
        """All results as a summary by rules tells them, with and without finished subtasks as one line."""
        told = [
            DigestItem(
                item.id, "tool_result", "tool", item.element.text[-4_000:], tool=item.call.name if item.call else "",
                argument=item.argument, is_failed=item.element.is_failed, size_chars=len(item.element.text),
                steps=notes[item.id].steps if item.id in notes else (),
            )
            for item in self.items if item.id in self.stubs
        ]  # fmt: skip
        for name, items in (("one line", told), ("plain", [replace(one, steps=()) for one in told])):
            self.totals.told[name] += self.count(digest(items, max_chars=10**7))

    def _offers(self, rule: str, notes: dict[str, Note]) -> None:
        for id, note in notes.items():
            if note.offer is not None and (saved := self.tokens[id] - self._offered(id, note)) > 0:
                self.totals.saved[rule] += saved
                if rule == "excerpts":
                    self.totals.saved[f"excerpts: {note.offer.kind}"] += saved
                self.totals.offered[note.offer.kind] += 1

    def _offered(self, id: str, note: Note) -> int:
        assert note.offer is not None
        item = self.items[int(id[1:])]
        pairs = zip(item.element.texts, note.offer.texts, strict=True)
        return sum(self.count(short if short is not None else text) for text, short in pairs)

    def _both(self, deltas: dict[str, Note]) -> None:
        """Duplicates go first; what is left may overlap."""
        copies = self._copies()
        self._reduced("duplicates, then overlaps", copies)
        for id, note in deltas.items():
            if id not in copies and note.offer is not None:
                self.totals.saved["duplicates, then overlaps"] += max(0, self.tokens[id] - self._offered(id, note))

    def _forms(self, notes: dict[str, Note]) -> None:
        """Results that have every form, in each of them."""
        for id, note in notes.items():
            short = self._offered(id, note) if note.offer is not None else 0
            if note.offer is not None and self.stubs[id] < short < self.tokens[id]:
                kind = note.offer.kind
                self.totals.forms.update({f"{kind} n": 1, f"{kind} stub": self.stubs[id], f"{kind} excerpt": short})
                self.totals.forms[f"{kind} full"] += self.tokens[id]


def report(totals: Totals) -> str:
    """The figures as two tables."""
    lines = [
        f"{totals.runs} runs, {totals.items:,} items, {totals.tokens:,} tokens ({totals.outputs:,} of tool results)"
    ]
    lines += ["", "rule, alone                     tokens  of all  of results"]
    for rule, saved in sorted(totals.saved.items(), key=lambda pair: (pair[0].split(":")[0], pair[0])):
        lines.append(f"{rule:28}{saved:10,}{saved / totals.tokens:8.1%}{saved / totals.outputs:11.1%}")
    lines += ["", "results with every form    count      stub   excerpt      full"]
    for kind in ("lines", "outline", "shape"):
        row = [totals.forms[f"{kind} {form}"] for form in ("n", "stub", "excerpt", "full")]
        lines.append(f"{kind:22}{row[0]:10,}{row[1]:10,}{row[2]:10,}{row[3]:10,}")
    told = totals.told
    lines += ["", f"summaries of all results: {told['plain']:,} tokens, {told['one line']:,} with subtasks as one line"]
    lines += ["", f"{totals.links:,} links; CPU, µs an item: " + ", ".join(
        f"{name} {1e6 * seconds / totals.items:.0f}" for name, seconds in totals.seconds.items()
    )]  # fmt: skip
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    folder = Path(arguments[0]) if arguments else TRACES
    tokenizer = Tokenizer()
    totals = Totals()
    for path in sorted(folder.glob(arguments[1] if len(arguments) > 1 else "*.jsonl")):
        if path.name.startswith("concat-"):
            continue
        Run(path, tokenizer, totals).read()
    tokenizer.close()
    print(report(totals))


if __name__ == "__main__":
    main(sys.argv[1:])
