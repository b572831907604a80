"""An OpenAI-compatible reverse proxy with unlimited conversations over a bounded window; also a library.

`proxy.core` is pure, `proxy.wire` alone knows JSON, `proxy.store` alone knows SQL, `policies` choose
what a window holds. `app` puts the server together, `library` the same parts for Python programs:

    from proxy import open_store

    with open_store("run.db") as store:
        store.add("user", "Never touch db/migrations.", pin=True)
        window = store.context_get(12_000, model="gpt-5")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proxy.library.facade import ContextStore as ContextStore
    from proxy.library.facade import open_store as open_store
    from proxy.library.window import Window as Window

__all__ = ["ContextStore", "Window", "open_store"]

_HOMES = {
    "open_store": "proxy.library.facade",
    "ContextStore": "proxy.library.facade",
    "Window": "proxy.library.window",
}


def __getattr__(name: str) -> Any:
    """Load what is asked for, and nothing before: every part of the proxy imports this package."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
