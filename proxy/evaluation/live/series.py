"""Plays live tasks again and again, keeps each result at once, and stops in order when money or provider ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from proxy.errors import InputError, UndercliffError
from proxy.evaluation.kept import Kept
from proxy.evaluation.live.endpoint import Endpoint
from proxy.evaluation.live.playing import LiveTask
from proxy.evaluation.live.purse import Purse
from proxy.evaluation.matrix import Book, Cell, OnResult, cells
from proxy.evaluation.results import TaskResult
from proxy.evaluation.scripted.playing import ScriptedTask
from proxy.evaluation.task import Budget, Task


@dataclass(frozen=True, slots=True)
class Outcome:
    """Results in the order in which they were wanted. `stopped` is why some are missing."""

    results: tuple[TaskResult, ...]
    wanted: int
    stopped: UndercliffError | None = None


@dataclass(slots=True)
class Series:
    """A model, what may be spent on it, and how often each task is played. `stopped` is why runs are missing."""

    endpoint: Endpoint
    purse: Purse
    repeats: int = 1
    stopped: UndercliffError | None = None

    def run(
        self, wanted: Sequence[Cell], *, jobs: int = 1, kept: Kept | None = None, on_result: OnResult
    ) -> list[TaskResult]:
        """What could be played of it. `jobs` 0 means one: a model at home seldom answers two."""
        outcome = play_series(wanted, jobs=jobs, kept=kept, on_result=on_result)
        self.stopped = outcome.stopped
        return list(outcome.results)

    def cells(self, tasks: Iterable[Task], policies: Sequence[str], budgets: Sequence[Budget]) -> list[Cell]:
        """All runs, a whole round of every task before the next: what there is when it stops can be compared.

        Only scripted tasks can be played live. Raises `InputError` where there is none.
        """
        stories = [task.story for task in tasks if isinstance(task, ScriptedTask)]
        if not stories:
            raise InputError("none of these tasks can be played live", hint="Choose scripted ones: --tasks scripted.")
        rounds = range(1, self.repeats + 1)
        live = [LiveTask(story, self.endpoint, self.purse, number) for number in rounds for story in stories]
        return cells(live, policies, budgets)


def play_series(wanted: Sequence[Cell], *, jobs: int = 1, kept: Kept | None = None, on_result: OnResult) -> Outcome:
    """Every run that can be paid for; after the first that cannot be played to its end no other is begun.

    An interrupt (KeyboardInterrupt) goes on after those that are running have ended and are kept.
    """
    book = Book(wanted, kept, on_result)
    stopped = _play(book.left(), max(1, jobs), book.take)
    return Outcome(tuple(book.found[number] for number in sorted(book.found)), len(wanted), stopped)


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
