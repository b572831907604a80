"""COMP-15 with four processes on one store: whoever gets there first compacts, once, and all go on the same."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_summaries import GOOD, WINDOW, Provider, agents, folds, good, settled, talk
from tests.support import builders
from tests.support.records import eventually
from tests.support.serve import ServedProcess, dotted
from tests.support.session import FOLDED, NEVER, conversation, from_store, ok
from tests.support.stores import Stores, stores
from tests.support.upstream import ScriptedUpstream

__all__ = ["stores"]  # the fixture


@contextmanager
def four(up: ScriptedUpstream, folder: Path, place: str, **settings: Any) -> Iterator[list[ServedProcess]]:
    shared = dotted({"policy__options": NEVER, "store__url": place, **settings})
    made = []
    for number in range(4):
        own = folder / str(number)
        own.mkdir()
        made.append(ServedProcess(up.base_url, own, shared, {"*": {"window": WINDOW}}))
    try:
        made[0].start()  # it makes the file
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda proxy: proxy.start(), made[1:]))
        yield made
    finally:
        for proxy in made:
            proxy.kill()


@dataclass(frozen=True)
class Shared:
    """The store that they share, for those who look into one proxy's."""

    db: str


async def summarized(store: Any, name: str) -> list[int]:
    """How many items stand in each branch's archive."""
    return [len(await store.view(row.id, summarized=True)) for row in await store.branches(name)]


@pytest.mark.parametrize("summarizer", ["upstream", pytest.param("digest", marks=pytest.mark.slow)])
def test_comp_15_four_processes_one_compaction(summarizer: str, tmp_path: Path, stores: Stores) -> None:
    """A turn that comes while another process still writes a summary, or the bill that calls for it, goes on with its
    window, as it should: such a talk says nothing of who compacts, and another one is begun."""
    settings = {"compaction__summarizer": summarizer, "compaction__wait_s": 20.0}
    provider = Provider(good)
    with ScriptedUpstream(provider) as up, four(up, tmp_path, stores.place("one"), **settings) as proxies:
        file: Any = Shared(stores.place("one"))
        assert any(compacts_once(f"station {number}", summarizer, up, provider, proxies, file) for number in range(6))


def compacts_once(
    topic: str, summarizer: str, up: ScriptedUpstream, provider: Provider, proxies: list[ServedProcess], file: Any
) -> bool:
    """One talk through all of them. False: some could not fold yet, for want of a summary or of the bill."""
    messages = talk([builders.system(), builders.user(topic), *builders.step(1, "ok")], 52)

    def all_at_once() -> set[str]:
        with ThreadPoolExecutor(4) as pool:
            return {conversation(reply) for reply in pool.map(lambda proxy: ok(proxy, messages), proxies)}

    before = len(provider.records)
    ok(proxies[0], messages[:-2])
    (name,) = all_at_once()
    if summarizer == "upstream":
        settled(file, name, 2)
        assert len(set(provider.records)) == len(provider.records) >= before + 2
    # One of them sees the bill that calls for it; the others hear of it from the store.
    made = len(provider.records)
    ok(proxies[1], talk(messages, 9))
    if summarizer == "upstream":
        with suppress(AssertionError):  # they may all be there already
            eventually(lambda: len(provider.records) > made, 5)
        settled(file, name, 2)
    talk(messages, 1, 200)
    assert all_at_once() == {name}
    bodies = [request.body for request in agents(up)[-4:]]
    if not all(FOLDED in body for body in bodies):
        return False
    assert FOLDED in bodies[0] and len(set(bodies)) == 1
    assert (GOOD.encode() in bodies[0]) is (summarizer == "upstream")
    assert len(folds(file, name)) == 1
    archives = from_store(file.db, lambda store: summarized(store, name))
    assert sum(map(bool, archives)) == 1
    # Each of them goes on from the window that was folded, whoever served the turn before.
    for proxy in proxies:
        ok(proxy, talk(messages, 1, 200))
        assert FOLDED in agents(up)[-1].body
    assert len(folds(file, name)) == 1 and len(set(provider.records)) == len(provider.records)
    return True
