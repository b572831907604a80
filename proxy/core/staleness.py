"""Marks file reads that no longer show the file: read again with other content, or edited after. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

from proxy.core.offers import Listed, Note
from proxy.core.touched import basename, is_same_file, touched

KEPT_READS = 64
"""Reads of one file name that are remembered."""


@dataclass(frozen=True, slots=True)
class Read:
    """One reading of a file: `asked` tells which part of it, `hash` what came."""

    item: str
    path: str
    asked: str
    hash: bytes


class StaleReader:
    """Reads one list, and says of each result which earlier ones it makes stale."""

    def __init__(self) -> None:
        self._reads: dict[str, list[Read]] = {}

    def read(self, item: Listed) -> Note | None:
        call = item.call
        if call is None or item.element.kind != "tool_result":
            return None
        found = touched(call.name, item.argument, call.arguments)
        # A failed edit changed nothing; a failed command line may have failed behind its edit.
        writes = found.writes if found.is_shell or not item.element.is_failed else ()
        stale = [read.item for path in writes for read in self._take(path)]
        if found.reads and not item.element.is_failed:
            stale += self._add(item, found.reads)
        return Note(stale=tuple(dict.fromkeys(stale))) if stale else None

    def _take(self, path: str) -> list[Read]:
        """Forget every reading of a file that is edited, and give them."""
        name = basename(path)
        known = self._reads.get(name, [])
        self._reads[name] = [read for read in known if not is_same_file(read.path, path)]
        return [read for read in known if is_same_file(read.path, path)]

    def _add(self, item: Listed, paths: tuple[str, ...]) -> list[str]:
        """Remember a reading; the ids of those that asked for the same and got something else."""
        text = "\n".join(item.element.texts) or item.element.text
        key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        asked = f"{item.call.name if item.call else ''} {item.argument}"
        stale: list[str] = []
        for path in paths:
            known = self._reads.setdefault(basename(path), [])
            stale += [read.item for read in known if read.asked == asked and read.hash != key]
            known[:] = [read for read in known if read.asked != asked or read.hash == key][-KEPT_READS:]
            known.append(Read(item.id, path, asked, key))
        return stale
