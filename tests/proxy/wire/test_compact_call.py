"""What goes to the provider's own compaction, and what counts as its answer."""

from __future__ import annotations

import json

import pytest

from proxy.wire.compact_call import compact_reply, compact_request

SEALED = '{"id" : "cmp_1","type":"compaction","encrypted_content":"gAAA\\u002b"}'
USER = '{"type":"message","role":"user","content":[]}'
USAGE = {"input_tokens": 900, "output_tokens": 40, "input_tokens_details": {"cached_tokens": 100}}


def test_items_go_out_with_their_own_bytes() -> None:
    raws = (b'{"type":"message" ,"role":"user"}', b'{"type":"reasoning","encrypted_content":"x"}')
    body = compact_request('m"1', raws)
    assert json.loads(body) == {"model": 'm"1', "input": [json.loads(raw) for raw in raws]}
    assert b",".join(raws) in body


def test_the_sealed_item_is_taken_as_it_came() -> None:
    reply = compact_reply(f'{{"output":[{USER}, {SEALED}],"usage":{json.dumps(USAGE)}}}'.encode())
    assert reply is not None and reply.raw == SEALED.encode()
    assert reply.usage is not None and (reply.usage.input, reply.usage.output, reply.usage.cached) == (900, 40, 100)


@pytest.mark.parametrize(
    "output",
    [
        "",
        USER,
        '{"type":"compaction"}',
        '{"type":"compaction","encrypted_content":""}',
        '{"type":"compaction","encrypted_content":7}',
        f"{SEALED},{SEALED}",
        '"compaction"',
    ],
)
def test_none_or_more_than_one_is_no_seal(output: str) -> None:
    reply = compact_reply(f'{{"output":[{output}]}}'.encode())
    assert reply is not None and reply.raw == b"" and reply.usage is None


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"output":{}}', b'{"error":{"message":"no"}}'])
def test_what_is_no_compaction(body: bytes) -> None:
    assert compact_reply(body) is None
