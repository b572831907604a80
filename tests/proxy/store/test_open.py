"""The URL picks the store."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from proxy.errors import ConfigError
from proxy.store.open import open_store
from proxy.store.sqlite import SqliteStore


@pytest.mark.parametrize(
    ("given", "opened"),
    [
        ("{tmp}/a.db", "{tmp}/a.db"),
        ("sqlite:///{tmp}/b.db", "{tmp}/b.db"),
        ("SQLITE:///{tmp}/c d%20e?.db", "{tmp}/c d%20e?.db"),
        ("sqlite:///relative.db", "relative.db"),
        ("folder/plain.db", "folder/plain.db"),
        ("~/home.db", "{home}/home.db"),
    ],
)
async def test_paths_and_sqlite_urls_open_that_file(
    given: str, opened: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    store = open_store(given.format(tmp=tmp_path))
    assert isinstance(store, SqliteStore)
    await store.open()
    assert await store.conversations() == []
    await store.aclose()
    assert (tmp_path / opened.format(tmp=tmp_path, home=tmp_path / "home")).is_file()


@pytest.mark.parametrize("url", ["postgres://h/db", "postgresql://u:p@h/db", "postgresql+psycopg://h/db"])
def test_a_url_of_postgres_is_its_store_and_connects_to_nothing(url: str) -> None:
    assert type(open_store(url)).__name__ == "PostgresStore"


def test_without_the_extra_postgres_is_refused_and_the_extra_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for name in [name for name in sys.modules if name.startswith("proxy.store.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ConfigError, match="extra postgres") as caught:
        open_store("postgresql://u:secret@h/db")
    assert "undercliff[postgres]" in caught.value.hint and "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["mysql://h/db", "", ":memory:", "sqlite:///", "sqlite://host/x"])
def test_what_names_no_file_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="db:"):
        open_store(url)


def test_nothing_is_created_before_the_store_is_opened(tmp_path: Path) -> None:
    open_store(tmp_path / "x" / "a.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("asked", "level"), [("full", "FULL"), ("normal", "NORMAL")])
def test_durability_and_queue_reach_the_store(
    asked: str, level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, object]] = []
    monkeypatch.setattr("proxy.store.open.SqliteStore", lambda path, **options: made.append(options))
    open_store(tmp_path / "x.db", synchronous=asked, queue_mb=3)
    assert made[0].items() >= {"synchronous": level, "max_queue_bytes": 3 << 20}.items()
