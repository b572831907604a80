"""The store under many hands at once, over both kinds: streams, an export and a second process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx

from proxy import open_store
from proxy.audit.exporting import stream
from proxy.audit.verify import verify_store
from proxy.config import load_config
from proxy.core.filters import Filters
from proxy.store.archive import Archive
from tests.support import builders, replies
from tests.support.records import Records
from tests.support.serve import served_process
from tests.support.stores import Stores, stores
from tests.support.upstream import Action, Request, ScriptedUpstream

__all__ = ["stores"]  # the fixture


def answer(request: Request) -> Action:
    return replies.chat_stream("noted " * 20, prompt=len(request.body) // 4)


async def test_stor_01_many_streams_an_export_and_a_second_process(stores: Stores, tmp_path: Path) -> None:
    place = stores.place("a")
    up = ScriptedUpstream(answer)
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    is_done = asyncio.Event()

    def export() -> int:
        with Archive(place) as archive:
            return sum(map(len, stream(archive, "jsonl", Filters(), version="1")))

    async def export_on() -> list[int]:
        sizes = []
        while not is_done.is_set():
            sizes.append(await asyncio.to_thread(export))
        return sizes

    async def talk(client: httpx.AsyncClient, url: str, number: int) -> None:
        messages = [builders.user(f"talk {number}")]
        for turn in range(3):
            async with client.stream(
                "POST", f"{url}/chat/completions", json=builders.request(messages, stream=True)
            ) as response:
                assert response.status_code == 200
                got = b"".join([data async for data in response.aiter_raw()])
            assert got.endswith(replies.DONE)
            messages += [builders.assistant("noted " * 20), builders.user(f"and {number}.{turn}?")]

    with (
        up,
        served_process(up.base_url, folders[0], store__url=place) as one,
        served_process(up.base_url, folders[1], store__url=place) as two,
    ):
        exporting = asyncio.ensure_future(export_on())
        async with httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=60)) as client:
            await asyncio.gather(*(talk(client, (one, two)[n % 2].base_url, n) for n in range(50)))
        is_done.set()
        assert len(await exporting) >= 1
    records = Records(place)
    names = records.conversations()
    assert len(names) == 50
    for name in names:
        assert [outcome.outcome for outcome in records.outcomes(name)] == ["ok"] * 3
    with Archive(place) as archive:
        found = verify_store(archive, secret=None)
    assert found.holds, found.problems[:3]


async def test_the_page_an_export_and_the_library_read_either_store(stores: Stores, tmp_path: Path) -> None:
    place = stores.place("a")
    with ScriptedUpstream(answer) as up, served_process(up.base_url, tmp_path, store__url=place) as proxy:
        async with httpx.AsyncClient(timeout=30) as client:
            asked = builders.request([builders.user("where is the gauge?")], stream=True)
            assert (await client.post(f"{proxy.base_url}/chat/completions", json=asked)).status_code == 200
            (name,) = Records(place).conversations()
            for path, shows in {
                "/ctx/": "where is the gauge?",
                "/ctx/list": name,
                f"/ctx/c/{name}": "scripted-1",
                f"/ctx/c/{name}/rows?start=0": "where is the gauge?",
                f"/ctx/c/{name}/timeline.json": '"outcome"',
                "/ctx/export?format=jsonl": "where is the gauge?",
                "/ctx/export?format=csv": "where is the gauge?",
                "/ctx/list?q=gauge": "gauge",
            }.items():
                page = await client.get(f"{proxy.url}{path}")
                assert page.status_code == 200 and shows in page.text, (path, page.text[:2000])
    with open_store(place) as store:
        added = store.add("user", "a note of my own about the gauge", conversation="mine")
        assert [id for id, _ in store.search("my own")] == [added]
        assert "gauge" in str(store.context_get(2000, model="any", query="gauge"))
    key = (
        Path(place).with_suffix(".secret") if stores.kind == "sqlite" else Path(load_config().store.secret_file)
    ).read_bytes()
    with Archive(place) as archive:
        found = verify_store(archive, secret=key)
    assert found.holds, found.problems[:3]
