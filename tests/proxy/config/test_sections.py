from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from proxy.config.sections import SECTIONS, Config, ModelConfig, settings_of


@pytest.mark.parametrize("kind", [*SECTIONS.values(), ModelConfig])
def test_every_setting_says_why(kind: type) -> None:
    assert kind.__doc__
    for key, entry in settings_of(kind).items():
        assert entry.metadata["help"].endswith("."), key
        assert len(entry.metadata["help"]) <= 118, key


def test_sections_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Config().server.port = 1  # type: ignore[misc]


def test_defaults_keep_their_own_rules() -> None:
    for kind in SECTIONS.values():
        for key, entry in settings_of(kind).items():
            rules = entry.metadata
            assert not rules["choices"] or entry.default in rules["choices"], key
            assert rules["low"] is None or entry.default >= rules["low"], key
            assert rules["high"] is None or entry.default <= rules["high"], key


def test_what_the_loader_fills_in_is_no_setting() -> None:
    assert "key" not in settings_of(SECTIONS["upstream"])
