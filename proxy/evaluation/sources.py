"""Where tasks come from, by the words of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from policies import registry
from policies.registry import PolicyError
from proxy.errors import InputError
from proxy.evaluation.recorded.recorded import LEAST_TOKENS, ONLY_HERE, recorded_tasks
from proxy.evaluation.scripted.playing import ScriptedTask
from proxy.evaluation.scripted.spec import tell, trades
from proxy.evaluation.task import Task

SEEDS = 3
"""How often each plot is told, with other names and numbers."""
EVERYTHING = "all"


def from_files(paths: Sequence[Path], seed: int = 1) -> list[Task]:
    """Recorded runs in files and folders, their numbers and names changed by `seed` (0: not). InputError for none."""
    found = recorded_tasks(paths, seed=seed)
    if not found:
        raise InputError("no recorded run there is long enough", hint=f"It takes some {LEAST_TOKENS:,} tokens.")
    return list(found)


def scripted(seed: int = 1) -> list[Task]:
    """The tasks that ship with the product, each plot told with three seeds in a row."""
    return [
        ScriptedTask(tell(plot, trade, told))
        for trade in trades()
        for plot in trade["plot"]
        for told in range(seed, seed + SEEDS)
    ]


def chosen(tasks: Sequence[Task], pattern: str) -> list[Task]:
    """By source, family or name; `*` stands for anything. InputError where none is meant."""
    if pattern == EVERYTHING:
        return list(tasks)
    found = [
        task for task in tasks if any(fnmatchcase(word, pattern) for word in (task.source, task.family, task.name))
    ]
    if not found:
        words = sorted({task.source for task in tasks} | {task.family for task in tasks})
        raise InputError(
            f"no task is meant by {pattern!r}",
            hint=f"Say all, {', '.join(words)}, or a name such as {tasks[0].name}; * stands for anything.",
        )
    return found


def rows_of(tasks: Iterable[Task]) -> tuple[str, ...]:
    """Policies that only these tasks know."""
    return ONLY_HERE if all(task.source == "recorded" for task in tasks) else ()


def check_policies(names: Iterable[str], rows: Iterable[str] = ()) -> None:
    """InputError for a policy that cannot be built; `rows` are names that a source of tasks knows by itself."""
    for name in names:
        if name in rows:
            continue
        try:
            registry.build(name)
        except PolicyError as error:
            known = ", ".join((*registry.names(), *rows))
            raise InputError(str(error), hint=f"There are {known}, and module:attribute for your own.") from error
