"""Can these summarizer settings work? Loads no client, so that the command line starts fast."""

from __future__ import annotations

from proxy.config import CompactionConfig
from proxy.core.urls import check_base
from proxy.errors import ConfigError
from proxy.summaries.custom import load


def check(section: CompactionConfig) -> None:
    """What `serve` and `check-config` refuse. Raises `ConfigError`."""
    if section.summarizer not in ("digest", "upstream", "provider"):
        load(section.summarizer)
    if section.summarizer != "upstream":
        for name in ("model", "url", "key_env"):
            if getattr(section, name):
                raise ConfigError(
                    f"compaction.{name} is set, but compaction.summarizer = {section.summarizer!r} does not use it",
                    hint='Write summarizer = "upstream", or take the setting out.',
                )
    if section.url:
        check_base(section.url)
        if not section.key_env:
            raise ConfigError(
                "compaction.url names another provider, which must not get the clients' own keys",
                hint="Name an environment variable with a key for it in compaction.key_env.",
            )
    if section.key_env and not section.key:
        raise ConfigError(
            f"compaction.key_env = {section.key_env!r}, but that environment variable is empty",
            hint="Put the key into it, or leave key_env empty to use the client's own key.",
        )
    if section.wait_s > section.deadline_s:
        raise ConfigError(
            f"compaction.wait_s = {section.wait_s:g} is longer than compaction.deadline_s = {section.deadline_s:g}",
            hint="A turn should wait for a moment only; one or two seconds are usual.",
        )
