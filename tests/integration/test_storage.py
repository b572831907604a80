"""The store under many hands at once, over both kinds: streams, an export and a second process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx

from proxy.audit.exporting import stream
from proxy.audit.verify import verify_store
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
