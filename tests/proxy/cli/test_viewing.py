from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from proxy.cli.commands import app
from proxy.cli.main import main
from proxy.cli.viewing import parse_lines
from tests.support import sample_store as sample


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(sample.sample_store(tmp_path))


def run(*arguments: str) -> str:
    result = CliRunner(env={"COLUMNS": "80"}).invoke(app, list(arguments), prog_name="undercliff")
    assert result.exception is None, result.exception
    assert result.exit_code == 0
    return result.stdout


def fits(text: str) -> bool:
    return all(len(line) <= 80 for line in text.splitlines())


def test_conversations(db: str) -> None:
    text = run("conversations", "--db", db)
    assert sample.CONVERSATION in text
    assert "2026-01-31 14:05" in text
    assert fits(text)
    (one,) = json.loads(run("conversations", "--db", db, "--json"))
    assert (one["id"], one["input"]) == (sample.CONVERSATION, 1234)


def test_show(db: str) -> None:
    text = run("show", "k3x9", "--db", db)
    assert "You are terse." in text
    assert "row 1: ok" in text and "row 39: ok" not in text
    assert "... 32 lines more: undercliff expand i3result" in text
    assert "\x1b" not in text and "␛[31mbroken" in text
    assert fits(text)
    assert "row 39: ok" in run("show", "k3x9", "--full", "--db", db)
    shown = json.loads(run("show", "k3x9", "--view", "model", "--db", db, "--json"))
    assert [item["origin"] for item in shown["items"]] == ["i0system", "i1user", "i4answer"]
    assert "archived" in run("show", "k3x9", "--view", "archive", "--db", db)


def test_window(db: str) -> None:
    text = run("window", "w5", "--db", db)
    assert "240 from the client, 40 sent, 200 saved" in text
    assert "1,234 input (1,000 cached)" in text
    assert "3 full, 1 stub" in text
    assert "600 characters" not in text
    assert fits(text)
    explained = run("window", "w5", "--explain", "--db", db)
    assert "old output, 600 characters" in explained and "0.25" in explained
    assert fits(explained)
    assert json.loads(run("window", "w5", "--db", db, "--json"))["entries"][3]["form"] == "stub"


def test_window_renders_exact_bytes(db: str) -> None:
    result = CliRunner().invoke(app, ["window", sample.CONVERSATION, "--render", "--db", db])
    assert result.stdout_bytes == sample.SENT


def test_expand(db: str) -> None:
    assert run("expand", "i3result", "--db", db) == sample.OUTPUT_TEXT
    assert run("expand", "i3result", "--lines", "2-3", "--db", db) == "row 2: ok\nrow 3: ok\n"
    found = run("expand", "i3result", "--query", "error", "--context", "1", "--db", db)
    assert found == "    19  row 19: ok\n    20  row 20: ERROR boom\n    21  row 21: ok\n"
    shown = json.loads(run("expand", "i3result", "--lines", "40-", "--db", db, "--json"))
    assert shown["slice"]["spans"] == [{"first": 40, "lines": ["row 40: ok"]}]
    assert CliRunner().invoke(app, ["expand", "i3result", "--raw", "--db", db]).stdout_bytes == sample.RAW["i3result"]


def test_expand_says_what_it_left_out(db: str) -> None:
    result = CliRunner().invoke(app, ["expand", "i3result", "--query", "row 1: ok", "--db", db])
    assert "1 line matching; lines 1-3 of 40 shown, 37 lines left out" in result.stderr


@pytest.mark.parametrize(("text", "span"), [("10-40", (10, 40)), ("7", (7, 7)), ("-3", (1, 3)), (" 5-5 ", (5, 5))])
def test_line_ranges(text: str, span: tuple[int, int]) -> None:
    assert parse_lines(text) == span


@pytest.mark.parametrize("text", ["a-b", "-", "9-3", "0-4", "1-2-3", "1,2"])
def test_bad_line_ranges(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_lines(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "zzz"], "there is no conversation 'zzz'"),
        (["window", "zzz"], "there is no window 'zzz'"),
        (["expand", "zzz"], "there is no item 'zzz'"),
    ],
)
def test_what_is_not_there_takes_one_line(
    db: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*arguments, "--db", db])
    assert caught.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"undercliff: {message}"
    assert len(lines) == 2


def test_a_missing_store_is_not_created(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["conversations", "--db", str(tmp_path / "none.db")])
    assert caught.value.code == 2
    assert "there is no store at" in capsys.readouterr().err
    assert not (tmp_path / "none.db").exists()


def test_the_servers_own_store_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, db: str) -> None:
    monkeypatch.setenv("UNDERCLIFF_DATA_DIR", str(tmp_path))
    (tmp_path / "sample.db").rename(tmp_path / "undercliff.db")
    assert sample.CONVERSATION in run("conversations")
