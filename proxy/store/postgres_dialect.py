"""Says in PostgreSQL's words what the store's statements say in SQLite's, and carries values that it cannot hold.

Text of PostgreSQL holds no NUL: one is written as two characters, and read back as one. Pure; no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

_MARK = re.compile(r"\?(\d*)")
_TABLE_INFO = re.compile(r"PRAGMA table_info\((\w+)\)")
_TOUCHED = "(SELECT coalesce(max(touched), 0) + 1 FROM branches)"
_ESCAPE, _NUL = "\U0010fffe", "\0"  # a noncharacter: no text has it for any other reason, and it is escaped as well

_WORDS = {
    "x''": "''::bytea",
    # Replicas write at once: the highest number yet is no order among them.
    _TOUCHED: "nextval('branch_touches')",
    "FROM chains WHERE id = ?": "FROM chains WHERE id = ? FOR UPDATE",
    # A client names its scope: a long one fits no index.
    "WHERE tenant = ? AND scope = ? ORDER BY touched DESC LIMIT ?": (
        "WHERE tenant = ?1 AND md5(scope) = md5(?2) AND scope = ?2 ORDER BY touched DESC LIMIT ?3"
    ),
    "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'chains'), 0)": "SELECT last FROM chain_numbers",
}
_GLOB = (
    r"LIKE translate(replace(replace(replace(replace(\1, '[[]', '['), '\\', '\\\\'), '%', '\\%'), '_', '\\_'),"
    " '*?', '%_')"
)
_COLUMNS = (
    "SELECT ordinal_position, column_name, CASE data_type WHEN 'text' THEN 'TEXT' WHEN 'bigint' THEN 'INTEGER'"
    " WHEN 'double precision' THEN 'REAL' ELSE 'BLOB' END FROM information_schema.columns"
    r" WHERE table_schema = current_schema() AND table_name = '\1' ORDER BY ordinal_position"
)


@lru_cache(maxsize=4096)
def translated(statement: str) -> str:
    """The statement with numbered marks ($1)."""
    for ours, theirs in _WORDS.items():
        statement = statement.replace(ours, theirs)
    if statement.startswith("PRAGMA"):
        return _TABLE_INFO.sub(_COLUMNS, statement)
    count = 0

    def numbered(mark: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return f"${mark[1] or count}"

    return re.sub(r"GLOB (\$\d+)", _GLOB, _MARK.sub(numbered, statement))


def to_database(values: Sequence[Any]) -> list[Any]:
    """Values that the columns take: whole numbers for booleans, text without NUL."""
    return [_carried(value) if type(value) in (str, bool) else value for value in values]


def _carried(value: str | bool) -> str | int:
    if isinstance(value, bool):
        return int(value)
    if _NUL in value or _ESCAPE in value:
        return value.replace(_ESCAPE, _ESCAPE + "e").replace(_NUL, _ESCAPE + "0")
    return value


def from_database(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The row with the texts that were given."""
    for value in row:
        if type(value) is str and _ESCAPE in value:
            return tuple(_plain(value) if type(value) is str else value for value in row)
    return row


def _plain(value: str) -> str:
    return value.replace(_ESCAPE + "0", _NUL).replace(_ESCAPE + "e", _ESCAPE)
