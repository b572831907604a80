"""What an application says of an agent's items through the library holds in the running proxy's windows too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from proxy import marks, open_store
from tests.support import builders
from tests.support.serve import Served, served
from tests.support.session import EAGER, FOLDED, OMITTED, conversation, ok, sent, strict
from tests.support.upstream import ScriptedUpstream

Messages = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "FRESH_S", 0.0)


def text(number: int, words: int = 400) -> str:
    return "\n".join(f"gauge {number} at {n}: {n * number % 97} cm, quay_{number}_{n}" for n in range(words))


def talk(proxy: Served, steps: int, words: int = 400) -> tuple[Messages, str]:
    messages: Messages = [builders.system(), builders.user("Watch the gauges.")]
    for number in range(steps):
        messages += builders.step(number, text(number, words))
        name = conversation(ok(proxy, messages))
    return messages, name


def item_with(db: Path, name: str, text: str) -> str:
    with open_store(db) as store:
        entries = store.context_get(500_000, model="scripted-1", conversation=name, remember=False).manifest.entries
        return next(entry.id for entry in entries if entry.id and store.expand(entry.id) == text)


def test_a_pin_brings_a_masked_result_back_whole_and_unpin_lets_it_go(tmp_path: Path) -> None:
    db = tmp_path / "x.db"
    with ScriptedUpstream(strict) as up, served(up.base_url, db=db, policy__options=EAGER) as proxy:
        messages, name = talk(proxy, 4)
        assert OMITTED in up.requests[-1].body
        assert text(1) not in [message.get("content") for message in sent(up)]
        wanted = item_with(db, name, text(1))
        with open_store(db) as store:
            store.pin(wanted)
        messages += builders.step(10, text(10))
        ok(proxy, messages)
        assert text(1) in [message.get("content") for message in sent(up)]
        assert text(0) not in [message.get("content") for message in sent(up)]
        with open_store(db) as store:
            store.unpin(wanted)
        messages += builders.step(11, text(11))
        ok(proxy, messages)
        assert text(1) not in [message.get("content") for message in sent(up)]


# Short results have no stub: the default policy can only fold them.
@pytest.mark.parametrize(
    ("policy", "steps", "words", "window"),
    [("sticky", 50, 8, 5_000), ("selector", 12, 400, 24_000), ("greedy", 12, 400, 24_000)],
)
def test_a_pin_brings_a_folded_result_back_with_its_call(
    tmp_path: Path, policy: str, steps: int, words: int, window: int
) -> None:
    db = tmp_path / "x.db"
    models = {"*": {"window": window}}
    with ScriptedUpstream(strict) as up, served(up.base_url, db=db, models=models, policy__name=policy) as proxy:
        messages, name = talk(proxy, steps, words)
        assert FOLDED in up.requests[-1].body
        wanted = text(1, words)
        assert wanted not in [message.get("content") for message in sent(up)]
        with open_store(db) as store:
            store.pin(item_with(db, name, wanted))
        for number in range(steps, steps + 3):
            messages += builders.step(number, text(number, words))
            ok(proxy, messages)
            assert wanted in [message.get("content") for message in sent(up)]
            assert len(str(sent(up))) < len(str(messages)) * 0.7
        assert FOLDED in up.requests[-1].body


def test_importance_decides_which_lines_stay(tmp_path: Path) -> None:
    """The selector's lines go to what the application calls important; the same talk without the word keeps others."""
    kept: list[int] = []
    for is_said in (False, True):
        folder = tmp_path / str(is_said)
        folder.mkdir()
        models = {"*": {"window": 24_000}}
        with (
            ScriptedUpstream(strict) as up,
            served(up.base_url, db=folder / "x.db", models=models, policy__name="greedy") as proxy,
        ):
            messages, name = talk(proxy, 11)
            if is_said:
                with open_store(folder / "x.db") as store:
                    store.importance(item_with(folder / "x.db", name, text(2)), 5.0)
            messages += builders.step(12, text(12))
            ok(proxy, messages)
            kept.append(sum(line in str(sent(up)) for line in text(2).split("\n")))
    assert kept[1] > kept[0] + 20


def test_marks_hold_after_a_restart(tmp_path: Path) -> None:
    db = tmp_path / "x.db"
    with ScriptedUpstream(strict) as up:
        with served(up.base_url, db=db, policy__options=EAGER) as proxy:
            messages, name = talk(proxy, 4)
            with open_store(db) as store:
                store.pin(item_with(db, name, text(1)))
        with served(up.base_url, db=db, policy__options=EAGER) as proxy:
            messages += builders.step(10, text(10))
            ok(proxy, messages)
            assert text(1) in [message.get("content") for message in sent(up)]
