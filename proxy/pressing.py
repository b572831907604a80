"""When a window must become smaller, and how small: by the last bill and what is new. Decides, and changes nothing."""

from __future__ import annotations

import time

from policies.model import Pressure, PressureKind
from proxy.core.kinds import kind_of
from proxy.core.overflow import Overflow
from proxy.turn_state import Turn
from proxy.windows import Decision

COLD_S = 3600.0
"""After so long without a call no provider's cache is warm."""
REGROWTH = 1.2
"""After a compaction that did not help, the window must grow by this factor before the next attempt."""
MIN_OUTPUT = 256
"""A lowered output allowance below this is no answer: then the input shrinks instead."""


def is_cold(turn: Turn) -> bool:
    """Is nothing of the last window in the provider's cache: after a pause, for another model, other tools?"""
    state = turn.live.state
    is_other = any(state.cached_by) and state.cached_by != turn.cached_by
    return bool(state.at) and (is_other or time.time() - state.at > COLD_S)


def pressure_on(turn: Turn, calm: Decision, expected: int) -> Pressure | None:
    """Does the billed size of the last call, or the expected size of this one, call for compaction?"""
    state, limits = turn.live.state, turn.limits
    marks = limits.thresholds
    if not (state.calls or turn.live.seen) or calm.tokens < REGROWTH * state.futile_at:
        return None
    last = turn.conversation.elements[-1]
    is_new_turn = kind_of(last) == "user"
    if turn.placement.kind == "main" and is_new_turn and min(state.input, expected) >= marks.compact_at:
        return towards(turn, "threshold", marks.target, state.input)
    if expected >= marks.guard:
        return towards(turn, "guard", marks.target, expected)
    return None


def expected(turn: Turn, calm: Decision) -> int:
    """What this request would be billed: the last bill, and what is new."""
    state, limits = turn.live.state, turn.limits
    new = turn.measured.new_tokens(turn.live.seen)
    own = calm.tokens + turn.tools_tokens + turn.tool_tokens
    figure = state.input + limits.billed(new) if state.input else limits.billed(own)
    if calm.reason or not state.calls:  # smaller already, or a fork: its bill was for its parent's list
        figure = min(figure, limits.billed(calm.tokens + turn.tools_tokens))
    return figure


def towards(turn: Turn, kind: PressureKind, billed: float, figure: int) -> Pressure:
    target = turn.limits.counted(billed) - turn.tools_tokens
    return Pressure(kind, max(target, 0), figure)


def output_room(turn: Turn, overflow: Overflow) -> int:
    """The output allowance that fits beside this input; 0 when the request names none or it is too small."""
    asked = turn.conversation.max_output or 0
    used = overflow.input or turn.limits.billed(turn.estimate)
    room = (overflow.limit or 0) - used - max(16, used // 50 if overflow.input is None else 0)
    return room if MIN_OUTPUT <= room < asked else 0
