"""The null store takes everything and knows nothing, with every method of the protocol."""

from __future__ import annotations

import inspect

from proxy.core.records import Spent
from proxy.store.base import Store
from proxy.store.null import NullStore
from tests.proxy.store.rows import small_batch


async def test_it_takes_batches_and_knows_nothing() -> None:
    store: Store = NullStore()
    await store.open()
    await store.submit(small_batch(1))
    assert not store.is_degraded
    assert await store.conversations() == []
    assert await store.view("b") == []
    assert await store.window("w") is None
    assert await store.path("p") == ()
    assert [stored async for stored in await store.transcript("c")] == []
    await store.aclose()


async def test_every_question_has_an_answer() -> None:
    store = NullStore()
    asked = [name for name, member in inspect.getmembers(Store, inspect.iscoroutinefunction)]
    values = {"tenant": "t", "keys": [], "scope": "", "ids": [], "hash": b"", "query": "x"}
    for name in asked:
        method = getattr(store, name)
        wanted = [p.name for p in inspect.signature(method).parameters.values() if p.default is p.empty]
        answer = await method(**{parameter: values.get(parameter, "id") for parameter in wanted})
        assert not answer or answer == Spent() or name == "transcript", name
