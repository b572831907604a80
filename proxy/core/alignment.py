"""How a new list continues an old path that is not its prefix: what was revised, moved, dropped or is ephemeral.

Anchors (call ids, then equal content in order) pin the two lists together; only what lies between is judged.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from operator import is_

import msgspec

from proxy.core.identity import ATOM, RECEIPT_TEXT, Path, Step, fingerprint, is_strong

KIND_TEXT = 24  # characters at the start of a text that tell one kind of block from another
KNOWN_AFTER = 2  # a kind that vanished this often is ephemeral at first sight
_SIMILAR = 0.6
_DIGITS = re.compile(r"[0-9]+")
_JUDGED = 64  # unpinned blocks compared with each other; more is no moving block but another list
_RUN = 8  # shorter runs may be results of parallel calls in another order


@dataclass(frozen=True, slots=True)
class Alignment:
    """New positions of blocks that moved, of items revised (with the old step), and the old steps gone for good.

    `path` is the new list with old steps where nothing changed. `kinds` are blocks seen to vanish or move.
    """

    path: Path
    lcp: int
    moving: tuple[int, ...] = ()
    revised: tuple[tuple[int, Step], ...] = ()
    pruned: tuple[Step, ...] = ()
    kinds: tuple[bytes, ...] = ()


def common_prefix(old: Path, new: Path) -> int:
    """Bytes of chain that two paths share from the start, as far as their call ids agree."""
    low, high = 0, min(len(old.flat), len(new.flat)) // ATOM
    if old.flat[: high * ATOM] == new.flat[: high * ATOM]:
        low = high
    while low < high:
        middle = (low + high + 1) // 2
        if old.flat[low * ATOM : middle * ATOM] == new.flat[low * ATOM : middle * ATOM]:
            low = middle
        else:
            high = middle - 1
    shared = low * ATOM
    # The chain leaves ids out, so equal replies of two conversations look alike; their ids tell them apart.
    for anchor in old.strong.keys() - new.strong.keys():
        position = old.strong[anchor]
        start = old.end(position)
        if start < shared and _carries_strong_id(new, start):
            shared = start
    return shared


def _carries_strong_id(path: Path, offset: int) -> bool:
    position = bisect_right(path.ends, offset)
    if position >= len(path.steps):
        return False
    step = path.steps[position]
    return any(is_strong(anchor) for anchor in (*step.made, *((step.answered,) if step.answered else ())))


def align(old: Path, new: Path, shared: int, sent: int) -> Alignment:
    """Lay `new` over `old`. `sent` is how many old steps the last request carried; the rest is the reply."""
    steps = list(new.steps)
    first_old, first_new = _keep_shared(old, steps, new, shared)
    if first_old == len(old) == first_new and all(map(is_, steps, old.steps)):
        return Alignment(old.plus(new.steps[len(old) :]), len(old))
    matches, moved = _match(old.steps, new.steps, first_old, first_new)
    pairs = dict(matches)
    floats = {j for j, _ in moved}
    gone = set(range(first_old, len(old))).difference(pairs.values(), (i for _, i in moved))
    fresh = [j for j in range(first_new, len(new)) if j not in pairs and j not in floats]
    revised = {j: i for j, i in pairs.items() if old.steps[i].chain != new.steps[j].chain}
    revised.update(_replaced(old, new, pairs, gone, fresh, (first_old, first_new)))
    gone -= set(revised.values())
    kinds = {kind_of(new.steps[j]) for j in floats}
    # What stood behind the last reply and is gone now was for that one request, unless that was never answered.
    tail = range(tail_start(old.steps[:sent]), sent)
    for i in sorted(gone)[:_JUDGED]:
        twin = next((j for j in fresh[:_JUDGED] if j not in revised and _is_like(old.steps[i], new.steps[j])), None)
        if twin is not None:
            fresh.remove(twin)
            floats.add(twin)
            kinds.add(kind_of(new.steps[twin]))
        if _can_float(old.steps[i]) and (twin is not None or i in tail):
            gone.discard(i)
            if twin is not None or sent < len(old):
                kinds.add(kind_of(old.steps[i]))
    _carry_over(old, steps, {**pairs, **dict(moved)}, revised)
    return Alignment(
        Path(steps),
        first_new,
        tuple(sorted(floats)),
        tuple((j, old.steps[i]) for j, i in sorted(revised.items())),
        tuple(old.steps[i] for i in sorted(gone) if old.steps[i].chain),
        tuple(sorted(kinds)),
    )


def kind_of(step: Step) -> bytes:
    """What sort of block a step is: its role and how its text begins."""
    return fingerprint("kind", step.role, _beginning(step), size=8)


def _beginning(step: Step) -> str:
    # Clocks and counters are what makes such blocks change.
    return _DIGITS.sub("", step.text[: 2 * KIND_TEXT])[:KIND_TEXT]


def without_known(
    path: Path, counts: Mapping[bytes, int], relayed: Set[bytes] = frozenset()
) -> tuple[Path, tuple[int, ...]]:
    """The path without blocks of kinds known to come and go, and where those stood. Relayed texts are never such."""
    known = {kind for kind, count in counts.items() if count >= KNOWN_AFTER}
    if not known:
        return path, ()
    dropped = tuple(
        i
        for i, step in enumerate(path.steps)
        if _can_float(step) and step.receipt not in relayed and kind_of(step) in known
    )
    if not dropped:
        return path, ()
    gone = set(dropped)
    return Path([step for i, step in enumerate(path.steps) if i not in gone]), dropped


def is_edited(a: Step, b: Step) -> bool:
    """Whether one text begins with the other: what is left of a reply that a client cut or added to."""
    return min(a.size, b.size) >= RECEIPT_TEXT and (a.text.startswith(b.text) or b.text.startswith(a.text))


def _is_similar(a: Step, b: Step) -> bool:
    left, right = _shingles(a.text), _shingles(b.text)
    return min(len(left), len(right)) >= KIND_TEXT and len(left & right) >= _SIMILAR * min(len(left), len(right))


def _shingles(text: str) -> set[str]:
    return {text[i : i + 8] for i in range(len(text) - 7)}


def _can_float(step: Step) -> bool:
    return not step.made and not step.answered and not step.is_emitted and step.kind == "message"


def _is_like(old: Step, new: Step) -> bool:
    if not _can_float(old) or not _can_float(new) or old.role != new.role or not old.text:
        return False
    return _beginning(old) == _beginning(new) or _is_similar(old, new)


def tail_start(steps: Sequence[Step]) -> int:
    """Where the trailing run begins that no reply or result stands behind."""
    for i in range(len(steps) - 1, -1, -1):
        if steps[i].role == "assistant" or steps[i].answered or steps[i].made:
            return i + 1
    return 0


def _keep_shared(old: Path, steps: list[Step], new: Path, shared: int) -> tuple[int, int]:
    """Put the old steps into the shared part of `steps`; returns where old and new go on after it."""
    first_old, first_new = bisect_right(old.ends, shared), bisect_right(new.ends, shared)
    if old.ends[:first_old] == new.ends[:first_new]:
        kept = zip(old.steps[:first_old], steps, strict=False)
        steps[:first_new] = [a if a.hash == b.hash else b for a, b in kept]
        return first_old, first_new
    # Other granularity (another wire format, or reasoning left out): equal spans keep the old step.
    spans = {
        (old.end(i), end): step for i, (end, step) in enumerate(zip(old.ends, old.steps, strict=True)) if step.chain
    }
    by_start = {start: step for (start, _), step in spans.items()}
    for j in range(first_new):
        span = (new.end(j), new.ends[j])
        if not steps[j].chain:
            continue
        if span in spans:
            steps[j] = spans[span]
        elif (whole := by_start.get(span[0])) is not None and whole.is_emitted:
            steps[j] = msgspec.structs.replace(steps[j], is_emitted=True)
    return first_old, first_new


Pairs = list[tuple[int, int]]  # of positions, new and old


def _match(old: Sequence[Step], new: Sequence[Step], i: int, j: int) -> tuple[Pairs, Pairs]:
    """What stands in both lists from `i` and `j` on, and of that what moved.

    Runs that begin with a call id and agree step for step are taken whole, so that an edit far in
    front costs no more than one pass; only what is left between them is searched.
    """
    pairs: Pairs = []
    moved: Pairs = []
    while True:
        run = _next_run(old, new, i, j)
        end_old, end_new, length = run or (len(old), len(new), 0)
        found, shifted = _match_gap(old[i:end_old], new[j:end_new])
        pairs += [(j + n, i + o) for n, o in found]
        moved += [(j + n, i + o) for n, o in shifted]
        if run is None:
            return pairs, moved
        pairs += zip(range(end_new, end_new + length), range(end_old, end_old + length), strict=True)
        i, j = end_old + length, end_new + length


def _next_run(old: Sequence[Step], new: Sequence[Step], i: int, j: int) -> tuple[int, int, int] | None:
    ahead: dict[tuple[str, str], int] = {}
    for k in range(i, min(i + _JUDGED, len(old))):
        for anchor in _anchors(old[k]):
            ahead.setdefault(anchor, k)
    near = range(j, min(j + _JUDGED, len(new)))
    start = next(((ahead[anchor], k) for k in near for anchor in _anchors(new[k]) if anchor in ahead), None)
    if start is None:
        return None
    length = 1
    for a, b in zip(islice(old, start[0] + 1, None), islice(new, start[1] + 1, None), strict=False):
        if a.chain != b.chain or a.made != b.made or a.answered != b.answered:
            break
        length += 1
    return (*start, length) if length >= _RUN else None


def _match_gap(old: Sequence[Step], new: Sequence[Step]) -> tuple[Pairs, Pairs]:
    """By call id first, then by equal content; those out of order have moved."""
    by_anchor: dict[tuple[str, str], int] = {}
    by_chain: dict[bytes, deque[int]] = {}
    for i, step in enumerate(old):
        for anchor in _anchors(step):
            by_anchor.setdefault(anchor, i)
        if step.chain:
            by_chain.setdefault(step.chain, deque()).append(i)
    used: set[int] = set()
    pairs: Pairs = []
    for j, step in enumerate(new):
        found = next((by_anchor[anchor] for anchor in _anchors(step) if anchor in by_anchor), None)
        if found is None and step.chain in by_chain:
            waiting = by_chain[step.chain]
            while waiting and waiting[0] in used:
                waiting.popleft()
            found = waiting[0] if waiting and not _anchors(old[waiting[0]]) else None
        if found is not None and found not in used:
            used.add(found)
            pairs.append((j, found))
    kept = _in_order(pairs, [not _can_float(old[i]) for _, i in pairs])
    moved = [pair for k, pair in enumerate(pairs) if k not in kept and _can_float(old[pair[1]])]
    floating = set(moved)
    # Results of parallel calls in another order are still pinned by their ids.
    return [pair for pair in pairs if pair not in floating], moved


def _in_order(pairs: Sequence[tuple[int, int]], is_pinned: Sequence[bool]) -> set[int]:
    """Which pairs keep their order: as many pinned ones as possible, and of the others those that fit in."""
    pinned = [k for k, pin in enumerate(is_pinned) if pin]
    spine = [pinned[n] for n in _longest_rise([pairs[k][1] for k in pinned])]
    spine_set = set(spine)
    ends = [pairs[k][1] for k in spine]

    def fits(k: int) -> bool:
        n = bisect_left(spine, k)
        return (n == 0 or ends[n - 1] < pairs[k][1]) and (n == len(ends) or pairs[k][1] < ends[n])

    fitting = [k for k in range(len(pairs)) if k in spine_set or (not is_pinned[k] and fits(k))]
    return {fitting[n] for n in _longest_rise([pairs[k][1] for k in fitting])}


def _anchors(step: Step) -> Sequence[tuple[str, str]]:
    if not step.made and not step.answered:
        return ()
    found = [("made", anchor) for anchor in step.made if is_strong(anchor)]
    if step.answered and is_strong(step.answered):
        found.append(("answered", step.answered))
    return found


def _longest_rise(values: Sequence[int]) -> list[int]:
    """Positions of a longest increasing subsequence."""
    tops: list[int] = []
    at: list[int] = []
    back: list[int] = []
    for position, value in enumerate(values):
        k = bisect_left(tops, value)
        back.append(at[k - 1] if k else -1)
        if k == len(tops):
            tops.append(value)
            at.append(position)
        else:
            tops[k], at[k] = value, position
    found = []
    position = at[-1] if at else -1
    while position >= 0:
        found.append(position)
        position = back[position]
    return found[::-1]


def _replaced(
    old: Path, new: Path, pairs: Mapping[int, int], gone: set[int], fresh: Sequence[int], start: tuple[int, int]
) -> dict[int, int]:
    """New steps that stand where an old one of the same role stood: alike, or with the same step behind both."""
    found: dict[int, int] = {}
    for j in fresh:
        before = pairs.get(j - 1, found.get(j - 1, start[0] - 1 if j == start[1] else None))
        if before is None or before + 1 not in gone:
            continue
        i = before + 1
        after = pairs.get(j + 1)
        pinned = after is not None and after == i + 1
        edited = old.steps[i].is_emitted and is_edited(old.steps[i], new.steps[j])
        is_same = pinned or edited or _is_like(old.steps[i], new.steps[j])
        if old.steps[i].role == new.steps[j].role and old.steps[i].chain and is_same:
            found[j] = i
    return found


def _carry_over(old: Path, steps: list[Step], pairs: Mapping[int, int], revised: Mapping[int, int]) -> None:
    """Where content is unchanged keep the old step; where it was revised keep what is known of its origin."""
    for j, i in {**pairs, **revised}.items():
        before = old.steps[i]
        if before.hash == steps[j].hash:
            steps[j] = before
        elif before.is_emitted:
            steps[j] = msgspec.structs.replace(
                steps[j], is_emitted=True, response=before.response, kept_in=before.kept_in
            )
