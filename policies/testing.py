"""For policy authors: builders of situations, and a check that a policy keeps its contract on many of them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from policies.contract import Policy, check
from policies.model import NOT_OFFERED, Budget, Candidate, Form, Kind, Pressure, PressureKind, Selection, Situation

STUB_TOKENS = 40


def make_candidate(
    index: int, kind: Kind, tokens: int, *, group: int | None = None, call: int = 0, is_seen: bool = True,
    is_pinned: bool = False, stub: int | None = None, excerpt: int = NOT_OFFERED, text: str = "", tool: str = "",
    source: str = "", id: str | None = None, bases: Sequence[str] = (),
) -> Candidate:  # fmt: skip
    """One candidate. A tool result offers a stub of 40 tokens when that is shorter. With `bases`, it is a delta."""
    if stub is None:
        stub = STUB_TOKENS if kind == "tool_result" and tokens > STUB_TOKENS else NOT_OFFERED
    return Candidate(
        id=f"i{index:04d}" if id is None else id,
        index=index,
        group=index if group is None else group,
        call=call,
        kind=kind,
        costs=(0, 0, stub, excerpt, NOT_OFFERED, tokens),
        is_pinned=is_pinned,
        is_seen=is_seen,
        tool=tool,
        text=text,
        source=source,
        size_chars=4 * tokens,
        excerpt="" if excerpt == NOT_OFFERED else "delta" if bases else "lines",
        bases=tuple(bases),
    )


def make_session(
    calls: int, result_tokens: int = 1_000, *, call_tokens: int = 50, results_per_call: int = 1, unseen_calls: int = 1
) -> tuple[Candidate, ...]:
    """System, first user message and `calls` exchanges, the last `unseen_calls` of them new to the model."""
    made = [
        make_candidate(0, "system", 200, is_pinned=True),
        make_candidate(1, "user", 100, is_pinned=True),
    ]
    for call in range(1, calls + 1):
        group = call + 1
        is_seen = call <= calls - unseen_calls
        made.append(make_candidate(len(made), "assistant", call_tokens, group=group, call=call, is_seen=is_seen))
        for _ in range(results_per_call):
            made.append(
                make_candidate(len(made), "tool_result", result_tokens, group=group, call=call, is_seen=is_seen)
            )
    return tuple(made)


def make_situation(
    candidates: Sequence[Candidate], *, ceiling: int = 1_000_000, pressure: Pressure | None = None,
    held: Mapping[str, Form] | None = None, memory: Mapping[str, float] | None = None, is_cold: bool = False,
    free_from: int | None = None,
) -> Situation:  # fmt: skip
    """A situation over the candidates, without pressure unless asked for."""
    return Situation(
        candidates=tuple(candidates),
        budget=Budget(ceiling=ceiling),
        held=held or {},
        pressure=pressure,
        memory=memory or {},
        is_cold=is_cold,
        free_from=free_from,
    )


def forms_of(selection: Selection) -> dict[str, Form]:
    return {choice.id: choice.form for choice in selection.choices}


def random_situation(seed: int) -> Situation:
    """A situation with all that real lists have: several results a call, lone groups, late pins, gaps in costs.

    Some excerpts are deltas, some of those on another delta or on an item that is not in the list any more.
    """
    chance = random.Random(seed)
    candidates: list[Candidate] = []
    shapes: list[list[Kind]] = [["user"], ["assistant"], ["reasoning", "assistant"], ["system"], ["opaque"]]
    caller: Kind = "assistant"
    results: list[list[Kind]] = [["tool_result"], ["tool_result"] * 2, ["tool_result"] * 3]
    shapes += [["tool_result"], *([caller, *more] for more in results)]
    call = 0
    for group in range(chance.randint(0, 40)):
        kinds = chance.choice(shapes)
        call += "assistant" in kinds
        for kind in kinds:
            tokens = chance.choice([0, 5, 60, 400, 3_000])
            results_before = [c.id for c in candidates[-12:] if c.kind == "tool_result"]
            is_delta = kind == "tool_result" and tokens > 200 and results_before and chance.random() < 0.5
            bases = chance.sample(results_before, min(len(results_before), 2)) if is_delta else []
            bases += ["gone"] if bases and chance.random() < 0.05 else []
            candidates.append(
                make_candidate(
                    len(candidates), kind, tokens, group=group, call=call, is_seen=chance.random() < 0.8,
                    is_pinned=kind == "system" or chance.random() < 0.05,
                    excerpt=tokens // 4 if kind == "tool_result" and tokens > 200 else NOT_OFFERED,
                    bases=bases,
                )
            )  # fmt: skip
    held = {c.id: chance.choice(list(Form)) for c in candidates if chance.random() < 0.2}
    pressure_kind: PressureKind | None = chance.choice([None, "threshold", "guard", "overflow", "budget"])
    pressure = Pressure(pressure_kind, target=chance.choice([0, 500, 5_000, 50_000])) if pressure_kind else None
    return make_situation(
        candidates, ceiling=chance.choice([1_000, 20_000, 200_000]), held=held, pressure=pressure,
        is_cold=chance.random() < 0.1,
        free_from=chance.choice([None, None, None, chance.randint(0, len(candidates))]),
        memory={"sent": chance.randint(0, len(candidates)), "rent": chance.choice([0.0, 1e9])},
    )  # fmt: skip


def check_policy(policy: Policy, situations: Iterable[Situation] | None = None) -> int:
    """Raise on the first situation where `policy` breaks its contract or answers twice differently.

    Without situations, 300 random ones are used. Returns how many were checked.
    """
    checked = 0
    for situation in (random_situation(seed) for seed in range(300)) if situations is None else situations:
        selection = policy.select(situation)
        check(situation, selection)
        if policy.select(replace(situation)) != selection:
            raise AssertionError(f"policy {policy.name!r} gave two answers to one situation")
        checked += 1
    return checked
