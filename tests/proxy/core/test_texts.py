"""Small readings of a text."""

from __future__ import annotations

import base64
import random

from proxy.core.texts import clip, introduced_words, is_encoded, is_json_like, size_words, without_encoded, words_of

BLOB = base64.b64encode(random.Random(1).randbytes(6_000)).decode()


def test_a_size_is_said_in_characters() -> None:
    assert [size_words(0), size_words(1), size_words(14_213)] == ["0 chars", "1 char", "14,213 chars"]


def test_a_clipped_text_is_one_line_of_that_length() -> None:
    assert clip("a\n b\t c", 10) == "a b c"
    assert clip("harbour master", 8) == "harbour…"


def test_encoded_data_is_replaced_as_a_whole() -> None:
    made = without_encoded(f'<img src="data:image/png;base64,{BLOB}"> {BLOB} end')
    assert made == '<img src="[encoded data, 8,022 chars]"> [encoded data, 8,000 chars] end'


def test_long_runs_that_are_not_data_stay() -> None:
    for text in ("-" * 500, "a" * 500, "/".join(["usr"] * 100)):
        assert without_encoded(text) == text
    assert not is_encoded("plain words " * 100)


def test_introduced_words_prefer_identifiers_and_skip_the_known() -> None:
    text = "the harbour reads tide_gauge_7 and HarbourMap at berth 4272, then harbour again"
    assert introduced_words(text, frozenset({"4272"})) == ("tide_gauge_7", "HarbourMap", "harbour", "reads")
    assert introduced_words(text, words_of(text)) == ()


def test_a_log_that_begins_with_a_bracket_is_not_json() -> None:
    assert is_json_like(' {"a": [1]} ')
    assert not is_json_like("[INFO] started\n[INFO] done [ok]")
