"""Finds subtasks that are done: tests that ended green, a search that led to a file, a plan item ticked off. Pure.

A finished subtask is worth its result; its steps can go to a line each, by which they can be had back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from policies.kinds import kind_of_call
from proxy.core.offers import Listed, Note
from proxy.core.touched import basename, touched

SubtaskKind = Literal["tests", "search", "plan"]

OPEN_SEARCHES = 8
MIN_STEP_CHARS = 200
"""A shorter output is no more than the line that would stand for it."""

_TESTS = re.compile(
    r"\b(?:pytest|py\.test|unittest|nosetests?|tox|ctest|jest|vitest|mocha|rspec|phpunit|gotestsum|nextest)\b"
    r"|\b(?:npm|yarn|pnpm|bun|go|cargo|make|mvn|gradle|gradlew|dotnet|deno|mix|rake|swift)\s+(?:run\s+)?(?:-\S+\s+)*test"
    r"|\b(?:run_?)?tests?(?:\.(?:py|sh|js))?\b|runtests",
    re.IGNORECASE,
)
_GREEN = re.compile(
    r"\b[1-9]\d* passed\b|^OK\b|^ok\s+\S+\s+[\d.]+s|\btest result: ok\b|\bAll tests passed\b|\bBUILD SUCCESS"
    r"|\bTests:\s+[1-9]\d* passed|^# fail 0$|\b0 failures\b",
    re.MULTILINE | re.IGNORECASE,
)
_RED = re.compile(
    r"\b[1-9]\d* (?:failed|errors?|failures)\b|^FAILED\b|^FAIL\b|\btest result: FAILED\b|\bBUILD FAIL", re.MULTILINE
)
_PLAN_TOOL = re.compile(r"todo|plan", re.IGNORECASE)
_DONE = re.compile(r"\"?(?:completed|done)\"?\b|\[x\]", re.IGNORECASE)
_EDGE = 4_000


@dataclass(frozen=True, slots=True)
class Subtask:
    """`steps` are ids of tool results that the `result` stands for."""

    kind: SubtaskKind
    steps: tuple[str, ...]
    result: str


@dataclass(slots=True)
class SubtaskReader:
    """Reads one list; every result is read once."""

    _runs: list[str] = field(default_factory=list)  # test runs since the last green one
    _searches: list[tuple[str, str]] = field(default_factory=list)
    _steps: list[str] = field(default_factory=list)  # results since the plan was last told
    _plan: tuple[str, int] = ("", 0)  # the latest plan and how much of it is done

    def finished(self, item: Listed) -> Subtask | None:
        """The subtask that this result ends, if it ends one."""
        call, element = item.call, item.element
        if call is None or element.kind != "tool_result":
            return None
        kind = kind_of_call(call.name, item.argument)
        text = "\n".join(element.texts) or element.text
        if _PLAN_TOOL.search(call.name):
            return self._ticked(item, call.arguments)
        ended: Subtask | None = None
        if kind == "run" and _TESTS.search(item.argument or call.name):
            ended = self._tested(item, text)
        elif kind == "read":
            ended = self._opened(item, touched(call.name, item.argument, call.arguments).reads)
        elif kind == "search" and len(text) >= MIN_STEP_CHARS:
            self._searches = [*self._searches, (item.id, text)][-OPEN_SEARCHES:]
        if kind not in ("read", "edit") and len(text) >= MIN_STEP_CHARS:
            self._steps.append(item.id)
        return ended

    def read(self, item: Listed) -> Note | None:
        """For the window: the steps are worth less from now on, and the result draws on them."""
        ended = self.finished(item)
        if ended is None:
            return None
        return Note(cites=ended.steps, stale=ended.steps, ends_subtask=True, steps=ended.steps)

    def _tested(self, item: Listed, text: str) -> Subtask | None:
        edge = text[-_EDGE:]
        is_green = not item.element.is_failed and _GREEN.search(edge) is not None and not _RED.search(edge)
        if not is_green:
            if len(text) >= MIN_STEP_CHARS:
                self._runs.append(item.id)
            return None
        steps, self._runs = tuple(self._runs), []
        return Subtask("tests", steps, item.id) if steps else None

    def _opened(self, item: Listed, paths: tuple[str, ...]) -> Subtask | None:
        """The searches that named the file which is now open."""
        if item.element.is_failed:
            return None
        led = [id for id, text in self._searches if any(_names(text, path) for path in paths)]
        self._searches = [search for search in self._searches if search[0] not in led]
        return Subtask("search", tuple(led), item.id) if led else None

    def _ticked(self, item: Listed, arguments: str) -> Subtask | None:
        done = len(_DONE.findall(arguments))
        plan, before = self._plan
        self._plan = (item.id, done)
        if not plan:
            self._steps = []
            return None
        steps = (plan, *self._steps) if done > before else (plan,)
        if done > before:
            self._steps = []
        return Subtask("plan", steps, item.id)


def _names(text: str, path: str) -> bool:
    """Does a search result name the file? By its last part, with the folder before it where there is one."""
    tail = "/".join(path.split("/")[-2:]) if "/" in path else path
    return tail in text or (basename(path) in text and "/" not in text)
