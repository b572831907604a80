"""The backends that the contract suite runs over. A new one is one more entry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from proxy.store.base import Store
from proxy.store.open import open_store


def _sqlite(folder: Path) -> Store:
    return open_store(folder / "store" / "ctx.db")


BACKENDS: dict[str, Callable[[Path], Store]] = {"sqlite": _sqlite}
