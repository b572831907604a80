"""Replays recorded runs against policies at half and quarter budgets: do windows still hold what each action used?

Run it with `python -m tests.bench.replay FOLDER [--rows NAME,NAME] [--shares 0.5,0.25] [--runs PATTERN] [--jobs 2]`;
FOLDER holds one `.jsonl` a run with its labels beside it. Each run's score is kept in a folder for temporary files
until the code changes. Weights were fitted on such runs: figures on those are in sample.

On 45 / 48 recorded runs, word for word, recall / step / tasks at half and at quarter; copies: recall over all needs.
keep-last           .825 / .770 / 17   .649 / .598 /  7   copies .877, .749   reuse .64, .63
keep-last-sticky    .768 / .694 / 14   .604 / .552 /  6          .854, .689         .96, .94
random              .831 / .771 / 15   .590 / .556 /  5          .906, .675         .08, .10
A (in sample)       .958 / .944 / 34   .807 / .754 / 15          .959, .868         .05, .11
A-sticky-85+index   .880 / .829 / 19   .722 / .663 /  9          .930, .786         .95, .91
A-sticky-75+index   .874 / .810 / 18   .706 / .625 /  8          .923, .779         .96, .93
"""

from __future__ import annotations

import argparse
import fnmatch
import pickle
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from hashlib import blake2b
from pathlib import Path

from proxy.evaluation.recorded.copies import copied_runs
from proxy.evaluation.recorded.judge import Score, judge, paired, total
from proxy.evaluation.recorded.rows import ROWS, Row
from proxy.evaluation.recorded.runs import Run, Step, load_run
from proxy.evaluation.recorded.windows import Server
from proxy.tokenizer import Tokenizer

ROOT = Path(__file__).resolve().parents[2]
Pair = tuple[Score, Score]
"""A run's scores by the labels, and by the second extractor: copies of six tokens."""


def play(row: Row, run: Run, share: float, copies: Sequence[Step]) -> Pair:
    """One run under one policy at one budget."""
    budget = run.budget(share)
    windows = list(Server(run, row.make(), Tokenizer().count, index=row.index).windows(budget))
    return judge(run, windows, budget), judge(run, windows, budget, copies)


def _scores(path: Path, rows: Sequence[str], share: float) -> list[tuple[str, Pair]]:
    """A run under some policies: what was scored before by the same code is read back."""
    kept = Path(tempfile.gettempdir()) / "undercliff-replay" / _code()
    kept.mkdir(parents=True, exist_ok=True)
    found: list[tuple[str, Pair]] = []
    loaded: tuple[Run, Sequence[Step]] | None = None
    for row in ROWS:
        if row.name not in rows:
            continue
        file = kept / f"{path.stem}.{row.name}.{share}.pickle"
        if file.exists():
            found.append((row.name, pickle.loads(file.read_bytes())))
            continue
        if loaded is None:
            run = load_run(path, Tokenizer())
            if run is None or run.is_concatenated:
                return []
            loaded = run, copied_runs(run)
        pair = play(row, loaded[0], share, loaded[1])
        file.write_bytes(pickle.dumps(pair))
        found.append((row.name, pair))
    return found


@cache
def _code() -> str:
    """A name for the code that makes the scores."""
    files = [*sorted((ROOT / "policies").rglob("*.py")), *sorted((ROOT / "policies").rglob("*.json"))]
    files += sorted((ROOT / "tests" / "bench").glob("replay*.py"))
    digest = blake2b(digest_size=8)
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def played(paths: Sequence[Path], rows: Sequence[str], share: float, jobs: int) -> dict[str, list[Pair]]:
    """The scores of every row, in the order of the paths."""
    made: dict[str, list[Pair]] = {name: [] for name in rows}
    for scores in _over(paths, rows, share, jobs):
        for name, pair in scores:
            made[name].append(pair)
    return made


def _over(paths: Sequence[Path], rows: Sequence[str], share: float, jobs: int) -> Iterator[list[tuple[str, Pair]]]:
    if jobs < 2:
        yield from (_scores(path, rows, share) for path in paths)
        return
    with ProcessPoolExecutor(jobs) as pool:
        # The long ones first; the answers in the order of the paths.
        longest = sorted(paths, key=lambda path: -path.stat().st_size)
        waiting = {path: pool.submit(_scores, path, rows, share) for path in longest}
        yield from (waiting[path].result() for path in paths)


def _report(name: str, share: float, pairs: Sequence[Pair], base: Sequence[Pair]) -> None:
    a, b = total([pair[0] for pair in pairs]), total([pair[1] for pair in pairs])
    print(
        f"{share:4} {name:18} {a.recall:.3f} / {a.step:.3f} / {a.tasks:2} of {a.runs}"
        f" | +x {a.recall_expanded:.3f} / {a.step_expanded:.3f} / {a.tasks_expanded:2}, {a.expands:.2f} a step"
        f" of {a.expand_tokens:,.0f} tokens | reuse {a.reuse:.2f}"
        f" | copies {b.pooled:.3f} of {b.needs:,}, {b.recall:.3f} / {b.step:.3f} / {b.tasks} of {b.runs}"
        f" | used {a.used:.2f}, over {a.over}, invalid {a.invalid} of {a.windows}"
        f" | CPU {a.cpu_ms:.1f} ms, p95 {a.cpu_p95_ms:.1f}",
        flush=True,
    )
    if base is not pairs:
        parts: list[str] = []
        for which, what in enumerate(("labels", "copies")):
            ours, theirs = [pair[which] for pair in pairs], [pair[which] for pair in base]
            steps = paired(ours, theirs, lambda score: score.passed / score.steps)
            tasks = paired(ours, theirs, lambda score: float(score.is_pass()))
            parts.append(f"{what}: steps {steps}, tasks {tasks}")
        print(f"{'':24}against keep-last by {'; by '.join(parts)}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Replay recorded runs against policies.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", default=",".join(row.name for row in ROWS))
    parser.add_argument("--shares", default="0.5,0.25")
    parser.add_argument("--runs", default="*", help="a pattern for the names of runs")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args(arguments)
    wanted = given.rows.split(",")
    rows = [row.name for row in ROWS if row.name in wanted]
    paths = [path for path in sorted(given.folder.glob("*.jsonl")) if fnmatch.fnmatch(path.stem, given.runs)]
    print(
        "recall / step / tasks, word for word | with expand credit | prefix reuse | second extractor: recall over all"
    )
    print("needs, then recall / step / tasks over runs | budget | CPU of a binding window")
    for share in map(float, given.shares.split(",")):
        made = played(paths, rows, share, given.jobs)
        for name in rows:
            _report(name, share, made[name], made[rows[0]])


if __name__ == "__main__":
    main()
