"""Keys of teams: whole or not, told by their check sum, and kept as hashes."""

from __future__ import annotations

import pytest

from proxy.core.client_keys import hash_key, is_whole, key_id, make_key

KEY = make_key("harbour_2", bytes(range(20)))


def test_a_key_names_its_team_and_holds_its_own_check() -> None:
    assert KEY.startswith("uc_harbour_2_0001") and is_whole(KEY)
    assert make_key("harbour_2", bytes(range(20))) == KEY


@pytest.mark.parametrize("place", [3, 12, 20, -1])
def test_one_letter_wrong_is_seen_without_a_look_up(place: int) -> None:
    wrong = "0" if KEY[place] != "0" else "1"
    assert not is_whole(KEY[:place] + wrong + (KEY[place + 1 :] if place != -1 else ""))


@pytest.mark.parametrize("text", ["", "uc_", "sk-abc", KEY + "0", KEY.upper(), f" {KEY}"])
def test_what_is_no_key(text: str) -> None:
    assert not is_whole(text)


def test_the_hash_gives_nothing_away() -> None:
    hash = hash_key(KEY)
    assert len(hash) == 32 and KEY.encode() not in hash and key_id(hash) == hash.hex()[:12]
    assert hash_key("\ud800") != hash_key("\ud801")
