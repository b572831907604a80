"""The audit commands on the command line: export, import, verify, forget, backup, and looking back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from proxy.cli.commands import app
from proxy.cli.exporting import export
from proxy.cli.render_past import compared, holders
from proxy.cli.stores import complete, filters_of
from proxy.errors import NotFoundError
from proxy.hindsight import WindowsCompared
from proxy.store.archive import Archive
from tests.support.audited import copy_store, fill, json_lines, writing


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    db = tmp_path_factory.mktemp("cli") / "ctx.db"
    fill(db)
    return db


@pytest.fixture
def db(filled: Path, tmp_path: Path) -> Path:
    return copy_store(filled, tmp_path / "copy")


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner(env={"COLUMNS": "80"}).invoke(app, [str(each) for each in arguments], prog_name="undercliff")
    assert result.exit_code == code, result.output + repr(result.exception)
    return result.output


def ids(db: Path) -> list[str]:
    return [one["id"] for one in json.loads(run("conversations", "--db", db, "--json"))]


def test_round_trip(db: Path, tmp_path: Path) -> None:
    out, new = tmp_path / "out.jsonl", tmp_path / "new.db"
    run("export", "--db", db, "-o", out)
    verdict = run("verify", db)
    assert verdict.startswith("ok: 3 chains")
    heads = verdict.split()[-1]
    key = db.with_suffix(".secret")
    assert run("verify", out, "--heads", heads, "--key", key).startswith("ok: 3 chains")
    assert "signatures were not checked" in run("verify", out)
    assert "rows in" in run("import", out, "--db", new, "--key", key)
    assert new.with_suffix(".secret").read_bytes() == key.read_bytes()
    assert run("verify", "--db", new, "--heads", heads).startswith("ok: 3 chains")
    window = json.loads(run("window", ids(db)[0], "--db", db, "--json"))["id"]
    assert run("window", window, "--db", db, "--render") == run("window", window, "--db", new, "--render")


def test_a_change_is_named_and_costs_the_exit_code(db: Path) -> None:
    with writing(db) as connection:
        connection.execute("UPDATE messages SET role = 'user' WHERE seq = 4")
    text = run("verify", db, code=1)
    assert "changed: conversation" in text and "messages row" in text and "NOT OK" in text
    assert "NOT OK" in run("verify", db, "--heads", "00", code=1)


def test_export_to_standard_output_and_by_prefix(db: Path, tmp_path: Path) -> None:
    first = ids(db)[0]
    lines = [json.loads(line) for line in run("export", first[:6], "--db", db).splitlines()]
    assert [line["id"] for line in lines if line["type"] == "chain"] == [first]
    assert run("export", "--db", db, "--format", "csv", "--rows", "forms").startswith("conversation,")
    run("export", "--db", db, "--format", "html", "-o", tmp_path / "t.html")
    assert "survey the harbour" in (tmp_path / "t.html").read_text()
    run("export", "--db", db, "-o", tmp_path / "one.jsonl", "--model", "other-2")
    assert len([x for x in json_lines(tmp_path / "one.jsonl") if x["type"] == "chain"]) == 1
    assert ids(db) != [one["id"] for one in json.loads(
        run("conversations", "--db", db, "--json", "--model", "other-2"))]  # fmt: skip


@pytest.mark.parametrize("options", [["--resume"], ["--format", "parquet"], ["--since", "noon"], ["--outcome", "fine"]])
def test_options_that_cannot_be(db: Path, options: list[str]) -> None:
    run("export", "--db", db, *options, code=2)


def test_forget_needs_the_id_once_more(db: Path) -> None:
    doomed = next(
        one for one in json.loads(run("conversations", "--db", db, "--json")) if "survey" in one["first_text"]
    )
    text = run("forget", doomed["id"][:5], "--db", db, code=2)
    assert f"--confirm {doomed['id']}" in text and doomed["id"] in ids(db)
    assert "erased 1 conversations" in run("forget", doomed["id"], "--confirm", doomed["id"], "--db", db)
    assert doomed["id"] not in ids(db)
    assert "1 tombstones" in run("verify", db)
    assert b"survey the harbour" not in db.read_bytes()
    run("forget", "--db", db, code=2)


def test_forget_a_whole_team(db: Path) -> None:
    team = json.loads(run("conversations", "--db", db, "--json", "--model", "other-2"))[0]["tenant"]
    run("forget", "--tenant", team, "--confirm", team, "--db", db)
    assert team not in run("conversations", "--db", db, "--json") and "1 tombstones" in run("verify", db)
    assert b"another team" not in db.read_bytes()


def test_backup_overwrites_nothing(db: Path, tmp_path: Path) -> None:
    run("backup", tmp_path / "b.db", "--db", db)
    assert run("verify", tmp_path / "b.db").startswith("ok")
    assert (tmp_path / "b.secret").read_bytes() == db.with_suffix(".secret").read_bytes()
    result = CliRunner().invoke(app, ["backup", str(tmp_path / "b.db"), "--db", str(db)])
    assert isinstance(result.exception, NotFoundError)


def test_looking_back(db: Path) -> None:
    id = next(one["id"] for one in json.loads(run("conversations", "--db", db, "--json")) if one["folds"])
    assert "now compact" not in run("show", id, "--at", "1", "--db", db)
    assert "stub" in run("show", id, "--at", "3", "--view", "model", "--db", db)
    first = json.loads(run("show", id, "--at", "1", "--view", "model", "--db", db, "--json"))["items"][0]["exchange"]
    text = run("window", first, "--diff", id, "--db", db)
    assert "removed" in text and "why:" in text
    assert "not there yet" in run("missing", first, "now compact 3", "--db", db)
    assert json.loads(run("missing", id, "row 0: gauge", "--db", db, "--json"))[0]["kind"]
    run("show", id, "--at", "1", "--branch", "x", "--db", db, code=2)


def test_what_is_not_found(db: Path) -> None:
    with Archive(db) as archive, pytest.raises(NotFoundError, match="no conversation starts"):
        complete(archive, filters_of(["nothing"], "", "", "", "", ""))
    with pytest.raises(typer.BadParameter):
        filters_of([], "", "", "noon", "", "")
    assert callable(export)


def test_nothing_to_tell(capsys: pytest.CaptureFixture[str]) -> None:
    compared(WindowsCompared("a", "b", "", 3, 0, ()))
    holders([])
    assert capsys.readouterr().out.startswith("no difference\n3 entries")


def test_files_that_cannot_be_are_named_in_one_line(db: Path, tmp_path: Path) -> None:
    gone = tmp_path / "none" / "x"
    for arguments in (
        ("import", gone, "--db", tmp_path / "new.db"), ("import", tmp_path, "--db", tmp_path / "new.db"),
        ("export", "--db", db, "-o", gone), ("export", "--db", db, "-o", tmp_path), ("verify", gone),
        ("export", "--db", db, "-o", tmp_path, "--format", "csv"), ("verify", tmp_path), ("backup", gone, "--db", db),
        ("verify", db, "--key", gone), ("verify", db, "--key", __file__ + "x"),
    ):  # fmt: skip
        result = CliRunner().invoke(app, [str(each) for each in arguments])
        assert isinstance(result.exception, NotFoundError), arguments
        assert "\n" not in str(result.exception) and result.exception.hint
    assert not list(tmp_path.glob("*.part")) and not list(tmp_path.glob("new*"))


def test_only_the_complete_format_goes_on(db: Path, tmp_path: Path) -> None:
    for format in ("chat", "csv", "html", "parquet"):
        text = run("export", "--db", db, "--resume", "-o", tmp_path / "x", "--format", format, code=2)
        assert "every other format starts anew" in " ".join(text.split())
