"""Links from what is used again."""

from __future__ import annotations

import time

from proxy.core.links import COMMON_FROM, LinkReader, link_type, tokens_of
from tests.support.listed import listed, notes, shell, user


def cites(*messages: dict[str, object]) -> dict[str, tuple[str, ...]]:
    return {item: note.cites for item, note in notes(LinkReader(), messages).items()}


def test_a_call_is_derived_from_what_named_its_arguments() -> None:
    messages = [
        user("look into order #W7713209"),
        *shell(1, "grep -rn tide_gauge .", "src/harbour/quay.py:12: tide_gauge = 3"),
        *shell(2, "cat src/harbour/quay.py", "def moor_ship(): ..."),
        {"role": "assistant", "content": "moor_ship is wrong for #W7713209"},
    ]
    found = cites(*messages)
    assert found["m3"] == ("m2",)
    assert set(found["m5"]) == {"m0", "m4"}
    assert link_type(listed(messages)[3].element) == "derived_from"
    assert link_type(listed(messages)[5].element) == "cites"


def test_results_cite_nothing_and_nothing_cites_itself() -> None:
    assert "m2" not in cites(user("see quay_7"), *shell(1, "cat quay_7 quay_7", "quay_7 is there"))
    assert cites(user("quay_7 and quay_7 again")) == {}


def test_what_everyone_names_leads_nowhere() -> None:
    messages = [user(f"harbour_map once more ({n})") for n in range(COMMON_FROM + 3)]
    assert cites(*messages)["m5"] == ("m0",)
    assert f"m{COMMON_FROM + 1}" not in cites(*messages)


def test_tokens_are_paths_ids_and_identifiers() -> None:
    text = "the quay in src/a/quay.py, order #W7713209, moorShip and HarbourMap, plain words, v1, tide_gauge"
    assert tokens_of(text) == ["src/a/quay.py", "#W7713209", "moorShip", "HarbourMap", "tide_gauge"]


def test_the_cost_follows_what_is_new() -> None:
    """The thousandth item costs what the tenth did."""
    items = listed([user(f"berth_{n} of quay_{n // 3} " * 40) for n in range(3_000)])
    reader = LinkReader()
    started = time.perf_counter()
    for item in items[:500]:
        reader.read(item)
    first = time.perf_counter() - started
    for item in items[500:2_500]:
        reader.read(item)
    started = time.perf_counter()
    for item in items[2_500:]:
        reader.read(item)
    assert time.perf_counter() - started < 4 * first + 0.02


def test_any_text_is_read_in_linear_time() -> None:
    for piece in ("a/", "a_", "a.", "A", "1", "-", "@"):
        started = time.perf_counter()
        tokens_of(piece * (200_000 // len(piece)))
        assert time.perf_counter() - started < 1.0, piece
