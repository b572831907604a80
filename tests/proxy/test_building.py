"""From a configuration to parts: one desk for everybody, or one for each team with what holds for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proxy.auth import Gate
from proxy.building import build
from proxy.config import load_config
from proxy.errors import ConfigError
from proxy.passthrough import RawRequest
from proxy.roster import Roster

REQUEST = RawRequest("POST", "/v1/chat/completions", "http://up.test", [], "t")


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "c.toml"
    path.write_text(f'[store]\nurl = "{tmp_path / "x.db"}"\n{text}')
    return path


async def test_without_teams_there_is_one_desk_for_everybody(tmp_path: Path) -> None:
    parts = await build(load_config(write(tmp_path, ""), environ={}))
    assert list(parts.desks) == [""] and isinstance(parts.gate, Gate)
    desk = parts.desks[""]
    assert desk.allowance is None and await desk.refusal(REQUEST, "") is None
    await parts.store.aclose()
    await parts.upstream.aclose()


async def test_each_team_has_a_desk_with_its_own_settings(tmp_path: Path) -> None:
    text = (
        "[window]\ncompact_at = 90000\n[teams.a]\npass_through = true\nrequests_per_day = 1\n"
        "[teams.a.window]\ncompact_at = 50000\n[teams.b.upstream]\nkey_env = 'B'\nurl = 'http://b.test/v1'"
    )
    parts = await build(load_config(write(tmp_path, text), environ={"B": ""}))
    assert isinstance(parts.gate, Roster) and list(parts.desks) == ["a", "b"]
    a, b = parts.desks["a"], parts.desks["b"]
    assert (a.config.window.compact_at, b.config.window.compact_at) == (50_000, 90_000)
    assert b.config.upstream.url == "http://b.test/v1" and a.exchanges is not b.exchanges
    missing = await b.refusal(REQUEST, "b")
    assert missing is not None and missing[0] == 503 and b"environment variable B" in missing[2]
    assert await a.refusal(REQUEST, "a") is None
    over = await a.refusal(REQUEST, "a")
    assert over is not None and over[0] == 429
    assert json.loads(over[2])["error"]["code"] == "team_limit_reached"
    await parts.store.aclose()
    await parts.upstream.aclose()


async def test_a_team_s_policy_that_does_not_exist_is_told_by_name(tmp_path: Path) -> None:
    text = "[teams.a]\npass_through = true\n[teams.a.policy]\nname = 'magic'"
    with pytest.raises(ConfigError, match="magic"):
        await build(load_config(write(tmp_path, text), environ={}))
