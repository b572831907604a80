"""A scripted agent session: what the user asks, what the model calls, what the tools answer. Same seed, same bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from proxy.demo.material import LEDGER, code_text, edited, json_rows, log_lines, search_hits
from proxy.demo.provider import Answer, Script, ScriptedCall

SYSTEM = (
    "You are a careful programmer in the repository of Quayside, the booking service of a small harbour. "
    "Look before you change anything. Use the tools, one question at a time, and quote what you found. "
    "When you are done, say in two or three sentences what you did and what is left."
)
ASKS = (
    "Bookings vanish after the tide changes. Find out why. One rule for all your work: never touch db/migrations, "
    "not even to reformat a comment there.",
    "To try things: the staging database listens on port 5417, and the customer who complains is HX-2093. Go on.",
    "Good. Now see whether invoices suffer from the same fault.",
    "The night shift reports double holds on berth 14. Look into the logs and the ledger.",
    "Check the crane schedule as well, it shares the ledger code.",
    "Please make sure that releasing a hold is safe when two pilots do it at once.",
    "Go through the tests of the ledger and say which cases are missing.",
    "Prepare the change: list every place that has to be edited, with the reason.",
)
LAST_ASK = (
    "Before you stop: which folder must you never touch, which port has the staging database, and which customer waits?"
)
NOTES = (
    "I'll look at where this is called first.",
    "The stored rows should tell whether the hold was ever written.",
    "The service's log around that time comes next; one error there would explain a lot.",
    "Reading the module itself before I judge.",
    "The ledger again, to compare with what I just saw.",
    "",
)


@dataclass(frozen=True, slots=True)
class Fact:
    """Something said early that must still be known at the end."""

    name: str
    text: str


FACTS = (
    Fact("rule", "never touch db/migrations"),
    Fact("port", "5417"),
    Fact("customer", "HX-2093"),
)


@dataclass(frozen=True, slots=True)
class Step:
    """The model's words and calls, and what the tools answer, in the order of the calls."""

    note: str
    calls: tuple[ScriptedCall, ...]
    results: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """One user message and all that follows until the model answers it."""

    ask: str
    steps: tuple[Step, ...]
    answer: str


@dataclass(frozen=True, slots=True)
class Session:
    """Turns in order. `errors` are the lines planted in logs, whether or not a tool showed them."""

    system: str
    tools: str  # JSON, or empty for a session without tools
    turns: tuple[Turn, ...]
    errors: tuple[str, ...]

    def results(self) -> dict[str, str]:
        """What each tool call answers, by call id."""
        steps = [step for turn in self.turns for step in turn.steps]
        return {call.id: text for step in steps for call, text in zip(step.calls, step.results, strict=True)}

    def script(self) -> Script:
        """What the model says next, known from the last message alone: a proxy may have reduced all before it."""
        answers: dict[str, Answer] = {}
        for turn in self.turns:
            key = turn.ask
            for step in turn.steps:
                answers[key] = Answer(step.note, step.calls)
                key = step.calls[-1].id
            answers[key] = Answer(turn.answer)

        def answer(messages: Sequence[dict[str, Any]]) -> Answer:
            last = messages[-1]
            return answers.get(str(last.get("tool_call_id") or _plain(last.get("content"))), Answer("Understood."))

        return answer


def _plain(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if isinstance(part, dict))
    return str(content)


@dataclass(frozen=True, slots=True)
class Shape:
    """How a session is laid out. `cut_logs` are numbers of logs whose error lies beyond what the tool shows."""

    turns: tuple[int, ...] = (6, 5, 6, 5, 6, 5)  # steps in each turn
    parallel_every: int = 6  # each so-manyth step makes two calls; 0 for never
    least: int = 4_000
    most: int = 12_000
    cut_logs: tuple[int, ...] = ()
    asks_at_end: bool = True


def make_session(seed: int = 7, shape: Shape | None = None) -> Session:
    """A session of that shape; equal seeds and shapes give equal sessions."""
    shape = shape or Shape()
    maker = _Maker(Random(seed), shape)
    turns = tuple(
        Turn(_ask(index), maker.steps(count, index), maker.answer(index)) for index, count in enumerate(shape.turns)
    )
    if shape.asks_at_end:
        told = "I must never touch db/migrations; staging listens on port 5417; customer HX-2093 is waiting."
        turns += (Turn(LAST_ASK, maker.steps(2, len(turns)), told),)
    return Session(SYSTEM, _tools(), turns, tuple(maker.errors))


def _ask(index: int) -> str:
    return (
        ASKS[index] if index < len(ASKS) else f"Next point on the list, number {index + 1}: take the same care with it."
    )


class _Maker:
    """Draws steps one after another from one random stream."""

    def __init__(self, rng: Random, shape: Shape) -> None:
        self._rng = rng
        self._shape = shape
        self._step = 0
        self._reads = 0
        self._ledger = code_text(Random(1), 7_000, LEDGER)
        self.errors: list[str] = []

    def steps(self, count: int, turn: int) -> tuple[Step, ...]:
        return tuple(self._one(turn) for _ in range(count))

    def answer(self, turn: int) -> str:
        place = self._rng.randint(2, 60)
        return (
            f"Point {turn + 1} is settled. The hold at berth {place} was written and then dropped, because the ledger "
            f"settles before the tide table is read; that is line {self._rng.randint(20, 300)} of {LEDGER}. "
            "Nothing else in this part writes holds. What is left is a test for two releases in the same minute."
        )

    def _one(self, turn: int) -> Step:
        self._step += 1
        number = self._step
        every = self._shape.parallel_every
        made = [self._call(number, 1)]
        if every and number % every == 0:
            made.append(self._call(number + 1, 2))
        note = NOTES[number % len(NOTES)]
        return Step(note, tuple(call for call, _ in made), tuple(text for _, text in made))

    def _call(self, number: int, position: int) -> tuple[ScriptedCall, str]:
        rng, size = self._rng, self._rng.randint(self._shape.least, self._shape.most)
        name: str
        arguments: dict[str, object]
        match number % 4:
            case 1:
                query = rng.choice(("hold", "release", "settle", "tide"))
                name, arguments, text = "search", {"pattern": f"{query}_", "in": "src"}, search_hits(rng, size, query)
            case 2:
                name, arguments, text = "query", {"table": "bookings", "page": number}, json_rows(rng, size)
            case 3:
                name, arguments, text = "read_log", {"service": f"worker-{number % 5}"}, self._log(size)
            case _:
                name = "read_file"
                arguments, text = self._file(number, size)
        call = ScriptedCall(f"call_{self._step:03d}{position}", name, json.dumps(arguments))
        return call, text

    def _log(self, size: int) -> str:
        number = len(self.errors)
        berth, booking = self._rng.randint(1, 64), self._rng.randint(10_000, 99_999)
        error = f"ERROR hold of booking BR-{booking} lost at berth {berth}: ledger row settled twice"
        self.errors.append(error)
        if number not in self._shape.cut_logs:
            return log_lines(self._rng, size, error, self._rng.uniform(0.1, 0.9))
        text = log_lines(self._rng, size + 2_000, error, 0.95)
        return text[: text.index(error)][:size] + "\n... the log goes on; ask for a later part"

    def _file(self, number: int, size: int) -> tuple[dict[str, object], str]:
        """The ledger most of the time, changed a little on every second read; other modules now and then."""
        if number % 20 == 0:
            path = f"src/quayside/crane/part{number}.py"
            return {"path": path}, code_text(self._rng, size, path)
        self._reads += 1
        return {"path": LEDGER}, edited(self._ledger, self._reads // 2)


def _tools() -> str:
    made = [
        _tool("search", "Search the repository for a pattern, line by line.", ("pattern", "in")),
        _tool("query", "Read one page of a table as JSON rows.", ("table", "page")),
        _tool("read_log", "The latest lines of a service's log.", ("service",)),
        _tool("read_file", "The text of a file.", ("path",)),
    ]
    return json.dumps(made, separators=(",", ":"))


def _tool(name: str, description: str, fields: tuple[str, ...]) -> dict[str, Any]:
    properties = {field: {"type": "integer" if field == "page" else "string"} for field in fields}
    schema = {"type": "object", "properties": properties, "required": list(fields)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}
