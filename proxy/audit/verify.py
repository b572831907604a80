"""Verifies a store or an export: every seal, every body, every head, every tombstone. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256

from proxy.audit.checking import ChainCheck, Marks, Problem, bodies_of, head_problem
from proxy.audit.reading import Reader
from proxy.core.filters import Filters
from proxy.store.archive import Archive, SealedRow, Tombstone
from proxy.store.seals import TABLES
from proxy.store.tombstones import is_signed

_MOST_PROBLEMS = 200
_NO_KEY = "without the store's key, signatures were not checked: who wrote the file could compute its chains anew"


@dataclass(frozen=True, slots=True)
class Verified:
    """What was looked at, and what is wrong. `heads` is one hash over all chain heads: note it elsewhere to compare."""

    chains: int
    rows: int
    bodies: int
    tombstones: int
    heads: str
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return not self.problems


def verify_store(
    archive: Archive, *, secret: bytes | None, on_rows: Callable[[int], None] = lambda rows: None
) -> Verified:
    """Check a store's file, page by page. It may grow meanwhile: each chain is checked up to its length now."""
    problems = [Problem("damaged", "", fault) for fault in archive.faults()]
    heads, chains, rows = sha256(), 0, 0
    numbers: set[int] = set()
    marks = Marks()
    last = archive.last_number()  # before the chains are read: what begins meanwhile is not missing
    for chain in archive.all_chains(Filters()):
        check = ChainCheck(chain.id, chain.length, chain.head)
        after, upto = 0, chain.length
        while page := archive.rows(chain.number, after, upto):
            for row in page:
                check.add(row)
                marks.add(row)
            problems += _missing_bodies(archive, chain.id, page)
            after = page[-1].place
            rows += len(page)
            on_rows(len(page))
        problems += check.finish() + head_problem(chain, secret or b"")
        problems += _behind_the_end(archive, chain.id, chain.number, upto)
        heads.update(f"{chain.id} {chain.length} {chain.head.hex()}\n".encode())
        chains += 1
        numbers.add(chain.number)
    for table in TABLES:
        problems += [Problem("unrecorded", "", f"{row.name} stands in no chain") for row in archive.strays(table)]
    bodies = redacted = 0
    for _, hash, size, data, mark in archive.all_bodies():
        bodies += 1
        redacted += bool(mark)
        if data is None or not marks.holds(hash, mark, data) or len(data) != size:
            problems.append(Problem("changed", "", f"the body {hash.hex()}"))
    stones = archive.tombstones()
    problems += _graves(last, numbers, stones, secret)
    notes = [f"{redacted} bodies were redacted at capture; they are as they were kept"] if redacted else []
    notes += [] if secret else [_NO_KEY]
    found = tuple(problems[:_MOST_PROBLEMS])
    return Verified(chains, rows, bodies, len(stones), heads.hexdigest(), found, tuple(notes))


def verify_export(
    lines: Iterable[bytes], *, secret: bytes = b"", on_bytes: Callable[[int], None] = lambda size: None
) -> Verified:
    """Check a complete export by itself; with the store's key also that nobody else made it."""
    reader = Reader(secret=secret)
    heads, bodies, stones = sha256(), 0, 0
    for event in reader.read(lines):
        on_bytes(event.size)
        bodies += event.data is not None
        stones += event.tombstone is not None
        if event.chain is not None:
            heads.update(f"{event.chain.id} {event.chain.length} {event.chain.head.hex()}\n".encode())
    problems = reader.finish()
    notes = () if secret else (_NO_KEY,)
    progress = reader.progress
    return Verified(
        progress.chains, progress.rows, bodies, stones, heads.hexdigest(), tuple(problems[:_MOST_PROBLEMS]), notes
    )


def _missing_bodies(archive: Archive, chain: str, page: list[SealedRow]) -> list[Problem]:
    wanted = {hash: row for row in page for hash in bodies_of(row)}
    missing = wanted.keys() - archive.known_bodies(list(wanted))
    return [Problem("missing", chain, f"the body {hash.hex()} of {wanted[hash].name}") for hash in sorted(missing)]


def _behind_the_end(archive: Archive, chain: str, number: int, upto: int) -> list[Problem]:
    """Rows behind the recorded end: of a running server they are new, and then the record has moved on too."""
    row = next(iter(archive.rows(number, upto)), None)
    if row is None:
        return []
    now = next((line.length for line in archive.chains(Filters(), number - 1, 1) if line.number == number), 0)
    if now >= row.place:
        return []
    return [Problem("unrecorded", chain, f"{row.name} stands behind the recorded end, place {upto}")]


def _graves(
    last: int, numbers: set[int], stones: list[Tombstone], secret: bytes | None
) -> list[Problem]:  # fmt: skip
    """Every number that was ever given has its chain, or a tombstone with a good signature."""
    problems = []
    buried = {stone.number for stone in stones}
    for number in sorted(set(range(1, last + 1)) - numbers - buried):
        problems.append(Problem("missing", "", f"the whole conversation number {number}: no chain, and no tombstone"))
    for stone in stones:
        name = f"the tombstone of conversation {stone.conversation} (number {stone.number})"
        if stone.number in numbers:
            problems.append(Problem("unrecorded", "", f"{name}: its rows are still there"))
        if secret is None:
            problems.append(Problem("damaged", "", f"{name}: no key file beside the store to check its signature"))
        elif not is_signed(stone, secret):
            problems.append(Problem("changed", "", name))
    return problems
