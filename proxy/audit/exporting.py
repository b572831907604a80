"""Writes exports: chooses the format, keeps files whole, and goes on where a broken-off complete export stopped."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, get_args

from proxy.audit import chat, flat_files, jsonl, tables, transcript
from proxy.audit.jsonl import Progress
from proxy.audit.reading import Reader
from proxy.core.filters import Filters
from proxy.errors import ConfigError, NotFoundError
from proxy.store.archive import Archive

Format = Literal["jsonl", "chat", "csv", "html", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)
OnRows = Callable[[int], None]


def stream(
    archive: Archive,
    format: Format,
    filters: Filters,
    *,
    version: str,
    kind: tables.Kind = "items",
    progress: Progress | None = None,
    on_rows: OnRows = lambda rows: None,
) -> Iterator[bytes]:
    """An export in pieces, for any format but Parquet, which is no stream."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if format == "jsonl":
        return jsonl.write(
            archive, filters, exported_at=now, version=version, progress=progress, on_rows=on_rows
        )  # fmt: skip
    if format == "chat":
        return chat.write(archive, filters, on_rows=on_rows)
    if format == "html":
        return transcript.write(archive, filters, exported_at=now, on_rows=on_rows)
    if format == "csv":
        return flat_files.csv_lines(tables.rows(archive, filters, kind, on_rows=on_rows), kind)
    raise ConfigError("Parquet cannot be streamed", hint="Give it a file: --output NAME.parquet")


def write_files(
    archive: Archive,
    format: Format,
    filters: Filters,
    path: Path,
    *,
    version: str,
    is_resumed: bool = False,
    on_rows: OnRows = lambda rows: None,
) -> list[Path]:
    """Write `path`, and for flat rows one file a kind beside it; each gets its name when it is whole."""
    if format == "jsonl":
        _write_complete(archive, filters, path, version, is_resumed, on_rows)
        return [path]
    if format not in ("csv", "parquet"):
        _whole(path, lambda part: _pour(stream(archive, format, filters, version=version, on_rows=on_rows), part))
        return [path]
    written = []
    for kind in tables.KINDS:
        target = path if kind == "items" else path.with_name(f"{path.stem}.{kind}{path.suffix}")
        found = tables.rows(archive, filters, kind, on_rows=on_rows if kind == "items" else lambda rows: None)
        if format == "csv":
            _whole(target, lambda part, found=found, kind=kind: _pour(flat_files.csv_lines(found, kind), part))  # type: ignore[misc]
        else:
            _whole(target, lambda part, found=found, kind=kind: flat_files.write_parquet(found, kind, part))  # type: ignore[misc]
        written.append(target)
    return written


def _whole(path: Path, write: Callable[[Path], object]) -> None:
    """Only the complete format can be gone on with; of any other, nothing stays when it breaks off."""
    part = _part(path)
    try:
        write(part)
        _give_name(part, path)
    finally:
        part.unlink(missing_ok=True)


def _pour(pieces: Iterable[bytes], part: Path) -> None:
    with part.open("wb") as file:
        file.writelines(pieces)


def _part(path: Path) -> Path:
    if path.is_dir():  # before hours of work: a folder cannot be replaced
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    return path.with_name(f"{path.name}.part")


def _give_name(part: Path, path: Path) -> None:
    with part.open("rb+") as file:
        os.fsync(file.fileno())
    part.replace(path)


def _write_complete(
    archive: Archive, filters: Filters, path: Path, version: str, is_resumed: bool, on_rows: OnRows
) -> None:
    """The complete export. Broken off, its part stays, and `is_resumed` goes on behind its last whole row."""
    part = _part(path)
    progress = _progress_of(part, filters) if is_resumed else Progress()
    on_rows(progress.rows)
    with part.open("r+b" if is_resumed else "wb") as file:
        file.seek(0, os.SEEK_END)
        file.writelines(
            stream(archive, "jsonl", filters, version=version, progress=progress, on_rows=on_rows)
        )  # fmt: skip
    _give_name(part, path)


def _progress_of(part: Path, filters: Filters) -> Progress:
    """How far a part had come. Cuts it behind the last line that can be gone on from."""
    if not part.exists():
        raise NotFoundError(f"there is no {part} to go on with", hint="Leave --resume away.")
    size, asked = _good_size(part)
    if asked is not None and asked != filters:
        raise ConfigError(f"{part} was begun with other filters", hint="Give the same ones, or leave --resume away.")
    with part.open("r+b") as file:
        file.truncate(size)
    reader = Reader(is_checked=False)
    with part.open("rb") as file:
        for _ in reader.read(file):
            pass
    return reader.progress


def _good_size(part: Path) -> tuple[int, Filters | None]:
    """Up to the last row, or the last end of a conversation: what stands behind is written again."""
    size, good = 0, 0
    asked: Filters | None = None
    reader = Reader(is_checked=False)
    with part.open("rb") as file:
        for event in reader.read(file):
            size += event.size
            if event.filters is not None:
                asked = replace(event.filters)
            if event.type in ("export", "row", "chain", "end") and not reader.problems:
                good = size
            if reader.problems:
                break
    return good, asked
