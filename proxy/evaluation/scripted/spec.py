"""Reads the specifications of stories (proxy/data/tasks/*.toml) and makes stories of plots and seeds.

A plot is a list of moves:

    say    what the user says; `rule` is a standing instruction that he says
    do     a call that the model makes, with what it `gives` ("log 60": kind and lines) and what is planted in it
    both   calls made at once; what is planted lies in the first one's result
    wander the same tool several `times` with arguments that lead nowhere; `noise` is planted in each
    act    a call that must be right: every {?name} in it is what the window says
    heed   a rule: with it in sight `act` is done, without it `otherwise`, which it forbids
    tell   what the model says to the user, with its {?name}s
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib.resources import files
from random import Random
from typing import Any

from proxy.errors import ConfigError
from proxy.evaluation.scripted import material
from proxy.evaluation.scripted.material import PLACEHOLDER


@dataclass(frozen=True, slots=True)
class Need:
    """A value that must be read. The newest place in the window where `pattern` fits says it; `value` is right."""

    name: str
    value: str
    patterns: tuple[str, ...]
    words: tuple[str, ...]  # of the sentences that said it, and of the calls that they came with


@dataclass(frozen=True, slots=True)
class Call:
    """A call as it must be made; `template` has the needs still open."""

    tool: str
    template: Mapping[str, str]
    arguments: Mapping[str, str]
    result: str = "recorded"


@dataclass(frozen=True, slots=True)
class Move:
    """One move of the story, filled in. Only one of `said`, `calls` and `told` is set."""

    said: str = ""
    calls: tuple[Call, ...] = ()
    told: str = ""
    right: str = ""  # `told` as it must be
    needs: tuple[Need, ...] = ()
    rule: str = ""  # must be in sight for `calls`
    otherwise: Call | None = None
    is_checked: bool = False


@dataclass(frozen=True, slots=True)
class Story:
    """A task: what is said, called and checked, in order. `tools` maps each tool to its arguments."""

    name: str
    family: str
    system: str
    moves: tuple[Move, ...]
    tools: Mapping[str, tuple[str, ...]]

    @property
    def digest(self) -> str:
        return sha256(repr((self.system, self.moves)).encode()).hexdigest()[:16]


@dataclass(slots=True)
class _Telling:
    """Values while a story is told: the newest of each name, and every sentence that said one."""

    kinds: Mapping[str, str]
    random: Random
    values: dict[str, str] = field(default_factory=dict)
    said: dict[str, list[tuple[str, frozenset[str]]]] = field(default_factory=dict)

    def fill(self, text: str, near: str = "") -> str:
        """The sentence with its values; it counts as a place where they can be read."""
        self.value_of(text)
        filled = PLACEHOLDER.sub(lambda found: self.values[found[2]], text)
        for _, name, _ in PLACEHOLDER.findall(text):
            self.said.setdefault(name, []).append((self._pattern(text, name), words(f"{filled} {near}")))
        return filled

    def value_of(self, text: str) -> None:
        """Every name in it has a value from here on; an argument of a call says nothing to anybody."""
        for _, name, is_new in PLACEHOLDER.findall(text):
            if is_new or name not in self.values:
                self.values[name] = self._value(name)

    def needs(self, text: str) -> tuple[Need, ...]:
        found = []
        for name in dict.fromkeys(name for is_read, name, _ in PLACEHOLDER.findall(text) if is_read):
            told = self.said.get(name, [])
            if not told:
                raise ConfigError(f"{{?{name}}} is read before anything said it", hint=f"In: {text}")
            patterns = tuple(dict.fromkeys(pattern for pattern, _ in told))
            found.append(
                Need(name, self.values[name], patterns, tuple(sorted(set().union(*(known for _, known in told)))))
            )
        return tuple(found)

    def right(self, text: str) -> str:
        return PLACEHOLDER.sub(lambda found: self.values[found[2]], text)

    def open(self, text: str) -> str:
        """With every value but those that are to be read."""
        return PLACEHOLDER.sub(lambda found: found[0] if found[1] else self.values[found[2]], text)

    def _value(self, name: str) -> str:
        taken = set(self.values.values())
        while (value := material.make(self.kinds[name], self.random)) in taken:
            pass
        return value

    def _pattern(self, text: str, wanted: str) -> str:
        """The sentence as a pattern: the wanted value open, all else as it was said."""
        parts, place = [], 0
        for found in PLACEHOLDER.finditer(text):
            parts.append(re.escape(text[place : found.start()]))
            is_wanted = found[2] == wanted
            parts.append(f"({material.shape(self.kinds[wanted])})" if is_wanted else re.escape(self.values[found[2]]))
            place = found.end()
        # Without the stop at its end: it may stand in the middle of a line.
        return "".join(parts) + re.escape(text[place:].rstrip("."))


def words(text: str) -> frozenset[str]:
    """The words of a text by which something can be looked for."""
    return frozenset(word.lower() for word in re.findall(r"[A-Za-z][\w-]{3,}|\d[\w:.-]{3,}", text))


def tell(plot: Mapping[str, Any], trade: Mapping[str, Any], seed: int) -> Story:
    """The story of a plot for a seed. Raises `ConfigError` for a specification that cannot be told."""
    random = Random(f"{trade['trade']} {plot['name']} {seed}")
    telling = _Telling({**trade.get("names", {}), **plot.get("names", {})}, random)
    system = telling.fill(trade["system"])
    moves: list[Move] = []
    for entry in plot["moves"]:
        moves += _moves(entry, telling)
    tools: dict[str, tuple[str, ...]] = {}
    for move in moves:
        for call in (*move.calls, *((move.otherwise,) if move.otherwise else ())):
            tools[call.tool] = tuple(dict.fromkeys((*tools.get(call.tool, ()), *call.arguments)))
    return Story(f"{trade['trade']}-{plot['name']}-{seed}", trade["trade"], system, tuple(moves), tools)


def _moves(entry: Mapping[str, Any], telling: _Telling) -> list[Move]:
    if "say" in entry or "rule" in entry:
        return [Move(said=telling.fill(entry.get("say") or entry["rule"]))]
    if "tell" in entry:
        needs = telling.needs(entry["tell"])
        return [
            Move(
                told=telling.open(entry["tell"]),
                right=telling.right(entry["tell"]),
                needs=needs,
                is_checked=bool(needs),
            )
        ]
    if "wander" in entry:
        return [_wander(entry, telling) for _ in range(entry["times"])]
    if "do" in entry or "both" in entry:
        texts = [entry["do"]] if "do" in entry else entry["both"]
        made = [_call(text, telling) for text in texts]
        planted = entry.get("plant", [])
        first = _result(entry, telling, [planted] if isinstance(planted, str) else planted, texts[0])
        results = [first, *(_result(entry, telling, [], text) for text in texts[1:])]
        calls = tuple(Call(c.tool, c.template, c.arguments, result) for c, result in zip(made, results, strict=True))
        return [Move(calls=calls)]
    needs = telling.needs(entry["act"])
    call = _call(entry["act"], telling)
    rule = telling.right(entry["heed"]) if "heed" in entry else ""
    otherwise = _call(entry["otherwise"], telling) if rule else None
    return [Move(calls=(call,), needs=needs, rule=rule, otherwise=otherwise, is_checked=True)]


def _call(text: str, telling: _Telling) -> Call:
    tool, *pairs = shlex.split(text)
    template = dict(pair.partition("=")[::2] for pair in pairs)
    for value in template.values():
        if not any(is_read for is_read, _, _ in PLACEHOLDER.findall(value)):
            telling.value_of(value)
    right = {key: telling.right(value) for key, value in template.items()}
    return Call(tool, {key: telling.open(value) for key, value in template.items()}, right)


def _wander(entry: Mapping[str, Any], telling: _Telling) -> Move:
    """Its values are nobody's: they are made and forgotten."""
    aside = _Telling(telling.kinds, telling.random, {})
    call = _call(entry["wander"], aside)
    noise = [aside.fill(entry["noise"])] if "noise" in entry else []
    kind, count = entry["gives"].split()
    result = material.output(kind, int(count), telling.random, noise)
    return Move(calls=(Call(call.tool, call.template, call.arguments, result),))


def _result(entry: Mapping[str, Any], telling: _Telling, planted: Sequence[str], near: str) -> str:
    lines = [telling.fill(line, near=telling.right(near)) for line in planted]
    if "gives" not in entry:
        return "\n".join(lines) or "ok"
    kind, count = entry["gives"].split()
    random = Random(f"{entry['same']} {telling.kinds}") if "same" in entry else telling.random
    return material.output(kind, int(count), random, lines)


@cache
def trades() -> tuple[dict[str, Any], ...]:
    """The specifications that ship with the product, by name."""
    folder = files("proxy") / "data" / "tasks"
    found = sorted((one for one in folder.iterdir() if one.name.endswith(".toml")), key=lambda one: one.name)
    return tuple(tomllib.loads(one.read_text("utf-8")) for one in found)
