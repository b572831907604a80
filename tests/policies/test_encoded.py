"""Encoded data is found whole, and plain text is not taken for it."""

from __future__ import annotations

import base64
import random

from policies.encoded import encoded_spans

DATA = base64.b64encode(random.Random(5).randbytes(600)).decode()


def test_a_data_url_and_a_bare_run_are_found() -> None:
    text = f"look: data:image/png;base64,{DATA} and {DATA}."
    spans = encoded_spans(text)
    assert [text[slice(*span)] for span in spans] == [f"data:image/png;base64,{DATA}", DATA]


def test_wrapped_lines_are_one_run() -> None:
    wrapped = "\n".join(DATA[at : at + 64] for at in range(0, len(DATA), 64))
    (span,) = encoded_spans(f"-----BEGIN-----\n{wrapped}\n-----END-----")
    assert span[1] - span[0] >= len(wrapped)


def test_words_rules_and_paths_are_not_data() -> None:
    assert encoded_spans("-" * 500 + "\n" + "a/" * 300 + "\n" + "some words " * 50) == []
    assert encoded_spans("data: the rest is prose " * 20) == []
