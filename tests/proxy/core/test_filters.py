"""Filters say what is meant; times become UTC as they are stored."""

from __future__ import annotations

import pytest

from proxy.core.filters import Filters, utc_stamp


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("2026-03-01", "2026-03-01T00:00:00.000000Z"),
        ("2026-03-01T12:30", "2026-03-01T12:30:00.000000Z"),
        ("2026-03-01T12:30:00-03:00", "2026-03-01T15:30:00.000000Z"),
        ("2026-03-01T12:30:00.5Z", "2026-03-01T12:30:00.500000Z"),
        ("", ""),
    ],
)
def test_times_in_utc(given: str, stored: str) -> None:
    assert utc_stamp(given) == stored
    assert Filters(since=given, until=given).in_utc() == Filters(since=stored, until=stored)


def test_what_is_no_time() -> None:
    with pytest.raises(ValueError):
        utc_stamp("yesterday")


def test_what_filters_ask() -> None:
    assert Filters().is_open and not Filters(conversations=("a",)).is_open
    assert not Filters(conversations=("a",)).asks_exchanges and Filters(model="m").asks_exchanges
