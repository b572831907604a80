"""Values have the shape that they are looked for by; output is seeded and holds what is planted."""

from __future__ import annotations

import re
from random import Random

import pytest

from proxy.evaluation.scripted import material


@pytest.mark.parametrize("kind", material.KINDS)
def test_values_have_their_shape(kind: str) -> None:
    made = [material.make(kind, Random(seed)) for seed in range(200)]
    assert all(re.fullmatch(material.shape(kind), value) for value in made)
    assert len(set(made)) > 90


@pytest.mark.parametrize("kind", ["log", "table", "code", "records", "page"])
def test_output_holds_what_is_planted(kind: str) -> None:
    text = material.output(kind, 50, Random(3), ["the needle is 7"])
    assert material.is_output(kind) and text == material.output(kind, 50, Random(3), ["the needle is 7"])
    place = text.splitlines().index("the needle is 7")
    assert 5 < place < 60 and text != material.output(kind, 50, Random(4), ["the needle is 7"])
    assert not material.is_output("poem")
