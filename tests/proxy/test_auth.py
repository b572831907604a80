"""The gate: who is let in, what of their keys goes upstream, and that tenants never meet."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from proxy.auth import Caller, Gate, tenant_secret
from proxy.config import StoreConfig
from proxy.core.headers import RawHeaders
from proxy.errors import StoreError

SECRET = b"s" * 32


def gate(*keys: str, provider: str | None = None, upstream: str = "https://llm.example/v1") -> Gate:
    return Gate(
        client_keys=keys,
        is_managed=provider is not None,
        provider_key=provider or "",
        secret=SECRET,
        upstream=upstream,
    )


def bearer(key: str, *more: tuple[bytes, bytes]) -> RawHeaders:
    return [(b"authorization", b"Bearer " + key.encode()), *more]


def admitted(caller: Caller | None) -> Caller:
    assert caller is not None
    return caller


def test_pass_through_leaves_the_clients_key_and_takes_ours_away() -> None:
    headers = [*bearer("sk-own"), (b"X-Undercliff-Key", b"ours"), (b"x-other", b"1")]
    caller = admitted(gate("ours").admit(headers, "p"))
    assert caller.headers == [*bearer("sk-own"), (b"x-other", b"1")]


def test_pass_through_takes_no_provider_key_for_a_client_key() -> None:
    assert gate("ours").admit(bearer("ours"), "p") is None


@pytest.mark.parametrize("name", [b"Authorization", b"api-key", b"X-Api-Key", b"x-goog-api-key"])
def test_managed_always_replaces_the_clients_key(name: bytes) -> None:
    sent = [(name, b"client"), (b"x-other", b"1")]
    for keys in ((), ("client",)):
        if keys and name == b"x-goog-api-key":
            continue
        caller = admitted(gate(*keys, provider="sk-house").admit(sent, "p"))
        assert caller.headers == [(b"x-other", b"1"), *bearer("sk-house")]


@pytest.mark.parametrize(
    "value",
    ["", "Bearer", "Bearer ", "Bearer wrong", "Basic b3VycyM=", "Bearer ours ", "bearer ours", "ours"],
)
def test_keys_are_compared_whole(value: str) -> None:
    caller = gate("ours", provider="k").admit([(b"authorization", value.encode())], "p")
    assert (caller is not None) == (value.strip().lower().removeprefix("bearer").strip() == "ours")


@pytest.mark.parametrize("value", [b"' OR 1=1 --", b"a\x00b", b"x" * 1_000_000, b"\xff\xfe", "schlüssel".encode()])
def test_hostile_keys_are_just_wrong(value: bytes) -> None:
    headers = [(b"authorization", b"Bearer " + value), (b"x-undercliff-key", value)]
    assert gate("ours", provider="k").admit(headers, "p") is None


def test_tenants_differ_by_key_peer_organisation_project_and_upstream() -> None:
    def tenant(headers: RawHeaders, peer: str = "p", **options: str) -> str:
        return admitted(gate(**options).admit(headers, peer)).tenant

    callers = [
        tenant(bearer("a")),
        tenant(bearer("b")),
        tenant(bearer("a"), upstream="https://other.example"),
        tenant(bearer("a", (b"openai-organization", b"o"))),
        tenant(bearer("a", (b"openai-project", b"o"))),
        tenant([], "p"),
        tenant([], "q"),
        tenant(bearer("anon:p")),
    ]
    assert len(set(callers)) == len(callers)
    assert tenant(bearer("a"), "p") == tenant([(b"API-Key", b"a")], "q")
    assert all(one != "a" * 24 and len(one) == 24 for one in callers)


def test_a_tenant_in_pass_through_is_the_client_key_where_there_is_one() -> None:
    door = gate("ours", "yours")
    one, two, three = (
        admitted(door.admit([*bearer(key), (b"x-undercliff-key", own)], "p")).tenant
        for key, own in (("sk-1", b"ours"), ("sk-2", b"ours"), ("sk-1", b"yours"))
    )
    assert one == two != three


def test_a_secret_is_kept_beside_the_file(tmp_path: Path) -> None:
    store = StoreConfig(url=str(tmp_path / "new" / "talk.db"))
    first = tenant_secret(store)
    assert len(first) == 32 and tenant_secret(store) == first
    (path,) = (tmp_path / "new").iterdir()
    assert path.name == "talk.secret" and stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_home_folder_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    tenant_secret(StoreConfig(url="sqlite:///~/talk.db"))
    assert (tmp_path / "talk.secret").exists()


def test_without_a_file_the_secret_lives_as_long_as_the_process(tmp_path: Path) -> None:
    for store in (StoreConfig(url=":memory:"), StoreConfig(url=str(tmp_path / "x.db"), enabled=False)):
        assert tenant_secret(store) != tenant_secret(store)
    assert list(tmp_path.iterdir()) == []


def test_a_secret_that_cannot_be_kept(tmp_path: Path) -> None:
    """OPS-06: one line with path and user, or a secret of this process alone if the store is not required."""
    url = str(tmp_path / "talk.db")
    (tmp_path / "talk.secret").mkdir()
    with pytest.raises(StoreError) as caught:
        tenant_secret(StoreConfig(url=url))
    assert str(tmp_path / "talk.secret") in str(caught.value) and f"uid {os.geteuid()}" in str(caught.value)
    assert len(tenant_secret(StoreConfig(url=url, required=False))) == 32


def test_a_secret_that_was_cut_is_not_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / "talk.secret").write_bytes(b"")
    with pytest.raises(StoreError, match="whole secret"):
        tenant_secret(StoreConfig(url=str(tmp_path / "talk.db")))
