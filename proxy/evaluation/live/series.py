"""Plays live tasks again and again, keeps each result at once, and stops in order when money or provider ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from proxy.errors import UndercliffError
from proxy.evaluation.kept import Kept, key_of
from proxy.evaluation.live.endpoint import Endpoint
from proxy.evaluation.live.playing import LiveTask
from proxy.evaluation.live.purse import Purse
from proxy.evaluation.matrix import Cell, OnResult, cells
from proxy.evaluation.results import TaskResult
from proxy.evaluation.scripted.spec import Story
from proxy.evaluation.task import Budget


@dataclass(frozen=True, slots=True)
class Outcome:
    """Results in the order in which they were wanted. `stopped` is why some are missing."""

    results: tuple[TaskResult, ...]
    wanted: int
    stopped: UndercliffError | None = None


def repeated(
    stories: Sequence[Story], repeats: int, policies: Sequence[str], budgets: Sequence[Budget], endpoint: Endpoint,
    purse: Purse,
) -> list[Cell]:  # fmt: skip
    """All runs, a whole round of every task before the next: what there is when it stops can be compared."""
    tasks = [LiveTask(story, endpoint, purse, repeat) for repeat in range(1, repeats + 1) for story in stories]
    return cells(tasks, policies, budgets)


def play_series(wanted: Sequence[Cell], *, jobs: int = 1, kept: Kept | None = None, on_result: OnResult) -> Outcome:
    """Every run that can be paid for; after the first that cannot be played to its end no other is begun.

    An interrupt (KeyboardInterrupt) goes on after those that are running have ended and are kept.
    """
    found: dict[int, TaskResult] = {}
    keys = [key_of(cell.task, cell.policy, cell.budget) if kept is not None else "" for cell in wanted]
    for number, key in enumerate(keys):
        known = kept.get(key) if kept is not None else None
        if known is not None:
            found[number] = known
            on_result(known, True)

    def take(number: int, result: TaskResult) -> None:
        found[number] = result
        if kept is not None:
            kept.add(keys[number], result)
        on_result(result, False)

    left = deque((number, cell) for number, cell in enumerate(wanted) if number not in found)
    stopped = _play(left, max(1, jobs), take)
    return Outcome(tuple(found[number] for number in sorted(found)), len(wanted), stopped)


def _play(left: deque[tuple[int, Cell]], jobs: int, take: Callable[[int, TaskResult], None]) -> UndercliffError | None:
    stopped: UndercliffError | None = None
    running: dict[Future[TaskResult], int] = {}

    def end(future: Future[TaskResult]) -> None:
        nonlocal stopped
        number = running.pop(future)
        try:
            take(number, future.result())
        except UndercliffError as error:
            stopped = stopped or error

    with ThreadPoolExecutor(jobs, thread_name_prefix="live") as pool:
        try:
            while (left and stopped is None) or running:
                while left and stopped is None and len(running) < jobs:
                    number, cell = left.popleft()
                    running[pool.submit(cell.run)] = number
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    end(future)
        finally:
            for future in wait(running).done:
                end(future)
    return stopped
