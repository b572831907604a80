"""A client's sending side: the body once and whole, and the moment it leaves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from proxy.link import BodyTooLargeError, ClientGoneError, ClientLink


def link_of(*messages: Any) -> ClientLink:
    """Messages as a server gives them; after the last it stays silent."""
    queue = list(messages)

    async def receive() -> Any:
        if not queue:
            await asyncio.Event().wait()
        return queue.pop(0)

    return ClientLink(receive)


def part(body: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


GONE = {"type": "http.disconnect"}


async def test_the_body_whole() -> None:
    assert await link_of(part(b"ab"), part(b""), part(b"cd", more=False)).body(10) == b"abcd"
    assert await link_of(part(b"", more=False)).body(10) == b""


async def test_a_body_over_the_cap_is_not_read_on() -> None:
    with pytest.raises(BodyTooLargeError):
        await link_of(part(b"x" * 6), part(b"x" * 6)).body(10)


async def test_a_client_that_leaves_in_the_middle_of_its_body() -> None:
    link = link_of(part(b"ab"), GONE)
    with pytest.raises(ClientGoneError):
        await link.body(10)
    assert link.is_gone


async def test_the_disconnect_is_waited_for_behind_the_body() -> None:
    link = link_of(part(b"ab", more=False), GONE)
    async with asyncio.TaskGroup() as group:
        gone = group.create_task(link.gone())
        await asyncio.sleep(0)
        assert not gone.done()
        assert await link.body(10) == b"ab"
    assert link.is_gone
