"""Known branches as placement sees them, how one moves on, and an index of the live ones in memory.

Pure bookkeeping: no locks, no I/O; the store is the truth and this stands in front of it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from proxy.core.identity import Path, Probe, Step
from proxy.core.receipts import Key, new_keys, scope_key
from proxy.core.records import BranchKind

LastOutcome = Literal["streaming", "ok", "failed", "cancelled"]
Verdict = Literal["new", "continue", "fork", "regenerate", "retry", "twin", "side", "subagent", "epoch"]

_WEIGHTS = {"response": 16, "call": 4, "node": 2, "text": 1, "scope": 1}
_SHARED_AT_MOST = 64  # branches kept per key: a key that more share says little
_STEP_BYTES = 700  # measured: a step with its strings and its places in a path's indexes
_KEY_BYTES = 350  # measured: a key with its entries in both directions


@dataclass(frozen=True, slots=True, eq=False)
class BranchView:
    """A branch's latest state. `path` holds the last request (its first `sent` steps) and the reply to it."""

    id: str
    tenant: str
    conversation: str
    kind: BranchKind = "main"
    parent: str = ""
    parent_kind: str = ""
    scope: str = ""
    head_hash: bytes = b""
    tools_hash: bytes = b""
    model: str = ""
    epoch: int = 0
    path: Path = field(default_factory=Path)
    sent: int = 0
    outcome: LastOutcome = "ok"
    kinds: tuple[tuple[bytes, int], ...] = ()  # blocks that come and go, and how often they did
    tick: int = 0  # grows with every use

    @property
    def reply(self) -> tuple[Step, ...]:
        return self.path.steps[self.sent :]


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Where a request belongs. Positions count the elements of the request, its head included.

    `path` is the branch's path with this request: the first `inherited` steps stand behind a
    `previous_response_id` and are not in the request; blocks known to come and go are left out of it.
    `lcp` counts the leading steps of `path` that the parent or earlier path had too.
    """

    verdict: Verdict
    conversation: str
    branch: str
    kind: BranchKind
    path: Path
    parent: str = ""
    parent_kind: str = ""  # fork, twin, side, subagent, epoch, resumed_from
    epoch: int = 0
    lcp: int = 0
    scope: str = ""
    inherited: int = 0
    is_new_branch: bool = False
    is_unresolved: bool = False  # names a previous response that we never saw: pass it untouched
    ephemeral: tuple[int, ...] = ()
    floating: tuple[int, ...] = ()
    revised: tuple[tuple[int, bytes], ...] = ()  # position, and the hash of the item it stood for
    pruned: tuple[bytes, ...] = ()  # hashes of items that the client left out
    kinds: tuple[tuple[bytes, int], ...] = ()
    summary_of: str = ""  # the side branch whose output this request carries


def follow(placement: Placement, probe: Probe, tick: int) -> BranchView:
    """The branch's state while the placed request is under way."""
    return BranchView(
        id=placement.branch,
        tenant=probe.tenant,
        conversation=placement.conversation,
        kind=placement.kind,
        parent=placement.parent,
        parent_kind=placement.parent_kind,
        scope=placement.scope,
        head_hash=probe.head_hash,
        tools_hash=probe.tools_hash,
        model=probe.model,
        epoch=placement.epoch,
        path=placement.path,
        sent=len(placement.path),
        outcome="streaming",
        kinds=placement.kinds,
        tick=tick,
    )


def finish(view: BranchView, reply: Sequence[Step], outcome: LastOutcome, tick: int) -> BranchView:
    """The branch's state once the reply to its last request is known, whole or partial (see `identity.emitted`)."""
    request = view.path if view.sent == len(view.path) else Path(view.path.steps[: view.sent])
    return replace(view, path=request.plus(reply), outcome=outcome, tick=tick)


class BranchIndex:
    """The live branches of all tenants, found by receipt; the least recently used ones leave first."""

    def __init__(self, max_bytes: int = 256 * 1024 * 1024) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._views: OrderedDict[tuple[str, str], BranchView] = OrderedDict()
        self._keys: dict[tuple[str, str], dict[Key, None]] = {}
        self._found: dict[str, dict[Key, dict[str, None]]] = {}

    def __len__(self) -> int:
        return len(self._views)

    @property
    def size_bytes(self) -> int:
        return self._bytes

    def get(self, tenant: str, branch: str) -> BranchView | None:
        return self._views.get((tenant, branch))

    def put(self, view: BranchView, keys: Iterable[Key] | None = None) -> None:
        """Add a branch or its newer state. `keys` are those of what is new; by default of the whole path."""
        name = (view.tenant, view.id)
        old = self._views.pop(name, None)
        self._bytes += _size(view) - (_size(old) if old else 0)
        self._views[name] = view
        if keys is None:
            keys = (*new_keys(Path(view.path.steps[: view.sent]), 0, view.scope), *new_keys(view.path, 0))
        mine, found = self._keys.setdefault(name, {}), self._found.setdefault(view.tenant, {})
        for key in keys:
            if key not in mine:
                mine[key] = None
                self._bytes += _KEY_BYTES
            sharers = found.setdefault(key, {})
            sharers.pop(view.id, None)
            sharers[view.id] = None
            if len(sharers) > _SHARED_AT_MOST:
                del sharers[next(iter(sharers))]
        while self._bytes > self._max_bytes and len(self._views) > 1:
            self._drop(next(iter(self._views)))

    def candidates(self, tenant: str, keys: Sequence[Key], scope: str = "", limit: int = 32) -> list[BranchView]:
        """Branches that the keys lead to, those with the best matches first, and the parents of those found."""
        found = self._found.get(tenant, {})
        scores: dict[str, int] = {}
        for key in (*keys, *((scope_key(scope),) if scope else ())):
            for branch in found.get(key, ()):
                scores[branch] = scores.get(branch, 0) + _WEIGHTS.get(key[0], 1)
        views = [view for branch in scores if (view := self._views.get((tenant, branch)))]
        views.sort(key=lambda view: (-scores[view.id], -view.tick))
        chosen = {view.id: view for view in views[:limit]}
        for view in views[:limit]:
            parent = self._views.get((tenant, view.parent))
            if parent is not None:
                chosen.setdefault(parent.id, parent)
        return list(chosen.values())

    def _drop(self, name: tuple[str, str]) -> None:
        tenant, branch = name
        self._bytes -= _size(self._views.pop(name))
        found = self._found[tenant]
        mine = self._keys.pop(name)
        self._bytes -= _KEY_BYTES * len(mine)
        for key in mine:
            sharers = found.get(key)
            if sharers is not None:
                sharers.pop(branch, None)
                if not sharers:
                    del found[key]
        if not found:
            del self._found[tenant]


def _size(view: BranchView) -> int:
    return 2_000 + len(view.path.flat) + _STEP_BYTES * len(view.path)
