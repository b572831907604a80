"""Which items have an excerpt on offer, and what decides what it keeps."""

from __future__ import annotations

import json

from proxy.core.excerpts import ExcerptReader
from proxy.wire.values import parse_value
from tests.support.listed import call, notes, shell, user

LOG = "\n".join(f"2026-03-01 INFO berth {n} is {'tide_gauge' if n == 143 else 'quiet'}" for n in range(300))
CODE = "\n".join(f"def quay_{n}(ship):\n    tide = read_tide(ship)\n    return tide\n" for n in range(60))
ROWS = json.dumps([{"berth": n, "ship": f"ship_{n}"} for n in range(300)])


def kinds(*messages: dict[str, object]) -> dict[str, str]:
    return {item: note.offer.kind for item, note in notes(ExcerptReader(parse_value), messages).items() if note.offer}


def test_every_large_output_has_the_excerpt_of_its_kind() -> None:
    assert kinds(
        user("go"),
        *shell(1, "make", LOG),
        *shell(2, "cat quay.py", CODE),
        *call(3, "list_ships", ROWS, port="x"),
        *shell(4, "ls", "a"),
    ) == {"m2": "lines", "m4": "outline", "m6": "shape"}


def test_single_lines_of_a_file_that_was_read_are_not_offered() -> None:
    assert kinds(user("go"), *shell(1, "cat notes.txt", LOG)) == {}


def test_what_the_user_named_stays() -> None:
    def text_of(question: str) -> str:
        note = notes(ExcerptReader(parse_value), [user(question), *shell(1, "make", LOG)])["m2"]
        assert note.offer is not None and note.offer.texts[0] is not None
        return note.offer.texts[0]

    assert "berth 143 is tide_gauge" in text_of("what about tide_gauge?")
    assert "tide_gauge" not in text_of("what about it?")
