"""The bypass: a policy that fails or breaks its contract, and a store that refuses, are never the agent's trouble."""

from __future__ import annotations

from pathlib import Path

import pytest

from policies.model import Choice, Form, Selection, Situation
from proxy.answer import TOO_LARGE
from tests.support import builders
from tests.support.flaky_store import FlakyStores
from tests.support.records import Records
from tests.support.serve import served
from tests.support.session import ok, sent, strict
from tests.support.upstream import ScriptedUpstream

MESSAGES = [builders.system(), builders.user("read"), *builders.steps(3, 3000)]


class Raises:
    name = "raises"

    def select(self, situation: Situation) -> Selection:
        raise ZeroDivisionError("my mistake")


class MasksEverything:
    name = "masks"

    def select(self, situation: Situation) -> Selection:
        return Selection(tuple(Choice(candidate.id, Form.STUB, "") for candidate in situation.candidates))


class AnswersNothing:
    name = "nothing"

    def select(self, situation: Situation) -> Selection:
        return Selection(())


@pytest.mark.parametrize(
    ("policy", "note"), [(Raises, "my mistake"), (MasksEverything, "pinned"), (AnswersNothing, "0 choices")]
)
def test_a_broken_policy_is_a_bypass(policy: type, note: str) -> None:
    name = f"{__name__}:{policy.__name__}"
    with ScriptedUpstream(strict) as up, served(up.base_url, policy__name=name) as proxy:
        for stream in (False, True):
            reply = ok(proxy, MESSAGES, stream=stream)
            assert sent(up) == MESSAGES and "x-undercliff-window" not in reply.headers
        rows = Records(proxy.db).exchanges("")
        assert [row.verdict for row, _ in rows] == ["bypass"] * 2 and all(note in row.note for row, _ in rows)
        assert [outcome.outcome for _, outcome in rows if outcome] == ["ok", "ok"]


@pytest.mark.parametrize("raises", [True, False])
def test_a_store_that_takes_nothing_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raises: bool
) -> None:
    stores = FlakyStores()
    monkeypatch.setattr("proxy.building.open_store", stores)
    with ScriptedUpstream(strict) as up, served(up.base_url, tmp_path / "x.db") as proxy:
        stores.last.raises = raises
        stores.last.loses = lambda batch: True
        ok(proxy, MESSAGES)
        later = [*MESSAGES, builders.assistant("noted"), builders.user("so?")]
        ok(proxy, later)
        assert sent(up) == later and len(up.requests) == 2 and stores.last.lost


def test_the_words_of_the_second_overflow_say_what_to_do() -> None:
    assert "grew too large" in TOO_LARGE and "again" in TOO_LARGE
