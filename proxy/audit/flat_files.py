"""Flat rows as files that other programs open: CSV that no spreadsheet runs, and Parquet (extra `parquet`)."""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from proxy.audit.tables import COLUMNS, Kind, Row
from proxy.core.display import cell
from proxy.errors import ConfigError

_PARQUET_ROWS = 1000
_PARQUET_BYTES = 8 << 20


def csv_lines(found: Iterable[Row], kind: Kind) -> Iterator[bytes]:
    """UTF-8 with a header line. Texts that a spreadsheet would run start with an apostrophe."""
    names = list(COLUMNS[kind])
    page = io.StringIO()
    writer = csv.writer(page, lineterminator="\r\n")
    writer.writerow(names)
    for row in found:
        writer.writerow([_cell(row.get(name)) for name in names])
        if page.tell() > 1 << 16:
            yield page.getvalue().encode("utf-8", "replace")
            page.seek(0)
            page.truncate()
    yield page.getvalue().encode("utf-8", "replace")


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return cell(value) if isinstance(value, str) else value


def write_parquet(found: Iterable[Row], kind: Kind, path: Path) -> int:
    """Write a file with a fixed schema, a few MB of rows at a time. Raises ConfigError without the extra."""
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise ConfigError("Parquet needs pyarrow", hint="pip install 'undercliff[parquet]'") from error
    types = {str: arrow.string(), int: arrow.int64(), float: arrow.float64(), bool: arrow.bool_()}
    schema = arrow.schema([(name, types[type]) for name, type in COLUMNS[kind].items()])
    count = 0
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for page in _pages(found):
            table = arrow.Table.from_pylist(page, schema=schema)
            writer.write_table(table)
            count += len(page)
    return count


def _pages(found: Iterable[Row]) -> Iterator[list[Row]]:
    page: list[Row] = []
    size = 0
    for row in found:
        clean = {name: _clean(value) for name, value in row.items()}
        page.append(clean)
        size += sum(len(value) for value in clean.values() if isinstance(value, str))
        if len(page) >= _PARQUET_ROWS or size >= _PARQUET_BYTES:
            yield page
            page, size = [], 0
    if page:
        yield page


def _clean(value: Any) -> Any:
    """Lone surrogates, which JSON can carry, have no place in UTF-8."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) and not value.isascii() else value
