"""Runs tasks × policies × budgets in worker processes. What one task does to its process harms no other result."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from proxy.evaluation.kept import Kept, key_of
from proxy.evaluation.results import TaskResult
from proxy.evaluation.task import Budget, Task


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of the matrix."""

    task: Task
    policy: str
    budget: Budget

    def run(self) -> TaskResult:
        return self.task.run(self.policy, self.budget)

    def failure(self, error: str) -> TaskResult:
        """The result where there is none."""
        task = self.task
        return TaskResult(task.name, task.family, task.source, self.policy, self.budget.name, 0, error=error)


OnResult = Callable[[TaskResult, bool], None]
"""Called with each result, and whether it was there already."""


def cells(tasks: Iterable[Task], policies: Sequence[str], budgets: Sequence[Budget]) -> list[Cell]:
    """All of the matrix, task by task: what was done of it when it is broken off can be compared."""
    return [Cell(task, policy, budget) for task in tasks for budget in budgets for policy in policies]


class Book:
    """Results by the number of their cell. Those that were kept are there from the start; new ones are kept."""

    def __init__(self, wanted: Sequence[Cell], kept: Kept | None, on_result: OnResult) -> None:
        self.found: dict[int, TaskResult] = {}
        self._wanted = wanted
        self._kept = kept
        self._on_result = on_result
        self._keys = [key_of(cell.task, cell.policy, cell.budget) if kept is not None else "" for cell in wanted]
        for number, key in enumerate(self._keys):
            known = kept.get(key) if kept is not None else None
            if known is not None:
                self.found[number] = known
                on_result(known, True)

    def take(self, number: int, result: TaskResult) -> None:
        self.found[number] = result
        if self._kept is not None:
            self._kept.add(self._keys[number], result)
        self._on_result(result, False)

    def left(self) -> deque[tuple[int, Cell]]:
        return deque((number, cell) for number, cell in enumerate(self._wanted) if number not in self.found)


def run(wanted: Sequence[Cell], *, jobs: int = 0, kept: Kept | None = None, on_result: OnResult) -> list[TaskResult]:
    """Every cell's result, in the order of the cells however they ended. `jobs` 0 means one for each core.

    A run that raises, or whose process dies, is a result with an `error`. After an interrupt (KeyboardInterrupt) what
    is running still ends and is kept, then the interrupt goes on.
    """
    book = Book(wanted, kept, on_result)
    left = book.left()
    jobs = max(1, min(jobs or os.cpu_count() or 1, len(left)))
    while left:
        for number, cell in _rounds(left, jobs, book.take):
            for _ in _rounds(deque([(number, cell)]), 1, book.take):  # alone, it can only be this one
                book.take(number, cell.failure("the process that ran it died: killed, or out of memory"))
    return [book.found[number] for number in range(len(wanted))]


def _rounds(
    left: deque[tuple[int, Cell]], jobs: int, take: Callable[[int, TaskResult], None]
) -> list[tuple[int, Cell]]:
    """Run until nothing is left or a process dies: then those that were running, one of which is to blame."""
    running: dict[Future[TaskResult], tuple[int, Cell]] = {}
    suspects: list[tuple[int, Cell]] = []

    def end(future: Future[TaskResult]) -> None:
        number, cell = running.pop(future)
        error = future.exception()
        if error is None:
            take(number, future.result())
        elif isinstance(error, BrokenProcessPool):
            suspects.append((number, cell))
        else:
            take(number, cell.failure(f"{type(error).__name__}: {error}"))

    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_as_worker) as pool:
        try:
            while (left or running) and not suspects:
                while left and len(running) < jobs:
                    one = left.popleft()
                    running[pool.submit(one[1].run)] = one
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    end(future)
        finally:
            for future in wait(running).done:
                end(future)
    return sorted(suspects, key=lambda one: one[0])


def _as_worker() -> None:
    """An interrupt is the parent's to handle; a worker whose parent is gone goes too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os._exit(1)
