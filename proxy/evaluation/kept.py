"""A folder that keeps every result as one line, so that a run that was broken off goes on where it was."""

from __future__ import annotations

import hashlib
import importlib.util
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from io import BufferedWriter
from pathlib import Path
from types import TracebackType

import orjson

from proxy.errors import InputError
from proxy.evaluation.results import TaskResult, from_json, to_json
from proxy.evaluation.task import Budget, Task

FILE = "results.jsonl"
NO_PART_OF_A_RUN = frozenset(
    {
        *("proxy/cli", "proxy/web", "proxy/library", "proxy/evaluation/templates", "proxy/evaluation/estimate"),
        *(f"proxy/evaluation/{name}.py" for name in ("bill", "charts", "page", "report", "statistics")),
    }
)
"""Parts of the proxy that no task's outcome depends on."""


@cache
def code_version() -> str:
    """A hash of the code and the data that runs tasks: a result holds for this code only."""
    found = hashlib.sha256()
    for package in ("policies", "proxy"):
        for name, file in sorted(_sources(files(package), package), key=lambda one: one[0]):
            found.update(name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()


def _sources(folder: Traversable, name: str) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for entry in folder.iterdir():
        path = f"{name}/{entry.name}"
        if path in NO_PART_OF_A_RUN:
            continue
        if entry.is_dir():
            found += _sources(entry, path)
        elif entry.name.endswith((".py", ".toml", ".json")):
            found.append((path, entry))
    return found


@cache
def policy_version(policy: str) -> str:
    """For a policy named as `module:attribute`, a hash of that module's file; nothing for one that ships."""
    module, colon, _ = policy.partition(":")
    found = importlib.util.find_spec(module) if colon else None
    path = Path(found.origin) if found is not None and found.origin else None
    return hashlib.sha256(path.read_bytes()).hexdigest() if path is not None and path.is_file() else ""


def key_of(task: Task, policy: str, budget: Budget) -> str:
    """Under which a result is found again: same task, policy, budget and code."""
    parts = (task.digest, task.source, policy, policy_version(policy), budget.name, code_version())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


class Kept:
    """The results in one folder. What was torn off at the end is dropped; a broken line elsewhere is an error.

    A context manager: the file is open for appending in between.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._known: dict[str, TaskResult] = {}
        self._file: BufferedWriter | None = None

    def __enter__(self) -> Kept:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch()
            whole = self._read(self.path.read_bytes())
            self._file = self.path.open("ab")
            self._file.truncate(whole)
        except OSError as error:
            raise InputError(
                f"results cannot be kept in {self.path.parent}: {(error.strerror or str(error)).lower()}",
                hint="Name a folder that can be written with --out.",
            ) from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def get(self, key: str) -> TaskResult | None:
        """The result under this key. None for one that ended in an error: that is tried again."""
        found = self._known.get(key)
        return None if found is None or found.error else found

    def add(self, key: str, result: TaskResult) -> None:
        """Write it down at once."""
        self._known[key] = result
        if self._file is not None:
            self._file.write(orjson.dumps({"key": key, "result": to_json(result)}) + b"\n")
            self._file.flush()

    def _read(self, text: bytes) -> int:
        """Take in every line; how many bytes of whole lines there are."""
        whole = text.rfind(b"\n") + 1
        for number, line in enumerate(text[:whole].splitlines(), start=1):
            try:
                entry = orjson.loads(line)
                self._known[str(entry["key"])] = from_json(entry["result"])
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(
                    f"{self.path}, line {number}: no result of a task ({error})",
                    hint="Delete that line: the task is run again. Or name another folder with --out.",
                ) from error
        return whole
