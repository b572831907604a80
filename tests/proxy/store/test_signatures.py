"""Signatures: one key, purposes apart, and nothing is signed without a key."""

from __future__ import annotations

from proxy.store.signatures import is_signed, signature


def test_a_signature_holds_for_what_was_told_and_for_nothing_else() -> None:
    mark = signature(b"key", "chain", "c", 3, b"head")
    assert is_signed(mark, b"key", "chain", "c", 3, b"head")
    assert not is_signed(mark, b"key", "export", "c", 3, b"head")
    assert not is_signed(mark, b"key", "chain", "c", 2, b"head")
    assert not is_signed(mark, b"other", "chain", "c", 3, b"head")
    assert signature(b"", "chain", "c") == b"" and not is_signed(b"", b"", "chain", "c")
