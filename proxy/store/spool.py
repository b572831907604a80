"""Batches that the database cannot take now, on local disk: appended, flushed, read again in order. Knows no database.

A record is a length, a checksum and the batch; a torn one at the end, of a write that nobody was told of, is cut off.
Each process holds its own file by a lock, and takes over those that a dead one left behind.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO

import msgspec

from proxy.core.records import Batch, ItemRow
from proxy.store.codec import storable
from proxy.store.rows import cleaned

_HEAD = Struct("<I8s")
_MOST_FILES = 1000
_KNOWN = "known"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Batch).decode


class Spool:
    """A folder of files, one for each process. Use it in one thread. Raises OSError where the disk fails."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        self._files: list[_File] = []
        self.batches = 0
        """How many wait."""

    @property
    def is_known(self) -> bool:
        """Whether the database that this is for was ever reached from here."""
        return (self._folder / _KNOWN).exists()

    def know(self) -> None:
        (self._folder / _KNOWN).touch()

    def open(self) -> None:
        """Take what is left there. The last file is the one to append to."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in sorted(self._folder.glob("*.spool")):
            if (file := _File.locked(path)) is not None:
                self._files.append(file)
        number = 0
        while not self._files and number < _MOST_FILES:
            number += 1
            if (file := _File.locked(self._folder / f"{number:04}.spool")) is not None:
                self._files.append(file)
        self.batches = sum(file.batches for file in self._files)

    def close(self) -> None:
        """What waits stays."""
        files, self._files = self._files, []
        for file in files:
            file.close()

    @property
    def size(self) -> int:
        return sum(file.size for file in self._files)

    def append(self, batches: Sequence[Batch]) -> bool:
        """Keep them, on disk when this returns. False when there is no room for them, and then none is kept."""
        records = [_record(batch) for batch in batches]
        if not self._files or self.size + sum(map(len, records)) > self._most_bytes:
            return False
        self._files[-1].append(records)
        self.batches += len(records)
        return True

    def first(self, most_bytes: int) -> list[Batch]:
        """The oldest of them, at least one where there is one."""
        return next((found for file in self._files if (found := file.first(most_bytes))), [])

    def drop(self, count: int) -> None:
        """The `count` oldest are where they belong. They may come once more after a kill: writing twice is harmless."""
        for file in self._files:
            if file.batches:
                file.drop(count)
                self.batches -= count
                break
        while len(self._files) > 1 and not self._files[0].batches:
            self._files.pop(0).remove()


class _File:
    """One locked file. `read_to` is where the next record to be read begins."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._file = file
        self._read_to = 0
        self._read: list[int] = []  # where each of the records that `first` gave ends
        self.size = 0
        self.batches = 0
        for end in self._ends():
            self.size = end
            self.batches += 1
        self._file.truncate(self.size)

    @classmethod
    def locked(cls, path: Path) -> _File | None:
        """The file, or None where another process holds it."""
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        return cls(path, file)

    def append(self, records: Sequence[bytes]) -> None:
        try:
            self._file.seek(self.size)
            self._file.write(b"".join(records))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(self.size)
            raise
        self.size += sum(map(len, records))
        self.batches += len(records)

    def first(self, most_bytes: int) -> list[Batch]:
        found, self._read = list[Batch](), list[int]()
        start = self._read_to
        while start < self.size and (not found or start - self._read_to < most_bytes):
            self._file.seek(start)
            length, _ = _HEAD.unpack(self._file.read(_HEAD.size))
            found.append(_decode(self._file.read(length)))
            start += _HEAD.size + length
            self._read.append(start)
        return found

    def drop(self, count: int) -> None:
        self._read_to = self._read[count - 1]
        self._read = self._read[count:]
        self.batches -= count
        if not self.batches:
            self._file.truncate(0)
            self._read_to = self.size = 0

    def close(self) -> None:
        """An empty one needs not stay."""
        if self.batches:
            self._file.close()
        else:
            self.remove()

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
        self._file.close()

    def _ends(self) -> Iterator[int]:
        """Where each whole record ends."""
        end = 0
        self._file.seek(0)
        while len(head := self._file.read(_HEAD.size)) == _HEAD.size:
            length, sum_ = _HEAD.unpack(head)
            data = self._file.read(length)
            if len(data) < length or _sum(data) != sum_:
                return
            end += _HEAD.size + length
            yield end


def _record(batch: Batch) -> bytes:
    try:
        data = _encode(batch)
    except UnicodeEncodeError:  # a lone surrogate: the bodies, which are bytes, keep it
        data = _encode(_plain(cleaned(batch)))
    return _HEAD.pack(len(data), _sum(data)) + data


def _plain(batch: Batch) -> Batch:
    folds = tuple(replace(fold, fresh=tuple(map(_plain_item, fold.fresh))) for fold in batch.folds)
    changed: dict[str, Any] = {"items": tuple(map(_plain_item, batch.items)), "folds": folds}
    return replace(batch, replies=tuple(map(_plain_item, batch.replies)), **changed)


def _plain_item(item: ItemRow) -> ItemRow:
    return replace(item, text=storable(item.text))


def _sum(data: bytes) -> bytes:
    return blake2b(data, digest_size=8).digest()
