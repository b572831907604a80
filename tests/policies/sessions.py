"""Sessions to judge policies by: recorded runs and made ones, with the forms that the product itself would offer."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

from policies.model import NOT_OFFERED, ExcerptKind, Kind
from proxy.core import forms
from proxy.core.delta import DeltaMaker
from proxy.core.excerpts import ExcerptReader
from proxy.core.failures import looks_failed
from proxy.core.grouping import key_argument
from proxy.core.model import Call, Element
from proxy.core.offers import Listed, Maker
from proxy.demo.session import Session as DemoSession


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a session, with the forms it could take."""

    kind: Kind
    text: str
    group: int
    call: int
    tool: str = ""
    source: str = ""
    stub: int = NOT_OFFERED
    excerpt: int = NOT_OFFERED
    excerpt_text: str = ""
    excerpt_kind: ExcerptKind = ""
    bases: tuple[int, ...] = ()
    is_failed: bool = False
    is_pinned: bool = False

    @property
    def tokens(self) -> int:
        return len(self.text) // 4 + 4


@dataclass(frozen=True, slots=True)
class Need:
    """A fact that the action at message `step` uses: `atom`, held by any of `sources`."""

    step: int
    sources: tuple[int, ...]
    atom: str = ""
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class Session:
    name: str
    messages: tuple[Message, ...]
    needs: tuple[Need, ...] = ()

    @property
    def tokens(self) -> int:
        return sum(message.tokens for message in self.messages)


class Builder:
    """Writes a session message by message."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.messages: list[Message] = []
        self.needs: list[Need] = []
        self._group = -1
        self._call = 0
        self._makers: tuple[Maker, ...] = (DeltaMaker(), ExcerptReader(_parse))

    def system(self, text: str) -> None:
        self._add("system", "system", text, is_pinned=True)

    def user(self, text: str) -> None:
        is_first = all(message.kind != "user" for message in self.messages)
        self._add("user", "user", text, is_pinned=is_first)

    def step(self, tool: str, source: str, result: str, said: str = "") -> int:
        """An assistant turn with one call, and its result; the index of the result."""
        self.assistant(f"{said}\n{tool} {source}")
        return self.result(tool, source, result)

    def assistant(self, text: str) -> None:
        self._call += 1
        self._add("assistant", "assistant", text)

    def result(self, tool: str, source: str, text: str) -> int:
        """A result with the stub and the excerpt that the product itself would offer."""
        number = len(self.messages)
        is_failed = looks_failed(text)
        element = Element(b"", "tool_result", "tool", text, (), texts=(text,), is_failed=is_failed)
        listed = Listed(_id(number), number, element, Call("", tool, source), source)
        notes = [note for maker in self._makers if (note := maker.read(listed)) is not None]
        offer = next((note.offer for note in notes if note.offer is not None), None)
        full = _tokens(text)
        stub = _tokens(forms.stub(text, id=_id(number), tool=tool, failed=is_failed, argument=source))
        made = (offer.texts[0] or "") if offer is not None else ""
        is_shorter = bool(made) and _tokens(made) < full
        self.messages.append(
            Message(
                "tool_result", text, self._group, self._call, tool, source,
                stub=stub if len(text) > 500 and stub < full else NOT_OFFERED,
                excerpt=_tokens(made) if is_shorter else NOT_OFFERED,
                excerpt_text=made,
                excerpt_kind=offer.kind if offer is not None and is_shorter else "",
                bases=tuple(int(base[1:]) for base in offer.bases) if offer is not None and is_shorter else (),
                is_failed=is_failed,
            )
        )  # fmt: skip
        return number

    def need(self, *sources: int, atom: str = "", is_whole: bool = False) -> None:
        """The next assistant turn uses `atom` from one of `sources`."""
        self.needs.append(Need(len(self.messages), sources, atom, is_whole))

    def session(self) -> Session:
        return Session(self.name, tuple(self.messages), tuple(self.needs))

    def _add(self, kind: Kind, role: str, text: str, *, is_pinned: bool = False) -> None:
        self._group += 1
        number = len(self.messages)
        self.messages.append(Message(kind, text, self._group, self._call, is_pinned=is_pinned))
        for maker in self._makers:
            maker.read(Listed(_id(number), number, Element(b"", "message", role, text, ())))


def _id(number: int) -> str:
    return f"m{number:06d}"


def _tokens(text: str) -> int:
    return len(text) // 4 + 4


def _parse(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


PLACES = [
    "mole",
    "quay",
    "sluice",
    "berth",
    "gauge",
    "beacon",
    "dyke",
    "weir",
    "ferry",
    "pilot",
    "buoy",
    "slip",
    "basin",
    "lock",
    "jetty",
    "crane",
]
DOINGS = [
    "moors",
    "drains",
    "opens",
    "shifts",
    "logs",
    "pumps",
    "raises",
    "lowers",
    "counts",
    "charts",
    "dredges",
    "tows",
    "lights",
    "rings",
]


def _code(chance: random.Random, size: int) -> str:
    lines: list[str] = []
    while sum(len(line) + 1 for line in lines) < size:
        a, b, n = chance.choice(PLACES), chance.choice(DOINGS), chance.randint(10, 9_999)
        lines += [f"def {b}_{a}_{n}(level, tide={n}):", f"    {a} = survey_{a}(level) + {n}",
                  f"    return {a} if {a} > tide else {b}_default", ""]  # fmt: skip
    return "\n".join(lines)[:size]


def _grep(chance: random.Random, size: int) -> str:
    lines: list[str] = []
    while sum(len(line) + 1 for line in lines) < size:
        a, b, n = chance.choice(PLACES), chance.choice(DOINGS), chance.randint(10, 9_999)
        lines.append(f"harbour/{a}/{b}_{n % 97}.py:{n}:    {a} = {b}_{a}_{n}(level)  # {chance.choice(DOINGS)} first")
    return "\n".join(lines)[:size]


def _log(chance: random.Random, size: int) -> str:
    lines: list[str] = []
    while sum(len(line) + 1 for line in lines) < size:
        n = len(lines)
        lines.append(f"2026-04-02T{n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}Z INFO {chance.choice(PLACES)} "
                     f"{chance.choice(DOINGS)} level={chance.randint(0, 900)}")  # fmt: skip
    at = chance.randrange(len(lines))
    lines[at] = lines[at].replace("INFO", "ERROR") + f" code=E{chance.randint(1_000, 9_999)}"
    return "\n".join(lines)


def _json(chance: random.Random, size: int) -> str:
    rows: list[dict[str, object]] = []
    while len(json.dumps(rows)) < size:
        rows.append({"id": chance.randint(10_000, 99_999), "place": chance.choice(PLACES),
                     "state": chance.choice(DOINGS), "level": chance.randint(0, 900)})  # fmt: skip
    return json.dumps(rows)


def big_outputs(seed: int = 7, turns: int = 40) -> Session:
    """A result of 4-12 KB at every turn: searches, arrays, logs with one ERROR, code; one file read eight times."""
    chance = random.Random(seed)
    build = Builder(f"big-{seed}")
    build.system("You keep a harbour's software in order. Use the tools. " * 20)
    build.user("Find out why the sluice opens late, and repair it. " * 4)
    same = _code(chance, 8_000)
    rereads = set(chance.sample(range(turns), 8))
    for turn in range(turns):
        size = chance.randint(4_000, 12_000)
        said = f"Step {turn}: I look at the {chance.choice(PLACES)} next, as the {chance.choice(PLACES)} seems right."
        if turn in rereads:
            build.step("read_file", "harbour/sluice/core.py", same, said)
            continue
        kind = chance.choice(["search", "query", "logs", "read_file"])
        make = {"search": _grep, "query": _json, "logs": _log, "read_file": _code}[kind]
        build.step(kind, f"{chance.choice(PLACES)}_{chance.randint(100, 999)}", make(chance, size), said)
    build.assistant("Repaired.")
    return build.session()


def coding_run(seed: int, calls: int) -> Session:
    """Like natural coding runs: about 400 tokens a call, half of it prose and edits, facts needed late."""
    chance = random.Random(seed)
    build = Builder(f"code-{calls}-{seed}")
    build.system("You are a careful engineer in a harbour office. " * 12)
    build.user("The pump in basin 4 is logged twice. Find the cause, repair it, and test it. " * 6)
    reads: list[tuple[int, str]] = []
    for call in range(calls):
        said = " ".join(f"{chance.choice(PLACES)} {chance.choice(DOINGS)}" for _ in range(chance.randint(10, 50)))
        if reads and chance.random() < 0.12:
            # A fact from any earlier reading, most of them recent, some from long ago.
            back = min(len(reads) - 1, int(chance.expovariate(1 / 6)))
            source, name = reads[-1 - back]
            build.need(source, atom=name)
            said += f" {name}"
        roll = chance.random()
        if roll < 0.35:
            text = _code(chance, int(chance.lognormvariate(7.0, 0.9)) + 200)
            path = f"harbour/{chance.choice(PLACES)}/{chance.choice(DOINGS)}_{call}.py"
            source = build.step("bash", f"cat {path}", text, said)
            names = [line.split("(")[0][4:] for line in text.splitlines() if line.startswith("def ")]
            if names:
                reads.append((source, chance.choice(names)))
        elif roll < 0.55:
            build.step(
                "bash", f"grep -rn {chance.choice(PLACES)} harbour", _grep(chance, chance.randint(200, 2_500)), said
            )
        elif roll < 0.8:
            edit = _code(chance, chance.randint(400, 3_000))
            build.step("bash", f"cat > harbour/fix_{call}.py <<'EOF'\n{edit}\nEOF", "done", said)
        else:
            build.step(
                "bash", f"python -m pytest harbour/test_{call}.py", _log(chance, chance.randint(300, 3_000)), said
            )
    build.assistant("It is repaired and tested.")
    return build.session()


def recorded(path: Path, labels: Path | None = None) -> Session:
    """A recorded run: one chat message a line. Labels are optional."""
    build = Builder(path.stem)
    names: dict[str, tuple[str, str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        message = json.loads(line)
        text = message.get("content") or ""
        if not isinstance(text, str):
            text = "\n".join(part.get("text", "") for part in text)
        if message["role"] in ("system", "developer"):
            build.system(text)
        elif message["role"] == "user":
            build.user(text)
        elif message["role"] == "assistant":
            calls = message.get("tool_calls") or []
            for call in calls:
                function = call["function"]
                names[call["id"]] = (function["name"], key_argument(function["arguments"]))
            arguments = "\n".join(call["function"]["arguments"] for call in calls)
            build.assistant(f"{text}\n{arguments}")
        else:
            build.result(*names.get(message.get("tool_call_id", ""), ("", "")), text)
    if labels is not None and labels.exists():
        for step in json.loads(labels.read_text(encoding="utf-8"))["steps"]:
            build.needs += [
                Need(step["step"], tuple(need["sources"]), str(need.get("atom") or ""), need["kind"] == "state")
                for need in step["needs"]
                if all(source < step["step"] for source in need["sources"])
            ]
    return build.session()


def demo(made: DemoSession, name: str = "demo") -> Session:
    """A session of the demonstration: large outputs, some of them logs with one ERROR line."""
    build = Builder(name)
    build.system(f"{made.system}\n{made.tools}")
    for turn in made.turns:
        build.user(turn.ask)
        for step in turn.steps:
            build.assistant("\n".join([step.note, *(call.arguments for call in step.calls)]))
            for call, result in zip(step.calls, step.results, strict=True):
                build.result(call.name, key_argument(call.arguments), result)
        build.assistant(turn.answer)
    return build.session()
