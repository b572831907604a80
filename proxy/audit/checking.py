"""Checks that a chain of display rows is whole, unchanged and in order, and names the rows that are not. No I/O."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b

from proxy.store import signatures
from proxy.store.archive import ChainLine, SealedRow
from proxy.store.seals import FIRST, REDACTIONS, STRAY, seal

_MOST_BAD_ROWS = 64
"""So many bad rows of one chain are kept to find out where they belong."""
_RECENT_BODIES = 1 << 16


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. `kind` is changed, missing, reordered, unrecorded, unsigned or damaged."""

    kind: str
    chain: str
    what: str

    def __str__(self) -> str:
        place = f"conversation {self.chain}: " if self.chain else ""
        return f"{self.kind}: {place}{self.what}"


@dataclass(slots=True)
class ChainCheck:
    """Takes the rows of one chain as they lie; `finish` compares with the head that was recorded apart from them."""

    chain: str
    length: int
    head: bytes
    problems: list[Problem] = field(default_factory=list)
    _before: bytes = FIRST
    _place: int = 0
    _seqs: dict[str, tuple[int, str]] = field(default_factory=dict)
    _seals: list[bytes] = field(default_factory=list)
    _bad: list[SealedRow] = field(default_factory=list)

    def add(self, row: SealedRow) -> None:
        if row.place != self._place + 1:
            self._jump(row)
        self._place = row.place
        last, name = self._seqs.get(row.table.name, (0, ""))
        if row.seq <= last:
            self._problem("reordered", f"{row.name} is numbered {row.seq}, and comes behind {name}, {last}")
        self._seqs[row.table.name] = (row.seq, row.name)
        if row.values is None or seal(self._before, row.table.name, row.place, row.values) != row.seal:
            if len(self._bad) < _MOST_BAD_ROWS:
                self._bad.append(row)
                self._seals += [self._before, row.seal]
            else:
                self._problem("changed", f"{row.name} (place {row.place})")
        elif "conversation" in row.table.names and _home(row) != self.chain:
            self._problem("changed", f"{row.name} was sealed in the chain {_home(row)}")
        self._before = row.seal

    def finish(self) -> list[Problem]:
        """Everything that is wrong with the chain."""
        for row in self._bad:
            self._problem(*self._verdict(row))
        if self._place < self.length:
            self._problem("missing", f"its last {self.length - self._place} rows, of {self.length}")
        elif self._place > self.length:
            self._problem("unrecorded", f"{self._place - self.length} rows stand behind its recorded end")
        elif self._before != self.head:
            self._problem("changed", "the recorded head, or the seal of the last row")
        return self.problems

    def _jump(self, row: SealedRow) -> None:
        if row.place <= self._place:
            self._problem("unrecorded", f"{row.name} has place {row.place}, which is taken")
        elif row.place == self._place + 2:
            self._problem("missing", f"the row of place {self._place + 1}, before {row.name}")
        else:
            self._problem("missing", f"the rows of places {self._place + 1} to {row.place - 1}, before {row.name}")

    def _verdict(self, row: SealedRow) -> tuple[str, str]:
        """A row that fits at another place was moved; any other was changed."""
        places = {bad.place for bad in self._bad} - {row.place}
        for place in sorted(places if row.values is not None else ()):
            assert row.values is not None
            if any(seal(before, row.table.name, place, row.values) == row.seal for before in self._seals):
                return "reordered", f"{row.name} stands at place {row.place} and belongs at place {place}"
        return "changed", f"{row.name} (place {row.place}), or its seal"

    def _problem(self, kind: str, what: str) -> None:
        self.problems.append(Problem(kind, self.chain, what))


def _home(row: SealedRow) -> str:
    """The chain that a row says it belongs to."""
    tenant = row.value("tenant") if "tenant" in row.table.names else ""
    return row.value("conversation") or STRAY + tenant


def head_problem(chain: ChainLine, secret: bytes) -> list[Problem]:
    """A head that this key did not sign: the whole chain may have been computed anew."""
    if not secret or signatures.is_signed(chain.signature, secret, "chain", chain.id, chain.length, chain.head):
        return []
    what = "is not the one that this key signed" if chain.signature else "carries no signature"
    return [Problem("unsigned", chain.id, f"its head {what}")]


class Marks:
    """What redacted bodies hash to since: a mark counts when a sealed row says the same."""

    def __init__(self) -> None:
        self._sealed: dict[bytes, bytes] = {}

    def add(self, row: SealedRow) -> None:
        if row.table is REDACTIONS and row.values is not None:
            self._sealed[row.value("hash")] = row.value("mark")

    def holds(self, hash: bytes, mark: bytes, data: bytes) -> bool:
        """Whether these are the bytes that were kept under that name."""
        return body_hash(data) == (mark or hash) and (not mark or self._sealed.get(hash) == mark)

    def clear(self) -> None:
        self._sealed.clear()


def body_hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


def bodies_of(row: SealedRow) -> Iterator[bytes]:
    """The hashes of all bytes that a row speaks of."""
    name = row.table.name
    if row.values is None:
        return
    if name in ("messages", "summaries"):
        yield row.value("body")
    elif name == "windows":
        yield row.value("prefix")
        yield row.value("suffix")
        for entry in row.value("tail"):
            yield entry[2]


class RecentBodies:
    """Which bodies an export has given in this conversation, of late: bounded, and the same when read again."""

    def __init__(self) -> None:
        self._hashes: OrderedDict[bytes, None] = OrderedDict()

    def __contains__(self, hash: bytes) -> bool:
        if hash not in self._hashes:
            return False
        self._hashes.move_to_end(hash)
        return True

    def add(self, hash: bytes) -> None:
        self._hashes[hash] = None
        self._hashes.move_to_end(hash)
        if len(self._hashes) > _RECENT_BODIES:
            self._hashes.popitem(last=False)

    def clear(self) -> None:
        self._hashes.clear()
