"""The models that a body names."""

from __future__ import annotations

import pytest

from proxy.wire.model_name import models_of


@pytest.mark.parametrize(
    ("body", "names"),
    [
        (b'{"model":"a"}', ["a"]),
        (b'\n{"model":"a","model":"b","messages":[{"model":"c"}]}', ["a", "b"]),
        (b'{"mod\\u0065l":"a\\u00e9"}', ["aé"]),
        (b"{}", []),
        (b'{"model":7}', None),
        (b'{"model":', None),
        (b"[]", None),
        (b"", None),
    ],
)
def test_models(body: bytes, names: list[str] | None) -> None:
    assert models_of(body) == names
