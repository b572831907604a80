"""Originals for people and scripts: whole and in part, and only for whoever may see them."""

from __future__ import annotations

import httpx

from tests.support import builders
from tests.support.expanding import SIZE, Talk, talking
from tests.support.serve import served
from tests.support.session import EAGER, strict
from tests.support.upstream import ScriptedUpstream


def fetch(talk: Talk, item: str, key: str = "", **query: str) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return httpx.get(f"{talk.proxy.url}/ctx/expand/{item}", headers=headers, params=query)


def test_the_owner_of_a_private_machine_and_the_key_that_sent_it_get_it() -> None:
    with talking() as talk:
        original = builders.long_text(0, SIZE)
        assert fetch(talk, talk.ids[0]).text == original == fetch(talk, talk.ids[0], "sk-one").text
        lines = fetch(talk, talk.ids[0], lines="2-3").text.splitlines()
        assert lines[1:] == original.splitlines()[1:3] and "lines 2-3" in lines[0]
        assert "matching" in fetch(talk, talk.ids[0], query="gauge", max_tokens="50").text
        assert fetch(talk, talk.ids[0], lines="x").status_code == 400


def test_anyone_else_gets_the_answer_of_a_path_that_is_not_there() -> None:
    with talking() as talk:
        for response in (fetch(talk, talk.ids[0], "sk-two"), fetch(talk, "aaaaaaaaaaaa")):
            assert response.status_code == 404 and response.json()["error"]["code"] == "not_found"
    with (
        ScriptedUpstream(strict) as up,
        served(up.base_url, policy__options=EAGER, server__admin_key="boss-key-1") as proxy,
    ):
        talk = Talk(proxy, up)
        assert fetch(talk, talk.ids[0]).status_code == 404
        assert (
            fetch(talk, talk.ids[0], "sk-one").status_code == 200 == fetch(talk, talk.ids[0], "boss-key-1").status_code
        )
