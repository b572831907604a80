"""The off switch sends everything in full, whatever is asked of it."""

from __future__ import annotations

from policies.model import Form
from policies.passthrough import Passthrough
from policies.testing import check_policy, random_situation


def test_everything_in_full_also_under_pressure() -> None:
    for seed in range(100):
        situation = random_situation(seed)
        assert all(choice.form is Form.FULL for choice in Passthrough().select(situation).choices)


def test_conforms() -> None:
    assert check_policy(Passthrough()) == 300
