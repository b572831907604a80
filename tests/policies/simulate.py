"""A small model of the bill: sessions, a prompt cache, prices, and needs. For judging policies, not a test itself.

Tokens are chars/4. The cache is the longest common prefix with any of the last six requests, at
least 1,024 tokens, in steps of 128. A need met by no visible source costs one more call: the window
cached, the item at list price, 60 output tokens; its copy then stays where it came in, until what
stands before it is folded.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from policies.contract import Policy, check
from policies.draft import digest_allowance
from policies.model import NOT_OFFERED, Budget, Candidate, Form, Kind, Pressure, Prices, Situation
from proxy.core import forms
from proxy.core.grouping import key_argument

EXPAND_OUTPUT = 60


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


@dataclass(slots=True)
class Bill:
    """What a session cost under one policy."""

    input: float = 0.0
    calls: int = 0
    changes: int = 0  # windows that the policy changed
    breaks: int = 0  # requests of which the one before is no prefix
    needs: int = 0
    met: int = 0
    expands: int = 0
    peak: int = 0
    over: int = 0  # calls above the limit
    breaks_at: list[int] = field(default_factory=list)


def simulate(
    session: Session, policy: Policy, prices: Prices | None = None, *, limit: int = 0, guard: float = 0.97,
    goal: float = 0.6,
) -> Bill:  # fmt: skip
    """Replay a session. With `limit`, pressure arises when the next request would pass `guard` x limit."""
    prices = prices or Prices()
    bill = Bill()
    held: dict[str, Form] = {}
    memory: Mapping[str, float] = {}
    digest_tokens = 0
    seen = 0
    past: list[list[tuple[str, int]]] = []
    copies: dict[int, int] = {}
    needs: dict[int, list[Need]] = {}
    for need in session.needs:
        needs.setdefault(need.step, []).append(need)
    for step, message in enumerate(session.messages):
        if message.kind != "assistant" or (step and session.messages[step - 1].group == message.group):
            continue
        candidates = _candidates(session.messages[:step], seen)
        extra = sum(session.messages[source].tokens for source in copies)
        pressure = _pressure(candidates, held, digest_tokens + extra, limit, guard, goal)
        situation = Situation(
            candidates, Budget(limit or 10_000_000), prices, held, digest_tokens, pressure, memory=memory
        )
        selection = policy.select(situation)
        check(situation, selection)
        chosen = [choice.form for choice in selection.choices]
        if any(held.get(c.id, Form.FULL) is not form for c, form in zip(candidates, chosen, strict=True)):
            bill.changes += 1
        copies = {source: at for source, at in copies.items() if chosen[at - 1] > Form.FOLDED}
        blocks, digest_tokens = _blocks(candidates, chosen, copies)
        cost, window = _price(blocks, past, prices)
        if past and _common(blocks, past[-1]) < sum(tokens for _, tokens in past[-1]):
            bill.breaks += 1
            bill.breaks_at.append(step)
        bill.input += cost
        bill.calls += 1
        bill.peak = max(bill.peak, window)
        bill.over += bool(limit and window > limit)
        past = [*past[-5:], blocks]
        held = {c.id: form for c, form in zip(candidates, chosen, strict=True) if form is not Form.FULL}
        memory = selection.memory
        seen = step
        _meet(session, needs.get(step, ()), chosen, copies, window, prices, bill)
    return bill


def _candidates(messages: Sequence[Message], seen: int) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(
            id=f"m{index}",
            index=index,
            group=message.group,
            call=message.call,
            kind=message.kind,
            costs=(0, 0, message.stub, message.excerpt, NOT_OFFERED, message.tokens),
            is_pinned=message.is_pinned,
            is_seen=index < seen,
            tool=message.tool,
            size_chars=len(message.text),
            text=message.text,
            source=message.source,
        )
        for index, message in enumerate(messages)
    )


def _pressure(
    candidates: Sequence[Candidate], held: Mapping[str, Form], digest: int, limit: int, guard: float, goal: float
) -> Pressure | None:
    if not limit:
        return None
    tokens = digest + sum(max(0, c.costs[held.get(c.id, Form.FULL)]) for c in candidates)
    return Pressure("guard", int(goal * limit), tokens) if tokens > guard * limit else None


def _blocks(
    candidates: Sequence[Candidate], chosen: Sequence[Form], copies: Mapping[int, int]
) -> tuple[list[tuple[str, int]], int]:
    folded = [c.id for c, form in zip(candidates, chosen, strict=True) if form is Form.FOLDED]
    calls = sum(form is Form.FOLDED and c.kind == "tool_result" for c, form in zip(candidates, chosen, strict=True))
    digest = digest_allowance(calls) if folded else 0
    blocks: list[tuple[str, int]] = []
    has_digest = False
    for candidate, form in zip(candidates, chosen, strict=True):
        if form is Form.FOLDED:
            if not has_digest:
                blocks.append((f"digest of {len(folded)} to {folded[-1]}", digest))
                has_digest = True
        elif form is not Form.ABSENT:
            blocks.append((f"{candidate.id}/{form}", candidate.costs[form]))
        for source, at in copies.items():
            if at == candidate.index + 1:
                blocks.append((f"copy of {source}", candidates[source].tokens))
    return blocks, digest


def _price(
    blocks: Sequence[tuple[str, int]], past: Sequence[Sequence[tuple[str, int]]], prices: Prices
) -> tuple[float, int]:
    window = sum(tokens for _, tokens in blocks)
    common = max((_common(blocks, other) for other in past), default=0)
    cached = common // 128 * 128 if common >= 1_024 else 0
    return cached * prices.cached + (window - cached) * prices.write, window


def _common(one: Sequence[tuple[str, int]], other: Sequence[tuple[str, int]]) -> int:
    common = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        common += a[1]
    return common


def _meet(
    session: Session, needs: Sequence[Need], chosen: Sequence[Form], copies: dict[int, int], window: int,
    prices: Prices, bill: Bill,
) -> None:  # fmt: skip
    for need in needs:
        bill.needs += 1
        if any(source in copies or _shows(session.messages[source], chosen[source], need) for source in need.sources):
            bill.met += 1
            continue
        source = need.sources[-1]
        bill.expands += 1
        bill.input += window * prices.cached + session.messages[source].tokens + EXPAND_OUTPUT * prices.output
        copies[source] = need.step


def _shows(message: Message, form: Form, need: Need) -> bool:
    if form is Form.FULL:
        return True
    return form is Form.EXCERPT and not need.is_whole and bool(need.atom) and need.atom in message.excerpt_text


def tool_result(text: str, group: int, call: int, tool: str, source: str, number: int) -> Message:
    """A result with the stub and the excerpt that the product itself would make."""
    full = len(text) // 4 + 4
    stub = len(forms.stub(text, id=f"m{number:06d}", tool=tool, failed=False, argument=source)) // 4 + 4
    shape = _shape(text) if full >= 1_000 else ""
    made = forms.excerpt(text, id=f"m{number:06d}", tool=tool, failed=False, argument=source, shape_text=shape)
    excerpt = len(made) // 4 + 4 if made is not None and full >= 300 else NOT_OFFERED
    is_stub = len(text) >= 500 and stub < full
    return Message(
        "tool_result", text, group, call, tool, source, stub if is_stub else NOT_OFFERED, excerpt, made or ""
    )


def _shape(text: str) -> str:
    if not forms.is_json_like(text):
        return ""
    try:
        return forms.shape(json.loads(text))
    except ValueError:
        return ""


class Builder:
    """Writes a session message by message."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.messages: list[Message] = []
        self.needs: list[Need] = []
        self._group = -1
        self._call = 0

    def system(self, text: str) -> None:
        self._add("system", text, is_pinned=True)

    def user(self, text: str) -> None:
        is_first = all(message.kind != "user" for message in self.messages)
        self._add("user", text, is_pinned=is_first)

    def step(self, tool: str, source: str, result: str, said: str = "") -> int:
        """An assistant turn with one call, and its result; the index of the result."""
        self.assistant(f"{said}\n{tool} {source}")
        return self.result(tool, source, result)

    def assistant(self, text: str) -> None:
        self._call += 1
        self._add("assistant", text)

    def result(self, tool: str, source: str, text: str) -> int:
        self.messages.append(tool_result(text, self._group, self._call, tool, source, len(self.messages)))
        return len(self.messages) - 1

    def need(self, *sources: int, atom: str = "", is_whole: bool = False) -> None:
        """The next assistant turn uses `atom` from one of `sources`."""
        self.needs.append(Need(len(self.messages), sources, atom, is_whole))

    def session(self) -> Session:
        return Session(self.name, tuple(self.messages), tuple(self.needs))

    def _add(self, kind: Kind, text: str, *, is_pinned: bool = False) -> None:
        self._group += 1
        self.messages.append(Message(kind, text, self._group, self._call, is_pinned=is_pinned))


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
