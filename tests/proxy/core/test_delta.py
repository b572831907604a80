"""Deltas: what they leave out stands word for word in what they refer to; nothing else is lost."""

from __future__ import annotations

import random
import re

import pytest

from proxy.core.delta import MIN_CHARS, DeltaMaker, written_text
from proxy.core.model import Call, Element
from proxy.core.offers import Listed, Offer

FILE = "\n".join(f"    level_{n} = survey_{n * 7}(tide, {n})" for n in range(60))


class Reading:
    """A list as the makers read it."""

    def __init__(self) -> None:
        self.maker = DeltaMaker()
        self.texts: dict[str, str] = {}

    def result(self, text: str, argument: str = "cat harbour/core.py") -> Offer | None:
        number = len(self.texts)
        self.texts[f"i{number}"] = text
        element = Element(b"", "tool_result", "tool", text, (), texts=(text,))
        note = self.maker.read(Listed(f"i{number}", number, element, Call("", "bash", argument), argument))
        return note.offer if note is not None else None

    def said(self, text: str) -> None:
        number = len(self.texts)
        self.texts[f"i{number}"] = text
        assert self.maker.read(Listed(f"i{number}", number, Element(b"", "message", "assistant", text, ()))) is None


def restored(offer: Offer, texts: dict[str, str]) -> list[str]:
    """The lines of a delta with what it refers to put back, read as a model would: by place, count and first words."""
    text = offer.texts[0]
    assert text is not None
    out: list[str] = []
    for line in text.split("\n")[1:]:
        match = re.fullmatch(r'\[… ([\d,]+) lines(?: in #(\w+))? from "(.*)"\]', line)
        if match is None:
            out.append(line)
            continue
        base = texts[match[2] or offer.bases[0]].split("\n")
        begin = next(i for i, found in enumerate(base) if " ".join(found.split()).startswith(match[3].rstrip("…")))
        out += base[begin : begin + int(match[1].replace(",", ""))]
    return out


def test_a_file_read_again_is_a_reference_to_the_first_reading() -> None:
    items = Reading()
    assert items.result(FILE) is None
    offer = items.result(FILE)
    assert offer is not None and offer.kind == "delta" and offer.bases == ("i0",)
    text = offer.texts[0]
    assert text is not None and len(text) < len(FILE) // 5
    assert "#i1" in text and "#i0 (cat harbour/core.py)" in text


def test_lines_that_changed_stand_in_full() -> None:
    items = Reading()
    items.result(FILE)
    changed = FILE.replace("level_30 = survey_210(tide, 30)", "level_30 = ebb(30)")
    offer = items.result(changed)
    assert offer is not None and "level_30 = ebb(30)" in str(offer.texts[0])
    assert restored(offer, items.texts) == changed.split("\n")


def test_what_was_written_counts_as_standing_above() -> None:
    items = Reading()
    items.said('Now the file.\nwrite({"path": "a.py", "content": "' + FILE.replace("\n", "\\n") + '"})')
    offer = items.result(FILE)
    assert offer is not None and offer.bases == ("i0",) and "your own message" in str(offer.texts[0])


def test_a_delta_is_no_base_for_what_it_left_out() -> None:
    items = Reading()
    items.result(FILE)
    more = "\n".join(f"    depth_{n} = sound({n})" for n in range(20))
    assert items.result(f"{FILE}\n{more}") is not None
    offer = items.result(f"{more}\n{FILE}")
    assert offer is not None and set(offer.bases) == {"i0", "i1"}
    assert restored(offer, items.texts) == f"{more}\n{FILE}".split("\n")


def test_numbered_lines_say_which_numbers_they_had() -> None:
    items = Reading()
    items.result(FILE)
    offer = items.result("\n".join(f"{n:6}\t{line}" for n, line in enumerate(FILE.split("\n"), 200)))
    assert offer is not None and "lines 200-259" in str(offer.texts[0])


@pytest.mark.parametrize(
    "text",
    ["short\nand\nsweet\nlines", "\n".join(f"all new {n * n} and its own words" for n in range(60)), "QUJD" * 400],
    ids=["short", "new", "encoded"],
)
def test_what_repeats_too_little_has_no_delta(text: str) -> None:
    items = Reading()
    items.result(text if len(text) < MIN_CHARS else FILE)
    assert items.result(text) is None


def test_the_delta_of_an_item_depends_on_what_came_before_it_alone() -> None:
    one, other = Reading(), Reading()
    texts = [FILE, FILE[:1_000], FILE.replace("tide", "ebb"), FILE]
    made = [one.result(text) for text in texts]
    assert [other.result(text) for text in texts[:2]] == made[:2]


@pytest.mark.parametrize("seed", range(20))
def test_random_readings_are_restored_line_by_line(seed: int) -> None:
    chance = random.Random(seed)
    lines = [f"    value_{n} = compute_{n * 13}({n})" for n in range(120)]
    items = Reading()
    offers = 0
    for _ in range(12):
        start = chance.randrange(80)
        shown = lines[start : start + chance.randrange(15, 40)]
        if chance.random() < 0.3:
            at = chance.randrange(120)
            lines[at] = f"    value_{at} = changed_{chance.randrange(10**9)}()"
        text = "\n".join(shown)
        offer = items.result(text)
        if offer is not None:
            offers += 1
            assert restored(offer, items.texts) == shown
    assert offers >= 3


def test_the_escapes_of_arguments_are_undone() -> None:
    assert written_text('a\\n\\tb \\"c\\" \\\\d') == 'a\n\tb "c" \\d'
    assert written_text("plain") == "plain"
