"""SEC-03: keys of every shape at the door, with and without teams. Over a real socket; the provider hears of none."""

from __future__ import annotations

import hmac
import random
from pathlib import Path

import httpx
import pytest

from proxy.config import load_config
from proxy.core import client_keys
from proxy.roster import Roster
from tests.integration.test_teams import ENVIRONMENT, Yard, yard
from tests.support import builders
from tests.support.raw import talk

REAL = "key-of-the-harbour"
SHAPES: dict[str, bytes] = {
    "quotes": b"' OR '1'='1",
    "tautology": b'" or 1=1 --',
    "comment": b"x'; DROP TABLE client_keys; /*",
    "percent": b"%%%_%27",
    "long": b"k" * 60_000,
    "latin": "schlüssel".encode("latin-1"),
    "utf-8": "ключ".encode(),
    "empty": b"",
    "nearly": REAL[:-1].encode(),
    "longer": REAL.encode() + b"x",
    "upper": REAL.upper().encode(),
    "made up": client_keys.make_key("harbour", bytes(20)).encode(),
}
BODY = builders.body_bytes(builders.request([builders.user("let me in")]))


def status(y: Yard, lines: bytes) -> int:
    """Of one request with these header lines, as bytes."""
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n%s\r\ncontent-length: %d\r\n\r\n" % (lines, len(BODY))
    with talk(int(y.url.rsplit(":", 1)[1])) as link:
        link.send(head + BODY)
        return link.reply().status


@pytest.mark.parametrize("name", SHAPES)
def test_sec_03_no_shape_of_a_key_opens_or_breaks_anything(tmp_path: Path, name: str) -> None:
    with yard(tmp_path) as y:
        for lines in (b"authorization: Bearer ", b"x-undercliff-key: ", b"api-key: "):
            assert status(y, lines + SHAPES[name]) == 401
        assert not y.up.requests and not y.other.requests
        assert y.ask({"authorization": f"Bearer {REAL}"}).status_code == 200


@pytest.mark.parametrize("value", [b"a\0b", b"k" * 1_000_000], ids=["NUL", "1 MB"])
def test_sec_03_what_is_no_header_is_refused_before_the_door(tmp_path: Path, value: bytes) -> None:
    with yard(tmp_path) as y:
        assert status(y, b"authorization: Bearer " + value) in (400, 431)
        assert not y.up.requests
        assert y.ask({"authorization": f"Bearer {REAL}"}).status_code == 200


def test_keys_at_random_and_one_letter_off_open_nothing(tmp_path: Path) -> None:
    dice = random.Random(3)
    with yard(tmp_path) as y, httpx.Client(trust_env=False) as http:
        for _ in range(150):
            at = dice.randrange(len(REAL))
            key = REAL[:at] + dice.choice("abcxyz019-_") + REAL[at + 1 :]
            if key == REAL:
                continue
            reply = http.post(f"{y.url}/v1/chat/completions", content=BODY, headers={"authorization": f"Bearer {key}"})
            assert reply.status_code == 401 and REAL not in reply.text and key not in reply.text
        assert not y.up.requests


def test_the_same_work_for_every_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One hash of what was given and one comparison of 32 bytes, however near it is; no letter is looked at alone."""
    compared: list[tuple[int, int]] = []
    compare = hmac.compare_digest

    def noted(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", noted)
    with yard(tmp_path) as y:
        roster = Roster(load_config(y.config, environ=ENVIRONMENT).teams, None)  # type: ignore[arg-type]
        for key in (REAL, REAL[:-1], "a", "z" * 5000, client_keys.make_key("quay", bytes(20))):
            before = len(compared)
            roster._team(key)
            assert compared[before:] == [(32, 32)]
