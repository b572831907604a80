"""By its key a request belongs to a team: keys of the configuration and of the store, ended ones, foreign ones."""

from __future__ import annotations

import hmac
from dataclasses import replace
from pathlib import Path

import pytest

import proxy.roster
from proxy.config import Config, load_config
from proxy.core.client_keys import hash_key, key_id, make_key
from proxy.core.records import ClientKeyRow
from proxy.errors import ConfigError, StoreError
from proxy.roster import STALE_S, Roster, ended
from proxy.store.null import NullStore

ONE, TWO = make_key("harbour", bytes(20)), make_key("quay", bytes(20))
CONFIG = """
[teams.harbour]
client_keys = ["an-own-key-of-the-harbour"]
[teams.harbour.upstream]
key_env = "HARBOUR_KEY"
[teams.quay]
pass_through = true
"""


class Keys(NullStore):
    """A store with keys; it can fail."""

    def __init__(self, *rows: ClientKeyRow) -> None:
        super().__init__()
        self.rows, self.asked, self.is_away = list(rows), 0, False

    async def client_keys(self) -> list[ClientKeyRow]:
        self.asked += 1
        if self.is_away:
            raise StoreError("away")
        return self.rows


def row(key: str, team: str, revoked_at: str = "") -> ClientKeyRow:
    return ClientKeyRow(key_id(hash_key(key)), team, hash_key(key), "2026-01-01T00:00:00.000000Z", revoked_at)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "c.toml").write_text(CONFIG)
    return load_config(tmp_path / "c.toml", environ={"HARBOUR_KEY": "sk-provider"})


class Clock:
    now = 1_790_000_000.0

    def __call__(self) -> float:
        return self.now


async def made(config: Config, *rows: ClientKeyRow) -> tuple[Roster, Keys, Clock]:
    store, clock = Keys(*rows), Clock()
    roster = Roster(config.teams, store, clock)
    await roster.refresh()
    return roster, store, clock


async def test_sec_a_managed_team_s_key_comes_in_any_key_header_and_never_goes_upstream(config: Config) -> None:
    roster, _, _ = await made(config, row(ONE, "harbour"))
    for name, value in ((b"authorization", f"Bearer {ONE}"), (b"x-undercliff-key", ONE), (b"api-key", ONE)):
        caller = roster.admit([(name, value.encode()), (b"x-api-key", b"")], "peer")
        assert caller is not None and (caller.team, caller.tenant) == ("harbour", "team:harbour")
        assert (b"authorization", b"Bearer sk-provider") in caller.headers
        assert all(ONE.encode() not in value for _, value in caller.headers)
    caller = roster.admit([(b"authorization", b"Bearer an-own-key-of-the-harbour")], "peer")
    assert caller is not None and caller.team == "harbour"


async def test_sec_a_team_that_brings_its_own_provider_key_must_keep_the_two_apart(config: Config) -> None:
    roster, _, _ = await made(config, row(TWO, "quay"))
    assert roster.admit([(b"authorization", f"Bearer {TWO}".encode())], "p") is None
    caller = roster.admit([(b"authorization", b"Bearer sk-theirs"), (b"X-Undercliff-Key", TWO.encode())], "p")
    assert caller is not None and caller.team == "quay"
    assert caller.headers == [(b"authorization", b"Bearer sk-theirs")]


@pytest.mark.parametrize(
    "key", ["", "x", "sk-provider", ONE[:-1], ONE + "0", TWO.replace("quay", "harbour"), "uc_harbour_"]
)
async def test_sec_other_keys_open_nothing(config: Config, key: str) -> None:
    roster, _, _ = await made(config, row(ONE, "harbour"), row(TWO, "gone"))
    for name in (b"authorization", b"x-undercliff-key"):
        assert (
            roster.admit([(name, f"Bearer {key}".encode() if name == b"authorization" else key.encode())], "p") is None
        )
    assert roster.admit([(b"x-undercliff-key", TWO.encode())], "p") is None, "a team that is configured no more"


async def test_sec_every_look_up_takes_the_same_steps(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """One hash and one comparison in constant time, whether the key is known, nearly right or nonsense."""
    roster, _, _ = await made(config, row(ONE, "harbour"))
    counts: list[tuple[bytes, bytes]] = []
    compare = hmac.compare_digest

    def counted(a: bytes, b: bytes) -> bool:
        counts.append((a, b))
        return compare(a, b)

    monkeypatch.setattr(proxy.roster.hmac, "compare_digest", counted)
    for key in (ONE, ONE[:-1] + "x", "nonsense", "", "k" * 100_000):
        counts.clear()
        roster.admit([(b"x-undercliff-key", key.encode())], "p")
        assert len(counts) == 1 and {len(a) for pair in counts for a in pair} == {32}


async def test_a_key_ends_when_its_time_is_over(config: Config) -> None:
    roster, store, clock = await made(config, row(ONE, "harbour", "2026-09-21T14:13:30.000000Z"))
    headers = [(b"x-undercliff-key", ONE.encode())]
    assert roster.admit(headers, "p") is not None
    clock.now += 60
    assert roster.admit(headers, "p") is None and ended(store.rows[0], clock.now)
    assert not ended(replace(store.rows[0], revoked_at=""), clock.now)


async def test_new_and_ended_keys_count_without_a_restart(config: Config) -> None:
    roster, store, clock = await made(config)
    headers = [(b"x-undercliff-key", ONE.encode())]
    assert roster.admit(headers, "p") is None
    store.rows = [row(ONE, "harbour")]
    await roster.refresh()
    assert roster.admit(headers, "p") is None and store.asked == 1
    clock.now += STALE_S
    await roster.refresh()
    assert roster.admit(headers, "p") is not None and store.asked == 2
    store.is_away = True
    clock.now += STALE_S
    await roster.refresh()
    assert roster.admit(headers, "p") is not None, "while the store is away the last known keys count"


def test_teams_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    own, managed = "[teams.a]\npass_through = true\n", "[teams.a.upstream]\nkey_env = 'K'"
    cases: dict[str, tuple[str, str]] = {
        "[server]\nclient_keys = ['k']\n[teams.a]\npass_through = true": ("cannot stand beside", "keys create"),
        "[teams.a]": ("teams.a has no provider key", "pass_through"),
        "[teams.A]\npass_through = true": ("no team's name", "a-z"),
        own + managed: ("and a provider key", "Take pass_through"),
        "[teams.a]\npass_through = true\nclient_keys = ['k']\n[teams.b]\npass_through = true\nclient_keys = ['k']": (
            "in common", "its own"),
        "[teams.a]\npass_thru = true": ("teams.a.pass_thru is no setting", "pass_through"),
        "[teams.a]\npass_through = true\nwindow = 3": ("is no table", "[teams.a.window]"),
        f"{own}[teams.a.window]\nmargin_share = 3.0": ("teams.a: window.margin_share", "less"),
        "[teams.a]\npass_through = true\n[teams.a.upstream]\nurl = 'ftp://x'": ("teams.a: ", ""),
        "[teams.a]\npass_through = true\ndollars_per_day = -1": ("too small", "0"),
        "teams = 3": ("stands where sections", "[teams.NAME]"),
    }  # fmt: skip
    for text, (said, hint) in cases.items():
        path.write_text(text)
        with pytest.raises(ConfigError) as caught:
            load_config(path, environ={"K": "sk"})
        error = caught.value
        assert said in str(error) and hint in error.hint, (text, str(error))
        assert "'k'" not in str(error)
