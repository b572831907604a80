"""Text from conversations as people may be shown it: whole, and without power over what shows it. Pure."""

from __future__ import annotations

_CONTROLS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"} | {0x7F: 0x2421}
_CONTROLS |= dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD)
_CONTROLS |= dict.fromkeys(range(0xD800, 0xE000), 0xFFFD)
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def visible(text: str) -> str:
    """`text` with control characters shown as pictures: a tool's output must not move the cursor or set a title."""
    return text.translate(_CONTROLS)


def cell(text: str) -> str:
    """`text` as a table's cell that no spreadsheet takes for a formula: an apostrophe stands before a risky start."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text
