from __future__ import annotations

import pytest

from proxy.core.overflow_figures import Figures, clean, read


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("128,000 tokens", "128000 tokens"),
        ("1 048 576 tokens", "1048576 tokens"),
        ("1\u202f048\u202f576", "1048576"),
        ("200_000", "200000"),
        ("1.048.576 tokens", "1048576 tokens"),
        ("32.768 tokens", "32768 tokens"),
        ("a 128k window", "a 128000 window"),
        ("1.5M tokens", "1500000 tokens"),
        ("20万 token", "200000 token"),
        ("`inputs`  tokens\n+ x", "inputs tokens + x"),
        ("model foo-32k and gpt-4.1", "model foo-32k and gpt-4.1"),
        ("10 KB", "10 KB"),
        ("[1, 983616]", "[1, 983616]"),
        ("try in 11.054s", "try in 11.054s"),
    ],
)
def test_clean(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        ("nothing here", Figures()),
        ("context length is 8192", Figures(8192)),
        ("the context is 9000 characters (more than 8000 characters allowed for 4096 tokens)", Figures(4096)),
        ("8192 is the maximum, the prompt is 9000", Figures(8192, 9000, 9000)),
        ("limit 8192, request id: 991234", Figures(8192)),
    ],
)
def test_read(text: str, figures: Figures) -> None:
    assert read(text) == figures


def test_is_excessive() -> None:
    assert Figures(8192, 9000).is_excessive
    assert Figures(8192, None, 8000, 500).is_excessive
    assert not Figures(8192, 8192).is_excessive
    assert not Figures(None, 9000).is_excessive
    assert not Figures(8192, None, None, 9000).is_excessive
