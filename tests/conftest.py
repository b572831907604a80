"""Fixtures for every test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import structlog

_LEAKY_PREFIXES = ("UNDERCLIFF_", "OPENAI_", "ANTHROPIC_", "AZURE_", "LITELLM_")
_LEAKY_NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test sees the developer's keys, proxies or conversations, or another test's log settings."""
    structlog.reset_defaults()
    for name in list(os.environ):
        if name.upper().startswith(_LEAKY_PREFIXES) or name.upper() in _LEAKY_NAMES:
            monkeypatch.delenv(name)
    monkeypatch.setenv("UNDERCLIFF_DATA_DIR", str(tmp_path / "data"))
