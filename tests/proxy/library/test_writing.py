"""Items that the library adds: rows like the proxy's, one chain, links by themselves."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from proxy import open_store
from proxy.core.records import StoredItem
from proxy.errors import InputError
from proxy.library.facade import ContextStore
from proxy.library.writing import KINDS, Ledger
from proxy.views import gather
from tests.support import builders
from tests.support.strict_lists import chat_fault
from tests.support.turns import TENANT, bench


def ids_and_links(store: ContextStore) -> tuple[list[str], list[tuple[str, str, str]]]:
    shown = store._run(gather(store._store, store._run(_newest(store)), "user"))
    links = store._run(store._store.links(shown.conversation.id))
    return [item.id for item in shown.items], [(link.a, link.b, link.type) for link in links]


async def _newest(store: ContextStore) -> str:
    return (await store._store.conversations())[0].id


def test_a_result_comes_with_the_call_that_it_answers(tmp_path: Path) -> None:
    with open_store(tmp_path / "x.db") as store:
        asked = store.add("user", "Where is tide_gauge read?")
        found = store.add("tool_result", "src/quay.py:3 tide_gauge", source="grep tide_gauge", tool="bash")
        opened = store.add("file_read", "def moor(): ...", source="src/quay.py")
        ids, links = ids_and_links(store)
        assert ids[0] == asked and ids[2] == found and ids[4] == opened and len(ids) == 5
        assert (found, ids[1], "replies_to") in links and (opened, ids[3], "replies_to") in links
        assert (ids[1], asked, "derived_from") in links and (ids[3], found, "derived_from") in links


def test_equal_texts_are_items_of_their_own_after_a_restart_too(tmp_path: Path) -> None:
    made = []
    for _ in range(2):
        with open_store(tmp_path / "x.db") as store:
            made += [store.add("user", "Again."), store.add("user", "Again.")]
    assert len(set(made)) == 4
    with open_store(tmp_path / "x.db") as store:
        assert ids_and_links(store)[0] == made
        assert [item["content"] for item in store.context_get(500, model="m").items] == ["Again."] * 4


def test_the_views_of_the_proxy_show_what_the_library_wrote(tmp_path: Path) -> None:
    with open_store(tmp_path / "x.db") as store:
        store.add("system", "Be brief.")
        store.add("user", "Go.", conversation=None)
        name = store._run(_newest(store))
        for view in ("user", "model"):
            shown = store._run(gather(store._store, name, view))
            assert [item.text for item in shown.items] == ["Be brief.", "Go."]
        assert shown.conversation.exchanges == 1 and shown.items[0].is_pinned


async def test_an_agents_conversation_takes_no_additions(tmp_path: Path) -> None:
    made = bench(tmp_path)
    turn = await made.begin([builders.user("hello")])
    from_proxy = StoredItem(1, made.record(turn)[0].items[0])
    past = type("Past", (), {"branch": turn.live.row(TENANT), "id": "c", "ids": (from_proxy.row.id,), "elements": ()})
    with pytest.raises(InputError, match="is an agent's"):
        Ledger.of("library", "default", past)  # type: ignore[arg-type]


def test_kinds_are_named_in_one_place() -> None:
    assert KINDS == ("system", "developer", "user", "assistant", "message", "tool_result", "file_read")


def test_two_writers_of_one_conversation_lose_nothing(tmp_path: Path) -> None:
    """As two processes have it: each a store of its own on one file, one of them always behind the other."""
    path = tmp_path / "x.db"
    with open_store(path) as one, open_store(path) as other:

        def write(store: ContextStore, name: str) -> None:
            for number in range(15):
                store.add("user", f"{name} {number}")
                store.add("tool_result", "the same", source="look")

        threads = [threading.Thread(target=write, args=pair) for pair in ((one, "one"), (other, "other"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        window = one.context_get(100_000, model="m")
        said = [item["content"] for item in window.items if item["role"] == "user"]
        for name in ("one", "other"):
            assert [text for text in said if text.startswith(f"{name} ")] == [f"{name} {n}" for n in range(15)]
        assert sum(item.get("content") == "the same" for item in window.items) == 30
        assert chat_fault(list(window.items)) is None
        assert other.context_get(100_000, model="m").items == window.items
