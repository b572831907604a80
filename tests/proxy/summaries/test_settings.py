"""Summarizer settings that cannot work are refused before anything starts."""

from __future__ import annotations

import pytest

from proxy.config import CompactionConfig
from proxy.errors import ConfigError
from proxy.summaries.settings import check


@pytest.mark.parametrize(
    ("section", "said"),
    [
        (CompactionConfig(summarizer="magic"), "neither digest, upstream, provider nor"),
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
