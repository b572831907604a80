"""Reads a complete export line by line and checks it on the way: rows, bodies, heads and the file's own sums."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal, TypeVar

import orjson

from proxy.audit.checking import ChainCheck, Marks, Problem, bodies_of, head_problem
from proxy.audit.jsonl import FORMAT, Progress
from proxy.core.filters import Filters
from proxy.store import signatures, tombstones
from proxy.store.archive import ChainLine, SealedRow, Tombstone
from proxy.store.seals import BY_NAME, bytes_from_json, from_json

R = TypeVar("R", ChainLine, Tombstone)

MOST_LINE_BYTES = 1 << 29  # a body of the largest request, escaped
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True)
class Event:
    """One line, read. Which fields are set follows from `type`."""

    type: Literal["export", "chain", "body", "row", "state", "end", "tombstone", "close"]
    chain: ChainLine | None = None
    row: SealedRow | None = None
    data: bytes | None = None  # of a body, or a message's original
    hash: bytes = b""  # what that body is called
    mark: bytes = b""  # what it hashes to, when it was redacted at capture
    table: str = ""
    state: dict[str, Any] | None = None
    tombstone: Tombstone | None = None
    filters: Filters | None = None
    size: int = 0  # of the line, in bytes


class Reader:
    """Yields the events of an export; what is wrong with it gathers in `problems`."""

    def __init__(self, *, is_checked: bool = True, secret: bytes = b"") -> None:
        self.problems: list[Problem] = []
        self.progress = Progress()
        self.is_closed = False
        self._is_checked = is_checked
        self._secret = secret
        self._marks = Marks()
        self._check: ChainCheck | None = None
        self._sums_hold = True

    def read(self, lines: Iterable[bytes]) -> Iterator[Event]:
        for number, line in enumerate(lines, start=1):
            event = self._event(number, line)
            self.progress.digest.update(line)
            if event is not None:
                self._move(event)
                yield event

    def finish(self) -> list[Problem]:
        """Call it behind the last line."""
        if self._check is not None:
            self._end_chain(has_end=False)
        if not self.progress.is_begun:
            self._problem("damaged", "this is no export of undercliff")
        elif not self.is_closed:
            self._problem("missing", "the end of the file: the export was broken off, or cut")
        return self.problems

    # -- lines ---------------------------------------------------------------------------------
    def _event(self, number: int, line: bytes) -> Event | None:
        try:
            if not line.endswith(b"\n"):
                raise ValueError("it breaks off")
            values = orjson.loads(line)
            if orjson.dumps(values) + b"\n" != line:
                raise ValueError("it was written anew")
            if self.is_closed:
                raise ValueError("it stands behind the end")
            return self._parsed(values, len(line))
        except _UNREADABLE as error:
            self._problem("changed", f"line {number} cannot be read: {error}")
            return None

    def _parsed(self, values: dict[str, Any], size: int) -> Event:
        type = values["type"]
        if type == "export":
            if values["product"] != "undercliff" or values["format"] != FORMAT:
                raise ValueError(f"format {values['format']}; this undercliff reads {FORMAT}")
            asked = dict(values["filters"])
            asked["conversations"] = tuple(asked.get("conversations", ()))
            return Event("export", filters=Filters(**asked), size=size)
        if type == "chain":
            return Event("chain", chain=_record(ChainLine, values), size=size)
        if type == "body":
            return self._body(values, size)
        if type == "row":
            return self._row(values, size)
        if type == "state":
            row = {name: _state_value(value) for name, value in values["row"].items()}
            return Event("state", table=values["table"], state=row, size=size)
        if type == "tombstone":
            stone = _record(Tombstone, values)
            if self._secret and not tombstones.is_signed(stone, self._secret):
                self._problem("unsigned", f"the tombstone of conversation {stone.conversation}")
            return Event("tombstone", tombstone=stone, size=size)
        if type not in ("end", "close"):
            raise ValueError(f"unknown type {type!r}")
        self._sum(values["sha256"])
        if type == "close" and (values["chains"], values["rows"]) != (self.progress.chains, self.progress.rows):
            self._problem("missing", f"the file says that it holds {values['rows']} rows, and has {self.progress.rows}")
        mark = bytes.fromhex(values.get("signature", ""))
        if type == "close" and self._secret and not signatures.is_signed(
            mark, self._secret, "export", self.progress.digest.hexdigest()
        ):  # fmt: skip
            self._problem("unsigned", "the file as a whole is not what this key signed")
        return Event(type, size=size)

    def _body(self, values: dict[str, Any], size: int) -> Event:
        data = bytes_from_json(values["data"])
        hash, mark = bytes.fromhex(values["hash"]), bytes.fromhex(values.get("redacted", ""))
        if self._is_checked and not self._marks.holds(hash, mark, data):
            self._problem("changed", f"the body {values['hash']}", self._chain_id)
        self.progress.recent.add(hash)
        return Event("body", data=data, hash=hash, mark=mark, size=size)

    def _row(self, values: dict[str, Any], size: int) -> Event:
        table = BY_NAME[values["table"]]
        plain = from_json(table, values["row"]) if values["row"] is not None else None
        if type(values["place"]) is not int or type(values["seq"]) is not int:
            raise ValueError("its place is no number")
        row = SealedRow(table, values["place"], values["seq"], bytes.fromhex(values["seal"]), plain)
        data, hash, mark = None, b"", bytes.fromhex(values.get("redacted", ""))
        if table.name == "messages" and plain is not None:
            original = values["original"]
            data = bytes_from_json(original) if original is not None else None
            hash = row.value("body")
            if self._is_checked and data is not None and not self._marks.holds(hash, mark, data):
                self._problem("changed", f"the original of {row.name}", self._chain_id)
            if data is not None:
                self.progress.recent.add(hash)
        if self._is_checked:
            for wanted in bodies_of(row):
                if wanted not in self.progress.recent:
                    self._problem("missing", f"the body {wanted.hex()} of {row.name}", self._chain_id)
        return Event("row", row=row, data=data, hash=hash, mark=mark, size=size)

    # -- where we are ---------------------------------------------------------------------------
    def _move(self, event: Event) -> None:
        progress = self.progress
        if event.type == "export":
            progress.is_begun = True
        elif event.chain is not None:
            if self._check is not None:
                self._end_chain(has_end=False)
            progress.open, progress.place = event.chain, 0
            progress.recent.clear()
            self._marks.clear()
            self.problems += head_problem(event.chain, self._secret)
            self._check = ChainCheck(event.chain.id, event.chain.length, event.chain.head)
        elif event.row is not None:
            progress.rows += 1
            progress.place = event.row.place
            if self._check is None:
                self._problem("unrecorded", f"{event.row.name} stands outside of a conversation")
            elif self._is_checked:
                self._check.add(event.row)
                self._marks.add(event.row)
        elif event.type in ("body", "state") and self._check is None:
            self._problem("unrecorded", f"a {event.type} line stands outside of a conversation")
        elif event.type == "end":
            self._end_chain(has_end=True)
        elif event.type == "close":
            if self._check is not None:
                self._end_chain(has_end=False)
            self.is_closed = True

    def _end_chain(self, *, has_end: bool) -> None:
        progress = self.progress
        if self._check is not None and self._is_checked:
            self.problems += self._check.finish()
        self._check = None
        if has_end and progress.open is not None:
            progress.chains += 1
            progress.after = progress.open.number
            progress.open = None

    def _sum(self, given: str) -> None:
        """Names the first conversation in which the sum fails: all later ones fail with it."""
        if self._is_checked and self._sums_hold and given != self.progress.digest.hexdigest():
            self._sums_hold = False
            self._problem("changed", "lines before its end: the sum of the file does not hold there", self._chain_id)

    @property
    def _chain_id(self) -> str:
        return self._check.chain if self._check is not None else ""

    def _problem(self, kind: str, what: str, chain: str = "") -> None:
        self.problems.append(Problem(kind, chain, what))


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file that may be no export at all: a longer one than any of ours comes in pieces."""
    while line := file.readline(MOST_LINE_BYTES):
        yield line


def _record(kind: type[R], values: dict[str, Any]) -> R:
    """A record from a line that anybody may have written. Raises ValueError, KeyError."""
    fields = {}
    for name, field in kind.__dataclass_fields__.items():
        value = values[name]
        if field.type == "bytes":
            value = bytes.fromhex(value)
        elif type(value) is not {"str": str, "int": int}[str(field.type)]:
            raise ValueError(f"{name} is {value!r:.40}")
        fields[name] = value
    return kind(**fields)


def _state_value(value: Any) -> Any:
    return b64decode(value["base64"], validate=True) if isinstance(value, dict) else value
