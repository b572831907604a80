"""Which summarizer a configuration asks for, built with what it needs."""

from __future__ import annotations

from pathlib import Path

from proxy.config import Config
from proxy.models import ModelBook
from proxy.prices import PriceBook
from proxy.summaries.custom import CustomSummarizer
from proxy.summaries.registry import build
from proxy.summaries.upstream import UpstreamSummarizer
from proxy.upstream import Upstream, UpstreamOptions
from tests.support.serve import make_config


def made(tmp_path: Path, **settings: object) -> object:
    config: Config = make_config(
        "http://provider.test/v1", tmp_path / "x.db", {f"compaction.{k}": v for k, v in settings.items()}
    )
    models = ModelBook(config, PriceBook(config.upstream.url, config.model))
    return build(config, Upstream(UpstreamOptions()), models.limits)


def test_by_name(tmp_path: Path) -> None:
    assert made(tmp_path) is None
    same = made(tmp_path, summarizer="upstream")
    assert isinstance(same, UpstreamSummarizer) and same.name == "upstream"
    small = made(tmp_path, summarizer="upstream", model="small")
    assert isinstance(small, UpstreamSummarizer) and small.name == "upstream:small"
    assert isinstance(made(tmp_path, summarizer="tests.proxy.summaries.test_custom:plain"), CustomSummarizer)
