"""JSON in any spelling that is still JSON: odd blanks, escapes, number texts."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from hypothesis import strategies as st

BLANKS = ["", "", "", " ", "\n", "\t ", "\r\n  "]


def json_values() -> st.SearchStrategy[Any]:
    """Any JSON value; texts hold quotes, brackets and lone surrogates."""
    texts = st.text(max_size=12) | st.text(alphabet='{}[]",:\\\ud800é🙂', max_size=12)
    leaves = st.none() | st.booleans() | st.integers(-(10**30), 10**30) | texts
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=8
    )


def messy(value: Any, random: Random) -> str:
    """One spelling of `value`."""
    blank = random.choice(BLANKS)
    if isinstance(value, str):
        return blank + _text(value, random)
    if isinstance(value, dict):
        parts = [
            f"{random.choice(BLANKS)}{_text(key, random)}{random.choice(BLANKS)}:{messy(item, random)}"
            for key, item in value.items()
        ]
        return f"{blank}{{{','.join(parts)}{random.choice(BLANKS)}}}{random.choice(BLANKS)}"
    if isinstance(value, list):
        parts = [messy(item, random) for item in value]
        return f"{blank}[{','.join(parts)}{random.choice(BLANKS)}]{random.choice(BLANKS)}"
    return blank + json.dumps(value) + random.choice(BLANKS)


def _text(text: str, random: Random) -> str:
    has_half = any("\ud800" <= char <= "\udfff" for char in text)
    written = json.dumps(text, ensure_ascii=has_half or random.random() < 0.5)
    return written.replace("/", "\\/") if random.random() < 0.3 else written
