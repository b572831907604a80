"""Reads the store after the session: is every word there, and can the last window be built again? Changes nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from policies.model import Form
from proxy.demo.figures import Kept
from proxy.store.base import Store
from proxy.store.open import open_store
from proxy.views import render_window


async def gather_evidence(db: Path, conversation: str, sent: Sequence[bytes], last_body: bytes) -> Kept:
    """`sent` are the agent's own messages as bytes, `last_body` what the model got in its last successful call."""
    store = open_store(str(db))
    await store.open()
    try:
        stored = [item.data async for item in await store.transcript(conversation)]
        windows = await store.windows(conversation)
        folds = await store.folds(conversation)
        masked = await _masked(store, windows)
        manifest = await store.window(windows[-1]) if windows else None
        rendered = await render_window(store, manifest) if manifest is not None else b""
    finally:
        await store.aclose()
    return Kept(
        messages=len(sent),
        found=count_found(sent, stored),
        items=len(stored),
        compactions=len(folds),
        masked=masked,
        windows=len(windows),
        is_window_proven=rendered == last_body,
    )


def count_found(sent: Sequence[bytes], stored: Sequence[bytes]) -> int:
    """How many of the agent's messages are stored. Byte for byte; only the model's own words, which the
    proxy keeps as it heard them and not as the agent repeats them, count when they say the same."""
    left = Counter(stored)
    said = Counter(_said(data) for data in stored)
    found = 0
    for data in sent:
        if left[data] > 0:
            left[data] -= 1
            said[_said(data)] -= 1
            found += 1
        elif (key := _said(data)).startswith('{"assistant"') and said[key] > 0:
            said[key] -= 1
            found += 1
    return found


def _said(data: bytes) -> str:
    message = json.loads(data)
    calls = [
        (call.get("id"), call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls") or []
    ]
    return json.dumps({message.get("role", ""): [message.get("content") or "", calls]}, separators=(",", ":"))


async def _masked(store: Store, windows: Sequence[str]) -> int:
    """Items that stood as a stub in any served window."""
    reduced: set[str] = set()
    for window in windows:
        manifest = await store.window(window)
        if manifest is not None:
            reduced |= {entry.item for entry in manifest.entries if entry.form in (Form.STUB, Form.EXCERPT)}
    return len(reduced)
