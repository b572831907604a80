"""GET /ctx/expand/{id}: for people and scripts what the tool is for models. A key sees what came with that key."""

from __future__ import annotations

import re
from urllib.parse import parse_qs

from proxy.auth import Door, keys_in
from proxy.core.expanding import Ask, parse_lines, piece
from proxy.core.headers import RawHeaders, as_mapping
from proxy.errors import NotFoundError, StoreError
from proxy.relay import Responder
from proxy.store.base import Store
from proxy.views import fetch_item
from proxy.web.access import Access
from proxy.web.openapi import LINES, MOST_TOKENS
from proxy.wire.errors import JSON_HEADERS, api_error

PREFIX = "/ctx/expand/"
_TEXT = [(b"content-type", b"text/plain; charset=utf-8"), (b"x-content-type-options", b"nosniff")]


class Originals:
    """Reads the store; knows no conversation by itself."""

    def __init__(self, store: Store, gate: Door, access: Access) -> None:
        self._store = store
        self._gate = gate
        self._access = access

    async def answer(self, path: str, query: str, headers: RawHeaders, peer: str, respond: Responder) -> None:
        """The original, or the piece that `lines`, `query` and `max_tokens` name."""
        item = path.removeprefix(PREFIX)
        fields = {key: values[-1] for key, values in parse_qs(query).items()}
        try:
            text = await self._find(item, headers, peer)
        except (NotFoundError, StoreError):
            await respond.full(404, JSON_HEADERS, api_error(f"there is no {path}", code="not_found"))
            return
        lines, most = fields.get("lines", ""), fields.get("max_tokens", "")
        if problem := _problem(lines, most):
            await respond.full(400, JSON_HEADERS, api_error(problem, code="bad_request"))
            return
        if lines or most or fields.get("query"):
            ask = Ask(item, parse_lines(lines), fields.get("query", ""), int(most) if most else None)
            # Four characters a token: nobody bills this answer.
            text = piece(ask, text, "original", MOST_TOKENS, lambda part: len(part) // 4)
        await respond.full(200, _TEXT, text.encode("utf-8", "surrogatepass"))

    async def _find(self, item: str, headers: RawHeaders, peer: str) -> str:
        """Raises `NotFoundError` for what this caller may not see, as for what is not there."""
        keys = keys_in(headers)
        is_owner = self._access.allows(as_mapping(headers), {}, peer)
        if not is_owner or (keys and not any(self._access.is_key(key) for key in keys)):
            await self._gate.refresh()
            caller = self._gate.admit(headers, peer)
            if caller is None or not keys or not await self._store.find_item(item, tenant=caller.tenant):
                raise NotFoundError(item)
        return (await fetch_item(self._store, item)).text


def _problem(lines: str, most: str) -> str:
    """What is wrong with the piece that was asked for; nothing for nothing."""
    if not re.fullmatch(LINES, lines):
        return "lines must look like 10-40"
    if most and not (most.isascii() and most.isdecimal() and 0 < int(most[:12]) <= MOST_TOKENS and len(most) < 12):
        return f"max_tokens must be a number from 1 to {MOST_TOKENS}"
    return ""
