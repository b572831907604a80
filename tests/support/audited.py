"""A store that the product itself filled: masks, two folds, errors, an image, two tenants, an unplaced request."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from proxy.store.open import open_store
from tests.support import builders, replies
from tests.support.serve import served
from tests.support.session import EAGER, ok, post, tokens_of
from tests.support.upstream import Action, Request, ScriptedUpstream

WINDOW = 12_000
IMAGE = "data:image/png;base64," + "iVBORw0KGgo" * 40
FORMULAS = ["=1+1", "+1", "-1+2", "@SUM(A1)", "\tx", "\rx"]
LONG_ARGUMENT = "argument " * 4600  # 40 KB
SECRET_KEY = "Bearer sk-team-b-0123456789"


def _answer(request: Request) -> Action:
    if not request.body:  # what a browser asks of its own accord
        return replies.error_reply(404, "not found")
    if b"please fail" in request.body:
        return replies.error_reply(400, "the model is on strike, Bearer sk-one")
    bill = max(tokens_of(request.body), 9000 if b"now compact" in request.body else 0)
    if request.json().get("stream"):
        return replies.chat_stream("noted", prompt=bill)
    return replies.json_reply(replies.completion("noted", prompt=bill))


def fill(db: Path) -> None:
    """Some sessions through the running product."""
    options = {"policy__options": EAGER, "models": {"*": {"window": WINDOW}}}
    with ScriptedUpstream(_answer) as up, served(up.base_url, db, **options) as proxy:
        messages = [builders.system(), builders.user("survey the harbour"), *builders.steps(3, 2500)]
        ok(proxy, messages)
        picture = [{"type": "text", "text": "look at this"}, {"type": "image_url", "image_url": {"url": IMAGE}}]
        messages += [builders.assistant("noted"), builders.user("go on"), *builders.steps(2, 2500, start=3)]
        ok(proxy, messages, stream=True)
        messages += [builders.assistant("noted"), {"role": "user", "content": picture}]
        ok(proxy, messages)
        post(proxy, [*messages, builders.assistant("noted"), builders.user("please fail")])
        for number in range(6):
            messages += [builders.assistant("noted"), builders.user(f"now compact {number} {'tide ' * 500}")]
            ok(proxy, messages)
        step = builders.step(90, "failed: no such file")
        step[0]["tool_calls"] = [builders.call("call_0090", "=cmd", what=LONG_ARGUMENT)]
        other = [builders.system(), builders.user("another team's question"), *step]
        other += [builders.user(text) for text in FORMULAS]
        ok(proxy, other, headers={"authorization": SECRET_KEY}, model="other-2")
        post(proxy, b'{"model": "scripted-1", "n": 3, "messages": [{"role": "user", "content": "three"}]}')


@contextmanager
def writing(db: Path) -> Iterator[sqlite3.Connection]:
    """A vandal's connection: no trigger stands in its way."""
    with closing(sqlite3.connect(db, isolation_level=None)) as connection:
        found = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in found:
            connection.execute(f"DROP TRIGGER {name}")
        yield connection
        for _, sql in found:
            connection.execute(sql)


def copy_store(source: Path, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for file in source.parent.glob(f"{source.stem}*"):
        shutil.copy(file, folder / file.name)
    return folder / source.name


async def windows_of(db: Path) -> dict[str, Any]:
    """Every window of a store, rendered."""
    from proxy.views import render_window

    store = open_store(db)
    await store.open()
    try:
        rendered: dict[str, Any] = {}
        for one in await store.conversations(limit=1000):
            for window in await store.windows(one.id):
                manifest = await store.window(window)
                assert manifest is not None
                rendered[window] = await render_window(store, manifest)
        return rendered
    finally:
        await store.aclose()


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]
