"""The conformance check finds policies that break a rule."""

from __future__ import annotations

from itertools import count

import pytest

from policies.contract import ContractError
from policies.model import Choice, Form, Selection, Situation
from policies.passthrough import Passthrough
from policies.testing import check_policy, make_session, make_situation, random_situation


class MasksAll:
    name = "masks_all"

    def select(self, situation: Situation) -> Selection:
        return Selection(tuple(Choice(candidate.id, Form.STUB, "") for candidate in situation.candidates))


class Wavers(Passthrough):
    name = "wavers"

    def __init__(self) -> None:
        super().__init__()
        self._turns = count()

    def select(self, situation: Situation) -> Selection:
        return Selection(super().select(situation).choices, reason=str(next(self._turns)))


def test_a_broken_policy_is_found() -> None:
    with pytest.raises(ContractError):
        check_policy(MasksAll())


def test_a_wavering_policy_is_found() -> None:
    with pytest.raises(AssertionError, match="two answers"):
        check_policy(Wavers())


def test_given_situations_are_used() -> None:
    assert check_policy(Passthrough(), [make_situation(make_session(3))]) == 1


def test_random_situations_are_well_formed_and_varied() -> None:
    situations = [random_situation(seed) for seed in range(200)]
    for situation in situations:
        assert [candidate.index for candidate in situation.candidates] == list(range(len(situation.candidates)))
        groups = [candidate.group for candidate in situation.candidates]
        assert groups == sorted(groups)
    assert any(situation.pressure for situation in situations)
    assert any(situation.held for situation in situations)
    assert any(c.excerpt == "delta" for situation in situations for c in situation.candidates)
    assert random_situation(7) == random_situation(7)
