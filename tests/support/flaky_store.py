"""A store that can be told to lose batches, as a full disk does. Everything else goes to the real one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import proxy.store.open as opening
from proxy.core.records import Batch
from proxy.errors import StoreError
from proxy.store.base import Store


class FlakyStore:
    """Wraps a store. `loses` says of each batch whether it fails, `raises` whether `submit` itself does."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.loses: Callable[[Batch], bool] = lambda batch: False
        self.raises = False
        self.lost: list[Batch] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def submit(self, batch: Batch, *, may_wait: bool = False) -> asyncio.Future[None]:
        if self.raises:
            self.lost.append(batch)
            raise StoreError("the store is closed")
        if not self.loses(batch):
            return self._store.submit(batch)
        self.lost.append(batch)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.set_exception(StoreError("the disk is full"))
        return future


class FlakyStores:
    """Stands in for `open_store`: keeps every store it made."""

    def __init__(self) -> None:
        self.made: list[FlakyStore] = []

    def __call__(self, url: str, **options: Any) -> FlakyStore:
        self.made.append(FlakyStore(opening.open_store(url, **options)))
        return self.made[-1]

    @property
    def last(self) -> FlakyStore:
        return self.made[-1]
