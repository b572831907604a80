"""Re-reads of one file in other ranges: each line is paid for once, wherever the budget lets the file stand."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy import open_store

FILE = [
    f"{number:04d} value_{number * 7919 % 10007} = compute_{number * 31 % 997}(arg_{number})" for number in range(300)
]
RANGES = st.lists(
    st.tuples(st.integers(0, 250), st.integers(20, 300)).map(lambda pair: (pair[0], min(300, sum(pair)))),
    min_size=2,
    max_size=6,
)


def copies(ranges: list[tuple[int, int]], budget: int, policy: str) -> tuple[int, int, int]:
    """Lines that were read, those that stand in the window, and how often they do in all."""
    with TemporaryDirectory() as folder, open_store(Path(folder) / "x.db", policy=policy) as store:
        store.add("user", "look at the file")
        for start, stop in ranges:
            store.add("file_read", "\n".join(FILE[start:stop]), source="src/tables.py")
        store.add("user", "and now?")
        window = store.context_get(budget, model="m")
    text = "\n".join(str(item.get("content")) for item in window.items)
    read = {line for start, stop in ranges for line in FILE[start:stop]}
    shown = [text.count(line) for line in read]
    return len(read), sum(count > 0 for count in shown), sum(shown)


@pytest.mark.parametrize("policy", ["selector", "greedy"])
@settings(max_examples=12, deadline=None)
@given(ranges=RANGES)
def test_a_line_range_is_paid_for_once(policy: str, ranges: list[tuple[int, int]]) -> None:
    """But for the first line of a range, which a reference quotes, and less than a fifth of a text, which is left."""
    read, shown, total = copies(ranges, 60_000, policy)
    assert shown == read
    assert total <= read + sum(0.2 * (stop - start) + 8 for start, stop in ranges)


@pytest.mark.parametrize("policy", ["selector", "greedy"])
def test_a_small_budget_is_not_spent_on_copies(policy: str) -> None:
    read, shown, total = copies([(0, 150), (75, 225), (0, 300), (100, 180), (0, 150), (220, 300)], 5_000, policy)
    assert read == 300 and shown > 100
    assert total <= 1.1 * shown
