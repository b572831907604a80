"""Where compaction acts, in billed input tokens, from a model's window and price cliff. Pure."""

from __future__ import annotations

from dataclasses import dataclass

COMPACT_SHARE = 0.735
TARGET_SHARE = 0.6
GUARD_CLIFF_SHARE = 0.97
GUARD_WINDOW_SHARE = 0.86


@dataclass(frozen=True, slots=True)
class Thresholds:
    """`compact_at` acts between turns, the guards inside one; both shrink a window to `target`."""

    boundary: int  # the cliff, else the window
    compact_at: int
    guard_window: int
    target: int
    guard_cliff: int | None = None

    @property
    def guard(self) -> int:
        """The guard that binds."""
        return self.guard_window if self.guard_cliff is None else min(self.guard_cliff, self.guard_window)


def thresholds(
    window: int,
    cliff: int | None = None,
    *,
    compact_at: int | None = None,
    target_share: float = TARGET_SHARE,
    guard_cliff_share: float = GUARD_CLIFF_SHARE,
    guard_window_share: float = GUARD_WINDOW_SHARE,
) -> Thresholds:
    """Thresholds for one model. A cliff at or beyond the window does not count.

    A configured `compact_at` that the guard would always pre-empt here falls back to the default: one
    setting serves many models, and a limit that a provider names may be lower than all of them.
    `dead_zone` tells the operator where that can be known beforehand.
    """
    if cliff is not None and not 0 < cliff < window:
        cliff = None
    boundary = cliff or window
    guard_cliff = int(guard_cliff_share * cliff) if cliff else None
    guard_window = int(guard_window_share * window)
    guard = min(guard_window, guard_cliff or guard_window)
    if not compact_at or compact_at > guard:
        compact_at = min(int(COMPACT_SHARE * boundary), guard)
    return Thresholds(
        boundary=boundary,
        compact_at=compact_at,
        guard_window=guard_window,
        target=min(int(target_share * boundary), compact_at),
        guard_cliff=guard_cliff,
    )


def dead_zone(
    compact_at: int,
    window: int,
    cliff: int | None = None,
    *,
    guard_cliff_share: float = GUARD_CLIFF_SHARE,
    guard_window_share: float = GUARD_WINDOW_SHARE,
) -> str | None:
    """Why a configured `compact_at` cannot work for such a model, or None."""
    default = thresholds(window, cliff, guard_cliff_share=guard_cliff_share, guard_window_share=guard_window_share)
    if compact_at <= default.guard:
        return None
    advice = f"Use {default.guard:,} or less ({default.compact_at:,} is the default)"
    if default.guard_cliff is not None and default.guard == default.guard_cliff:
        place = "above" if compact_at > default.boundary else "just under"
        return (
            f"compact_at = {compact_at:,} lies {place} the price cliff at {default.boundary:,} input tokens: the "
            f"guard compacts at {default.guard:,} to stay under the cliff, so compact_at would never act; without the "
            f"guard every call between the cliff and {default.guard_window:,} would be billed at the higher price. "
            f"{advice}, or set cliff = 0 to pay the higher price on purpose."
        )
    return (
        f"compact_at = {compact_at:,} lies above the guard at {default.guard:,} tokens of a window of {window:,}: "
        f"the guard would always act first. {advice}."
    )
