"""How far derived labels agree with reference labels of the same runs: precision and recall, by band and by family.

Run it with `python -m proxy.evaluation.recorded.agreement FOLDER`; the folder has `labels/NAME.needs.json`.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxy.evaluation.recorded.labels import common_atoms, derive, group_of
from proxy.evaluation.recorded.runs import Step, load_run
from proxy.tokenizer import Tokenizer

Key = tuple[int, bool, str]
"""A need: the step, whether it wants an item whole, and the atom (of a whole item: its index)."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Needs found by both, by us, and in the reference, under one heading."""

    heading: str
    both: int
    ours: int
    reference: int

    @property
    def precision(self) -> float:
        return self.both / self.ours if self.ours else 1.0

    @property
    def recall(self) -> float:
        return self.both / self.reference if self.reference else 1.0


def agreement(pairs: Iterable[tuple[str, Sequence[Step], Sequence[Step]]]) -> list[Agreement]:
    """Of (family, ours, reference): in all, facts and states, then by band and by family."""
    both, ours, theirs = Counter[str](), Counter[str](), Counter[str]()
    for family, mine, reference in pairs:
        known, made = _keys(reference), _keys(mine)
        for keys, other, count in ((made, known, ours), (known, made, theirs)):
            for key, band in keys.items():
                for heading in ("all", "state" if key[1] else "fact", f"band {band}", f"family {family}"):
                    count[heading] += 1
                    # Counted once, under the reference's band.
                    both[heading] += count is theirs and key in other
        decisive = [{step.index for step in steps if step.is_decisive} for steps in (mine, reference)]
        ours["decisive steps"] += len(decisive[0])
        theirs["decisive steps"] += len(decisive[1])
        both["decisive steps"] += len(decisive[0] & decisive[1])
    return [Agreement(heading, both[heading], ours[heading], theirs[heading]) for heading in sorted({*ours, *theirs})]


def _keys(steps: Sequence[Step]) -> dict[Key, str]:
    return {
        (step.index, fact.is_whole, str(fact.sources[0]) if fact.is_whole else fact.atom): fact.band
        for step in steps
        for fact in step.facts
    }


def of_folder(folder: Path) -> list[Agreement]:
    """Over the natural runs of a folder that have reference labels."""
    tokenizer = Tokenizer()
    talks = {path: _messages(path) for path in sorted(folder.glob("*.jsonl"))}
    common = common_atoms((group_of(path.stem), messages) for path, messages in talks.items())
    pairs = []
    for path, messages in talks.items():
        reference = load_run(path, tokenizer)
        if reference is not None and not reference.is_concatenated:
            pairs.append((reference.family, derive(reference, messages, common).steps, reference.steps))
    return agreement(pairs)


def _messages(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    for row in of_folder(Path(sys.argv[1])):
        sys.stdout.write(
            f"{row.heading:34} precision {row.precision:.3f}  recall {row.recall:.3f}"
            f"  both {row.both}, ours {row.ours}, reference {row.reference}\n"
        )


if __name__ == "__main__":
    main()
