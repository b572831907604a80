"""`keys` and `usage` as commands: what they refuse, and what they never print."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proxy.cli.main import main
from proxy.core.client_keys import is_whole


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "c.toml"
    path.write_text(f'[store]\nurl = "{tmp_path / "x.db"}"\n[teams.harbour]\npass_through = true\n')
    return path


def run(config: Path, *arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main([*arguments, "--config", str(config)])
    return int(caught.value.code or 0)


def test_a_key_is_printed_once_and_listed_by_its_id(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(config, "keys", "create", "harbour") == 0
    key = capsys.readouterr().out.strip()
    assert is_whole(key)
    assert run(config, "keys", "list", "--json") == 0
    out = capsys.readouterr().out
    [row] = json.loads(out)
    assert row["team"] == "harbour" and row["revoked_at"] == "" and key not in out
    assert run(config, "keys", "list") == 0 and row["id"] in capsys.readouterr().out


def test_rotation_leaves_the_old_key_a_while(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(config, "keys", "create", "harbour")
    run(config, "keys", "list", "--json")
    old = json.loads(capsys.readouterr().out.split("\n", 1)[1])[0]
    assert run(config, "keys", "rotate", old["id"][:5], "--grace-hours", "2") == 0
    new = capsys.readouterr().out.strip()
    assert is_whole(new)
    run(config, "keys", "list", "--json")
    ends = {row["id"]: row["revoked_at"] for row in json.loads(capsys.readouterr().out)}
    assert ends[old["id"]] > old["created_at"] and list(ends.values()).count("") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("keys", "create", "quay"), "there is no team 'quay' in the configuration; there are: harbour"),
        (("keys", "revoke", "abc"), "no key has an id that begins with 'abc'"),
        (("keys", "rotate", "abc"), "no key has an id"),
    ],
)
def test_what_is_not_there(
    config: Path, arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(config, *arguments) == 2
    assert said in capsys.readouterr().err


def test_usage_of_nothing(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(config, "usage", "--days", "7", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []
    assert run(config, "usage") == 0 and "billed" in capsys.readouterr().out
