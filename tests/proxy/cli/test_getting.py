"""`undercliff get`: the block for people, the same as JSON, and what a wrong ask is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from proxy import open_store
from proxy.cli.commands import app
from proxy.cli.getting import SHOWN
from proxy.cli.main import main


@pytest.fixture
def db(tmp_path: Path) -> str:
    with open_store(tmp_path / "x.db") as store:
        store.add("user", "Move the harbour. Never touch db/migrations.")
        for step in range(60):
            text = "\n".join(f"berth {step}.{n} of quay_{(step * n) % 71} \x1b[31m" for n in range(40))
            store.add("tool_result", text, source=f"look at berth {step}", tool="bash")
    return str(tmp_path / "x.db")


PARTS = (
    "budget        6,000 tokens: ",
    " used (",
    "pinned: whole, in every window (1 item, ",
    "recent: whole",
    "relevant: in part",
    "summaries",
    "stubs: one line",
    "more: --explain lists them all",
    "Move the harbour.",
    "chosen by greedy",
)


def run(*arguments: str) -> str:
    result = CliRunner(env={"COLUMNS": "80"}).invoke(app, ["get", *arguments], prog_name="undercliff")
    assert result.exception is None, result.exception
    return result.stdout


def test_the_block_has_every_part(db: str) -> None:
    text = run("--budget", "6000", "--db", db)
    for words in PARTS:
        assert words in text, words
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "\x1b" not in text
    assert text == run("--budget", "6000", "--db", db)


def test_explain_lists_every_item_with_its_reason(db: str) -> None:
    text = run("--budget", "6000", "--db", db, "--explain", "--query", "quay_13")
    assert "query         quay_13" in text and "more: --explain" not in text
    window = json.loads(run("--budget", "6000", "--db", db, "--json", "--query", "quay_13"))
    assert window["manifest"]["used"] <= 6_000
    assert all(entry["id"] in text and entry["reason"] for entry in window["manifest"]["entries"] if entry["id"])
    assert len(window["manifest"]["entries"]) > 120 > SHOWN
    assert window["items"][0]["content"].endswith("Never touch db/migrations.")


def test_a_wrong_ask_says_what_to_do(
    db: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments, words in (
        (["--budget", "30", "--db", db], "the budget is 30"),
        (["--budget", "9000", "--db", db, "--conversation", "nope"], "no conversation 'nope'"),
        (["--budget", "9000", "--db", db, "--policy", "gredy"], "Did you mean 'greedy'?"),
        (["--budget", "9000", "--db", str(tmp_path / "none.db")], "there is no store at"),
    ):
        with pytest.raises(SystemExit) as stopped:
            main(["get", *arguments])
        assert stopped.value.code == 2
        assert words in capsys.readouterr().err
