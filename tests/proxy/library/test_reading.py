"""Which conversation is meant, and what is read of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy import open_store
from proxy.errors import NotFoundError
from proxy.library.reading import read_past, resolve


def test_a_conversation_is_named_by_name_id_or_its_start(tmp_path: Path) -> None:
    with open_store(tmp_path / "x.db") as store:
        store.add("user", "one", conversation="alpha")
        store.add("user", "two", conversation="beta")

        def find(name: str | None) -> str:
            return store._run(resolve(store._store, "library", name))

        alpha, beta = find("alpha"), find("beta")
        assert find(alpha) == find(alpha[:6]) == alpha != beta
        assert find(None) == beta  # the newest, where there is no own one
        store.add("user", "mine")
        assert find(None) not in (alpha, beta)
        for name in ("gamma", ""):
            if name:
                with pytest.raises(NotFoundError, match="gamma"):
                    find(name)


def test_what_was_said_of_items_is_read_with_them(tmp_path: Path) -> None:
    with open_store(tmp_path / "x.db") as store:
        first = store.add("user", "one", importance=0.5)
        second = store.add("user", "two", pin=True)
        store.link(second, first, "cites")
        store.importance(first, 1.5)
        past = store._run(read_past(store._store, store._formats, store._run(resolve(store._store, "library", None))))
        assert past.ids == (first, second) and [element.text for element in past.elements] == ["one", "two"]
        assert past.pinned == {second} and past.importance == {first: 1.5}
        assert past.cites[second] == (first,)
        assert past.conversation("m").head == 0
