"""Which summarizer a configuration asks for, and what is refused beforehand."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.config import CompactionConfig, Config
from proxy.errors import ConfigError
from proxy.models import ModelBook
from proxy.prices import PriceBook
from proxy.summaries.custom import CustomSummarizer
from proxy.summaries.registry import build, check
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


@pytest.mark.parametrize(
    ("section", "said"),
    [
        (CompactionConfig(summarizer="magic"), "neither digest, upstream nor"),
        (CompactionConfig(model="small"), "does not use it"),
        (CompactionConfig(summarizer="upstream", url="https://other.test/v1"), "must not get the clients' own keys"),
        (CompactionConfig(summarizer="upstream", key_env="NAME"), "is empty"),
        (CompactionConfig(wait_s=90.0), "longer than"),
    ],
)
def test_what_cannot_work_is_refused(section: CompactionConfig, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        check(section)
    assert caught.value.hint


def test_the_defaults_are_fine() -> None:
    check(CompactionConfig())
    check(CompactionConfig(summarizer="upstream", url="https://other.test/v1", key_env="NAME", key="k"))
