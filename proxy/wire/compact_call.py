"""The request by which a Responses provider compacts a list itself, and its answer. The only place with their JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proxy.core.model import Usage
from proxy.core.usage import total
from proxy.errors import NotUnderstoodError
from proxy.wire import jsonbytes
from proxy.wire.errors import load
from proxy.wire.usage import read_usage


@dataclass(frozen=True, slots=True)
class CompactReply:
    """The sealed item, with the provider's own bytes; b"" where there is none, or more than one."""

    raw: bytes
    usage: Usage | None


def compact_request(model: str, raws: Sequence[bytes]) -> bytes:
    """Items as the client sent them, and the model that will read the result. Nothing else belongs to it."""
    return b'{"model":' + jsonbytes.dumps(model) + b',"input":[' + b",".join(raws) + b"]}"


def compact_reply(body: bytes) -> CompactReply | None:
    """The answer; None when it is none."""
    value = load(body)
    if not isinstance(value, dict) or not isinstance(value.get("output"), list):
        return None
    usage = total(read_usage(value))
    try:
        raws = jsonbytes.split_list(jsonbytes.slice_value(body, "output") or b"[]")
    except NotUnderstoodError:
        return None
    sealed = [raw for item, raw in zip(value["output"], raws, strict=True) if _is_sealed(item)]
    return CompactReply(sealed[0] if len(sealed) == 1 else b"", usage)


def _is_sealed(item: object) -> bool:
    """Is it what stands for the list? The other items are the client's own, which the window has from the store."""
    if not isinstance(item, dict) or item.get("type") != "compaction":
        return False
    content = item.get("encrypted_content")
    return isinstance(content, str) and bool(content)
