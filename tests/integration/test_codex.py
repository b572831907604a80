"""The Codex CLI through the product. Its binary comes with `npm install` in tests/clients, else this is skipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.codex import BINARY, SUMMARY, Codex, CodexModel, ran, said
from tests.support.records import Records
from tests.support.serve import served
from tests.support.session import EAGER
from tests.support.upstream import ScriptedUpstream

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(not BINARY.exists(), reason="npm install in tests/clients first"),
]
OMITTED = b"output omitted from history"


def verdicts(records: Records) -> list[str]:
    [conversation] = records.conversations()
    return [row.verdict for row, _ in records.exchanges(conversation)]


def test_a_session_and_its_resume_are_the_same_with_masked_results(tmp_path: Path) -> None:
    straight = CodexModel()
    with ScriptedUpstream(straight) as up:
        codex = Codex(tmp_path)
        expected = [*codex.run(up.base_url, "count"), *codex.run(up.base_url, "resume", "--last", "once more")]
    model, folder = CodexModel(), tmp_path / "through"
    folder.mkdir()
    with ScriptedUpstream(model) as up, served(up.base_url, policy__options=EAGER) as proxy:
        codex = Codex(folder)
        seen = [*codex.run(proxy.base_url, "count"), *codex.run(proxy.base_url, "resume", "--last", "once more")]
        assert verdicts(Records(proxy.db)) == ["new"] + ["continue"] * 7
        assert len(Records(proxy.db).branches(Records(proxy.db).conversations()[0])) == 1
    assert not model.refusals and not straight.refusals
    assert said(seen) == said(expected) and len(said(seen)) == 2
    assert ran(seen) == ran(expected) and len(ran(seen)) == 6
    assert OMITTED in model.taken[-1].body
    assert len(model.taken[-1].body) < len(straight.taken[-1].body) - 5000


def test_its_own_compaction_is_an_epoch(tmp_path: Path) -> None:
    model = CodexModel(steps=6)
    codex = Codex(tmp_path, settings="model_auto_compact_token_limit = 14000")
    with ScriptedUpstream(model) as up, served(up.base_url, policy__name="passthrough") as proxy:
        printed = codex.run(proxy.base_url, "count")
        records = Records(proxy.db)
        found = verdicts(records)
        assert found[0] == "new" and "side" in found and found[found.index("side") + 1] == "epoch"
        assert set(found) == {"new", "continue", "side", "epoch"}
        [conversation] = records.conversations()
        assert SUMMARY in records.texts(conversation)
        assert max(branch.epoch for branch in records.branches(conversation)) == found.count("epoch")
    assert said(printed)[-1].startswith("Report") and not model.refusals


def test_with_a_small_window_it_has_nothing_to_compact(tmp_path: Path) -> None:
    """The same limit, but the usage that it reads is that of the smaller list."""
    model = CodexModel(steps=6)
    codex = Codex(tmp_path, settings="model_auto_compact_token_limit = 14000")
    settings: dict[str, Any] = {"policy__options": EAGER, "window__mask_chars": 200}
    with ScriptedUpstream(model) as up, served(up.base_url, **settings) as proxy:
        printed = codex.run(proxy.base_url, "count")
        assert verdicts(Records(proxy.db)) == ["new"] + ["continue"] * 6
    assert len(ran(printed)) == 6 and not model.refusals


def test_a_sub_agent_is_a_branch_of_its_own(tmp_path: Path) -> None:
    model = CodexModel(delegates=True)
    with ScriptedUpstream(model) as up, served(up.base_url, policy__options=EAGER) as proxy:
        printed = Codex(tmp_path).run(proxy.base_url, "delegate this")
        records = Records(proxy.db)
        [conversation] = records.conversations()
        kinds = sorted(branch.kind for branch in records.branches(conversation))
        assert kinds == ["main", "subagent"]
        assert sorted(set(verdicts(records))) == ["continue", "new", "subagent"]
    assert any(request.header("x-openai-subagent") for request in model.taken)
    assert said(printed)[-1].startswith("Report") and not model.refusals


def test_its_web_socket_is_refused_and_it_falls_back(tmp_path: Path) -> None:
    model = CodexModel(steps=1)
    with ScriptedUpstream(model) as up, served(up.base_url) as proxy:
        printed = Codex(tmp_path, is_built_in=True).run(proxy.base_url, "count")
        assert verdicts(Records(proxy.db)) == ["new", "continue"]
    assert said(printed)[-1].startswith("Report") and model.upgrades == 0
