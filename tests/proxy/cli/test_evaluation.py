"""`undercliff eval`: runs, goes on, writes its files, and says what is wrong with what it was given."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from proxy.cli import main
from proxy.cli.commands import app
from proxy.config import LogConfig
from proxy.demo.provider import Provider
from proxy.demo.serving import serving
from proxy.evaluation import matrix, sources
from proxy.evaluation.task import Task
from proxy.logs import configure_logging
from tests.proxy.evaluation.fakes import FakeTask
from tests.proxy.evaluation.live.models import Model, story


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Small tasks instead of those that ship. The file that every run of one is noted in."""
    path = tmp_path / "noted"

    def scripted(seed: int = 1) -> list[Task]:
        return [FakeTask(number, "code", "scripted", str(path)) for number in range(3)]

    monkeypatch.setattr(sources, "scripted", scripted)
    return path


def test_the_whole_way(noted: Path, tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("a.json", "a.html")]
    words = ["eval", "--policies", "sticky, last_n", "--budgets", "half,quarter", "--jobs", "1", "--out", str(tmp_path)]
    first = CliRunner().invoke(app, [*words, "--json", files[0], "--html", files[1]])
    assert first.exit_code == 0, first.output
    assert "scripted · 3 tasks · budget half" in first.stdout and "12 of 12 runs" in first.stderr
    assert len(noted.read_text().splitlines()) == 12
    again = CliRunner().invoke(app, [*words, "--json", str(tmp_path / "b.json")])
    assert again.stdout == first.stdout
    assert len(noted.read_text().splitlines()) == 12
    assert (tmp_path / "b.json").read_bytes() == Path(files[0]).read_bytes()
    assert len(orjson.loads(Path(files[0]).read_bytes())["results"]) == 12
    assert "Does it help?" in Path(files[1]).read_text()


def test_the_table_of_a_document(noted: Path, tmp_path: Path) -> None:
    document = tmp_path / "README.md"
    document.write_text("<!-- eval: begin -->\n<!-- eval: end -->\n")
    words = ["eval", "--policies", "last_n", "--budgets", "half", "--jobs", "1", "--readme", str(document)]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert "| 3 scripted | half | `last_n` |" in document.read_text()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--policies", "stikky"], "There are"),
        (["--budgets", "third"], "half"),
        (["--tasks", "sailing"], "scripted"),
        (["--out", "{file}"], "--out"),
        (["--json", "{folder}/none/a.json"], "in a folder that is there"),
        (["--readme", "{file}"], "<!-- eval: begin -->"),
        (["--readme", "{folder}/none.md"], "cannot read"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_run(
    noted: Path, tmp_path: Path, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    given = [word.format(file=tmp_path / "file", folder=tmp_path) for word in words]
    with pytest.raises(SystemExit) as caught:
        main.main(["eval", *given])
    assert caught.value.code == 2
    assert told in capsys.readouterr().err
    assert not noted.exists()


def test_no_policy_at_all() -> None:
    assert CliRunner().invoke(app, ["eval", "--policies", " , "]).exit_code == 2


def test_an_interrupt_says_how_to_go_on(noted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(matrix, "run", interrupted)
    stopped = CliRunner().invoke(app, ["eval", "--out", str(tmp_path / "out")])
    assert stopped.exit_code == 130 and f"goes on from {tmp_path / 'out'}" in stopped.stderr
    assert "--out FOLDER" in CliRunner().invoke(app, ["eval"]).stderr


def test_live_with_a_limit(tmp_path: Path) -> None:
    told = story()
    words = ["eval", "--tasks", told.name, "--policies", "passthrough", "--budgets", "full", "--model", "small"]
    with serving(Provider(Model(told))) as url:
        live = [*words, "--live", f"{url}/v1", "--out", str(tmp_path), "--prices", "1,1,4"]
        whole = CliRunner().invoke(app, live)
        assert whole.exit_code == 0, whole.output
        assert "small, live" in whole.stdout and "Every task was passed." in whole.stdout and "100%" in whole.stdout
        spent = sum(float(line) for line in (tmp_path / "spent.txt").read_text().split())
        assert f"spent ${spent:.4f}" in whole.stderr
        stopped = CliRunner().invoke(app, [*live, "--repeats", "2", "--cost-limit", f"{spent + 0.001:.4f}"])
    assert stopped.exit_code == 3 and "1 of 2" in stopped.stderr and "could cost" in stopped.stderr
    assert "Every task was passed." in stopped.stdout  # what was done before counts
    again = CliRunner().invoke(app, [*words, "--live", f"{url}/v1", "--out", str(tmp_path), "--prices", "1,1,4"])
    assert again.exit_code == 0  # all of it is known; nobody is asked
    configure_logging(LogConfig())


def test_live_needs_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main.main(["eval", "--live", "http://127.0.0.1:9/v1"])
    assert "--model" in capsys.readouterr().err


def test_a_model_without_an_address() -> None:
    result = CliRunner().invoke(app, ["eval", "--model", "small"])
    assert result.exit_code == 2 and "--live" in result.stderr
