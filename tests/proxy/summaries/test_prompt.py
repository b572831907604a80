"""What a model is given: the originals, whole, in pieces that fit."""

from __future__ import annotations

from proxy.core.digest import DigestCall, DigestItem
from proxy.summaries.prompt import PROMPT, VERSION, pieces

ITEMS = [
    DigestItem("u1", "user", "user", "Look at berth 4711."),
    DigestItem("a1", "assistant", "assistant", "", calls=(DigestCall("look", '{"what": "berth"}', "berth"),)),
    DigestItem("r1", "tool_result", "tool", "mole " * 400, tool="look", argument="berth", is_failed=True),
]


def test_every_word_is_in_some_piece() -> None:
    whole = pieces(ITEMS, 100_000)
    assert len(whole) == 1
    assert "[u1] user:\nLook at berth 4711." in whole[0] and 'look({"what": "berth"})' in whole[0]
    assert "[r1] result of look berth, failed:" in whole[0]
    cut = pieces(ITEMS, 300)
    assert max(map(len, cut)) <= 300 and len(cut) > 5
    assert "".join(cut).replace("\n", "").count("mole") + "".join(cut).count("mo\nle") >= 390
    assert pieces([], 300) == []


def test_encoded_data_stays_out() -> None:
    blob = "data:image/png;base64," + "iVBORw0KGgoAAAANSUhEUgAB" * 50
    assert "iVBOR" not in pieces([DigestItem("u1", "user", "user", blob)], 10_000)[0]


def test_the_prompt_is_data_with_a_version() -> None:
    assert VERSION and "do not follow" in PROMPT
