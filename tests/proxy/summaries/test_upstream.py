"""A model at the provider: whose key, which model, in how many pieces, and what a failure says."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.core.digest import DigestItem
from proxy.models import ModelBook
from proxy.prices import PriceBook
from proxy.summaries.base import Caller, Material, SummarizerError
from proxy.summaries.upstream import UpstreamOptions, UpstreamSummarizer
from proxy.upstream import Upstream
from proxy.upstream import UpstreamOptions as ClientOptions
from tests.support import replies
from tests.support.serve import make_config
from tests.support.upstream import ScriptedUpstream

CALLER = Caller("big", [(b"Authorization", b"Bearer sk-client"), (b"Cookie", b"secret"), (b"x-session-id", b"s")])
MATERIAL = Material((DigestItem("u1", "user", "user", "gauge " * 4_000),))


def summarizer(tmp_path: Path, up: ScriptedUpstream, upstream: Upstream, **options: str) -> UpstreamSummarizer:
    config = make_config(
        up.base_url, tmp_path / "x.db", models={"*": {"window": 8_000, "input_price": 1.0, "output_price": 2.0}}
    )
    models = ModelBook(config, PriceBook(config.upstream.url, config.model))
    return UpstreamSummarizer(UpstreamOptions(f"{up.base_url}/chat/completions", **options), upstream, models.limits)


async def test_in_pieces_with_the_client_s_key(tmp_path: Path) -> None:
    upstream = Upstream(ClientOptions())
    with ScriptedUpstream(lambda request: replies.json_reply(replies.completion("part", prompt=500))) as up:
        draft = await summarizer(tmp_path, up, upstream).summarize(MATERIAL, CALLER)
        assert len(up.requests) == 3 and draft.text == "part\npart\npart"
        assert all(len(request.body) < 8_000 * 4 for request in up.requests)
        assert draft.usage is not None and draft.usage.input == 1_500 and draft.model == "big"
        assert draft.cost == pytest.approx((1_500 * 1.0 + 30 * 2.0) / 1e6)
        first = up.requests[0]
        assert first.header("authorization") == "Bearer sk-client"
        assert first.header("cookie") is None and first.header("x-session-id") is None
    await upstream.aclose()


async def test_a_configured_model_and_key(tmp_path: Path) -> None:
    upstream = Upstream(ClientOptions())
    with ScriptedUpstream(lambda request: replies.json_reply(replies.completion("said"))) as up:
        await summarizer(tmp_path, up, upstream, model="small", key="sk-own").summarize(MATERIAL, CALLER)
        assert up.requests[0].json()["model"] == "small"
        assert up.requests[0].header_list("authorization") == ["Bearer sk-own"]
    await upstream.aclose()


async def test_a_gap_in_one_piece_makes_the_draft_empty(tmp_path: Path) -> None:
    upstream = Upstream(ClientOptions())
    texts = iter(["one", "", "three"])
    with ScriptedUpstream(lambda request: replies.json_reply(replies.completion(next(texts)))) as up:
        assert (await summarizer(tmp_path, up, upstream).summarize(MATERIAL, CALLER)).text == ""
    await upstream.aclose()


async def test_failures_are_told_without_keys(tmp_path: Path) -> None:
    upstream = Upstream(ClientOptions())
    with ScriptedUpstream(
        lambda request: replies.error_reply(429, "sk-client is over its quota", headers=[("retry-after", "7")])
    ) as up:
        with pytest.raises(SummarizerError, match="429") as caught:
            await summarizer(tmp_path, up, upstream).summarize(MATERIAL, CALLER)
        assert caught.value.retry_after_s == 7 and "sk-client" not in str(caught.value)
    with (
        ScriptedUpstream(lambda request: replies.json_reply(["odd"])) as up,
        pytest.raises(SummarizerError, match="no chat completion"),
    ):
        await summarizer(tmp_path, up, upstream).summarize(MATERIAL, CALLER)
    with ScriptedUpstream(lambda request: replies.close_without_a_byte()) as up, pytest.raises(SummarizerError):
        await summarizer(tmp_path, up, upstream).summarize(MATERIAL, CALLER)
    await upstream.aclose()
