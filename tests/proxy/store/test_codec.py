"""Columns give back exactly what was put in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.records import Batch
from proxy.store import codec
from tests.proxy.store.rows import make_body, make_entry, small_batch

any_text = st.text(st.characters(exclude_categories=()))


@given(st.binary(max_size=2000), st.integers(1, 400))
def test_bytes_survive(data: bytes, times: int) -> None:
    assert codec.unpack(codec.pack(data * times)) == data * times


@given(any_text)
def test_texts_survive_even_with_lone_surrogates(text: str) -> None:
    assert codec.unpack_text(codec.pack_text(text * 50)) == text * 50


@given(any_text)
def test_a_storable_text_is_text_to_any_database(text: str) -> None:
    cleaned = codec.storable(text)
    assert len(cleaned) == len(text)
    cleaned.encode()
    assert codec.storable(cleaned) == cleaned


def test_what_compresses_is_compressed_and_what_does_not_is_left() -> None:
    assert len(codec.pack(b"line of a log\n" * 1000)) < 1000
    assert codec.pack(b"short") == b"\0short"
    noise = bytes((number * 193 + number * number * 7) % 251 for number in range(180))
    assert codec.pack(noise) == b"\0" + noise


def test_lists_survive() -> None:
    entries = tuple(make_entry(f"i{number}") for number in range(500))
    fields = [(e.item, e.form, e.body, e.tokens, e.reason, e.score) for e in entries]
    assert codec.unpack_entries(codec.pack_entries(fields)) == entries
    assert codec.unpack_strings(codec.pack_strings(("a", "é", ""))) == ("a", "é", "")
    assert codec.unpack_blobs(codec.pack_blobs((b"", b",\n"))) == (b"", b",\n")
    assert codec.unpack_strings(codec.pack_strings(())) == ()


@pytest.mark.parametrize("damaged", [b"", b"\x07abc", b"\x01not zstd"])
def test_damaged_values_are_named(damaged: bytes) -> None:
    with pytest.raises(ValueError, match=r"packed value|tag"):
        codec.unpack(damaged)


def test_a_batch_is_weighed_by_what_it_holds() -> None:
    body = make_body("x" * 1_000_000)
    assert 1_000_000 < codec.batch_bytes(Batch(bodies=(body,))) < 1_001_000
    assert codec.batch_bytes(small_batch(1, items=50)) > 5 * codec.batch_bytes(small_batch(1, items=5))
