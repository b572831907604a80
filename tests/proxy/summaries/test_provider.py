"""The provider's own compaction: what is asked, with whose key, and what may stand in a window."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proxy.core.digest import DigestItem
from proxy.models import ModelBook
from proxy.prices import PriceBook
from proxy.summaries.base import Caller, Material, SummarizerError
from proxy.summaries.checks import fault
from proxy.summaries.provider import ProviderSummarizer
from proxy.upstream import Upstream, UpstreamOptions
from tests.support import replies
from tests.support.serve import make_config
from tests.support.upstream import Action, ScriptedUpstream

CALLER = Caller("big", [(b"Authorization", b"Bearer sk-client"), (b"Cookie", b"secret")])
TEXT = "gauge " * 2_000
MATERIAL = Material(
    (DigestItem("u1", "user", "user", TEXT),),
    (json.dumps({"type": "message", "role": "user", "content": TEXT}).encode(),),
)
SEAL = {"id": "cmp_1", "type": "compaction", "encrypted_content": "gAAAAB"}


def answer(*output: object, tokens: int = 50) -> Action:
    usage = {"input_tokens": 2_000, "output_tokens": tokens, "input_tokens_details": {"cached_tokens": 0}}
    return replies.json_reply({"object": "response.compaction", "output": list(output), "usage": usage})


def summarizer(
    tmp_path: Path, up: ScriptedUpstream, upstream: Upstream, key: str = "", **facts: float
) -> ProviderSummarizer:
    models = {"*": {"window": 8_000, "input_price": 1.0, "output_price": 2.0, **facts}}
    config = make_config(up.base_url, tmp_path / "x.db", models=models)
    book = ModelBook(config, PriceBook(config.upstream.url, config.model))
    return ProviderSummarizer(f"{up.base_url}/responses/compact", key, upstream, book.limits)


async def test_one_call_with_the_client_s_key(tmp_path: Path) -> None:
    upstream = Upstream(UpstreamOptions())
    with ScriptedUpstream(lambda request: answer(SEAL)) as up:
        draft = await summarizer(tmp_path, up, upstream).summarize(MATERIAL, CALLER)
        (asked,) = up.requests
        assert asked.path == "/v1/responses/compact" and asked.json()["model"] == "big"
        assert asked.header("authorization") == "Bearer sk-client" and asked.header("cookie") is None
        assert json.loads(draft.text) == SEAL and draft.is_sealed and fault(draft, len(TEXT)) == ""
        assert draft.cost == pytest.approx((2_000 * 1.0 + 50 * 2.0) / 1e6)
    await upstream.aclose()


async def test_a_managed_key_is_used_for_everyone(tmp_path: Path) -> None:
    upstream = Upstream(UpstreamOptions())
    with ScriptedUpstream(lambda request: answer(SEAL)) as up:
        await summarizer(tmp_path, up, upstream, "sk-own").summarize(MATERIAL, CALLER)
        assert up.requests[0].header("authorization") == "Bearer sk-own"
    await upstream.aclose()


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (answer(), "empty"),
        (answer(SEAL, SEAL), "empty"),
        (answer({**SEAL, "encrypted_content": "x" * len(TEXT)}), "saves too little"),
        (answer(SEAL, tokens=1_900), "saves too little"),
    ],
)
async def test_what_is_not_worth_its_place(tmp_path: Path, reply: Action, said: str) -> None:
    upstream = Upstream(UpstreamOptions())
    with ScriptedUpstream(lambda request: reply) as up:
        draft = await summarizer(tmp_path, up, upstream).summarize(MATERIAL, CALLER)
        assert fault(draft, len(TEXT)) == said
    await upstream.aclose()


async def test_more_than_the_model_can_read_is_not_asked_for(tmp_path: Path) -> None:
    upstream = Upstream(UpstreamOptions())
    with ScriptedUpstream(lambda request: answer(SEAL)) as up:
        with pytest.raises(SummarizerError, match="more than big can read"):
            await summarizer(tmp_path, up, upstream, window=2_000).summarize(MATERIAL, CALLER)
        assert not up.requests
    await upstream.aclose()


async def test_no_compaction_at_all(tmp_path: Path) -> None:
    upstream = Upstream(UpstreamOptions())
    with (
        ScriptedUpstream(lambda request: replies.json_reply({"id": "resp_1"})) as up,
        pytest.raises(SummarizerError, match="no compaction"),
    ):
        await summarizer(tmp_path, up, upstream).summarize(MATERIAL, CALLER)
    await upstream.aclose()
