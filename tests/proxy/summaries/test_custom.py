"""Callables as summarizers."""

from __future__ import annotations

import pytest

from proxy.core.digest import DigestItem
from proxy.errors import ConfigError
from proxy.summaries.base import Caller, Material, SummarizerError
from proxy.summaries.custom import CustomSummarizer, load

MATERIAL = Material((DigestItem("u1", "user", "user", "berth 4711"),))
HERE = "tests.proxy.summaries.test_custom"


def plain(record: str) -> str:
    return record.upper()


async def waiting(record: str) -> str:
    return record.lower()


def failing(record: str) -> str:
    raise ValueError("no ink")


def nothing(record: str) -> None:
    return None


@pytest.mark.parametrize(("name", "text"), [("plain", "[U1] USER:\nBERTH 4711"), ("waiting", "[u1] user:\nberth 4711")])
async def test_plain_and_async_functions(name: str, text: str) -> None:
    summarizer = CustomSummarizer(f"{HERE}:{name}")
    assert (await summarizer.summarize(MATERIAL, Caller("m"))).text == text
    assert summarizer.version == "1" and summarizer.name.endswith(name)


async def test_what_fails_is_no_draft_and_what_is_no_text_is_empty() -> None:
    with pytest.raises(SummarizerError, match="no ink"):
        await CustomSummarizer(f"{HERE}:failing").summarize(MATERIAL, Caller("m"))
    assert (await CustomSummarizer(f"{HERE}:nothing").summarize(MATERIAL, Caller("m"))).text == ""


@pytest.mark.parametrize("target", ["magic", "no.such.module:f", f"{HERE}:absent", f"{HERE}:HERE"])
def test_what_cannot_be_loaded_is_refused(target: str) -> None:
    with pytest.raises(ConfigError, match=r"compaction\.summarizer"):
        load(target)
