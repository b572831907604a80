from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

from proxy.cli.commands import app
from proxy.cli.main import main
from proxy.config import Config


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """Stands in for the server; gets the configurations it would be run with."""
    configs: list[Config] = []
    fake: Any = ModuleType("proxy.app")

    def run(config: Config, *, on_ready: Any) -> None:
        configs.append(config)
        on_ready(5555)

    fake.run = run
    monkeypatch.setitem(sys.modules, "proxy.app", fake)
    return configs


def test_serve_needs_no_options(served: list[Config], tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["serve"])
    assert result.exit_code == 0
    (config,) = served
    assert (config.server.host, config.server.port) == ("127.0.0.1", 4272)
    assert config.store.url == str(tmp_path / "data" / "undercliff.db")
    assert "export OPENAI_BASE_URL=http://127.0.0.1:5555/v1" in result.stderr
    assert result.stdout == ""


def test_options_beat_the_file(served: list[Config], tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('[server]\nport = 1\n[policy]\nname = "last_n"\n[log]\nformat = "json"\n')
    options = "--upstream http://h:1/v1 --host ::1 --port 7 --db /x.db --policy passthrough --log-format console"
    main_options = ["serve", "--config", str(file), *options.split(), "--no-store"]
    assert CliRunner().invoke(app, main_options).exit_code == 0
    (config,) = served
    assert config.upstream.url == "http://h:1/v1"
    assert (config.server.host, config.server.port, config.store.url) == ("::1", 7, "/x.db")
    assert (config.policy.name, config.log.format, config.store.enabled) == ("passthrough", "console", False)


def test_the_file_counts_without_options(served: list[Config], tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("[server]\nport = 1\nallow_public = true\nhost = '0.0.0.0'\n[store]\nenabled = false\n")
    CliRunner().invoke(app, ["serve", "--config", str(file)])
    assert (served[0].server.port, served[0].server.allow_public, served[0].store.enabled) == (1, True, False)


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["serve", "--host", "0.0.0.0"], "no client keys are set", "--allow-public"),
        (["serve", "--policy", "stiky"], "Unknown policy 'stiky'", "sticky"),
        (["serve", "--upstream", "api.openai.com"], "names no scheme", "https://api.openai.com"),
        (["serve", "--port", "70000"], "server.port = 70000 is too large", "65535"),
        (["serve", "--log-format", "xml"], "log.format = 'xml' is not one of", "console"),
        (["serve", "--config", "/nowhere.toml"], "cannot read /nowhere.toml", "--config"),
        (["check-config", "--config", "/nowhere.toml"], "cannot read /nowhere.toml", "--config"),
    ],
)
def test_refusals_are_a_line_and_a_hint(
    served: list[Config], arguments: list[str], message: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("undercliff: ") and message in first
    assert hint in second
    assert served == []


def test_allow_public_is_a_word(served: list[Config]) -> None:
    result = CliRunner().invoke(app, ["serve", "--host", "0.0.0.0", "--allow-public"])
    assert result.exit_code == 0
    assert "anyone who reaches this address can use it" in result.stderr


def test_check_config_shows_changes_and_no_keys(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(
        '[server]\nclient_keys = ["s3cret"]\n[store]\nurl = "postgresql://u:s3cret@h/d"\n[window]\nmask_chars = 9\n'
        '[policy]\nname = "last_n"\n[models."m*"]\ncliff = 5\n'
    )
    result = CliRunner().invoke(app, ["check-config", "--config", str(file)])
    assert result.exit_code == 0
    assert "s3cret" not in result.output
    for line in (
        "server.client_keys = (1 not shown)",
        "window.mask_chars = 9",
        'policy.name = "last_n"',
        'models."m*".cliff = 5',
    ):
        assert line in result.stdout
    assert result.stdout.endswith("ok\n")
    assert "warning: " in result.stderr


def test_check_config_checks_policy_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c.toml"
    file.write_text("[policy.options]\nno_such_option = 1\n")
    with pytest.raises(SystemExit):
        main(["check-config", "--config", str(file)])
    assert "no_such_option" in capsys.readouterr().err


@pytest.mark.parametrize("code", [0, 1])
def test_demo_runs_the_demo(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[bool, int]] = []
    fake: Any = ModuleType("proxy.demo.run")

    def run(*, as_json: bool, seed: int) -> int:
        calls.append((as_json, seed))
        return code

    fake.run = run
    monkeypatch.setitem(sys.modules, "proxy.demo.run", fake)
    assert CliRunner().invoke(app, ["demo", "--json"]).exit_code == code
    assert calls == [(True, 7)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ('[models."gpt-5.4*"]\ncompact_at = 300000', "price cliff at 272,000"),
        ('[models."mine"]\nwindow = 8000\ncompact_at = 7900', "window of 8,000"),
        (
            "[window]\ncompact_at = 300000",
            "window.compact_at for gpt-5.4: compact_at = 300,000 lies above the price cliff",
        ),
        ('[window]\ncompact_at = 60000\n[models."mine*"]\nwindow = 64000', 'window.compact_at for models."mine*"'),
        ("[overflow]\npatterns = ['x*']", "'x*' matches every text"),
    ],
)
def test_check_config_refuses_what_could_never_act(
    settings: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(settings)
    with pytest.raises(SystemExit):
        main(["check-config", "--config", str(path)])
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "settings",
    [
        '[models."gpt-5.4*"]\ncompact_at = 200000',
        "[window]\ncompact_at = 200000",
        '[window]\ncompact_at = 300000\n[models."gpt-5.4*"]\ncompact_at = 200000\n[models."gpt-6*"]\ncliff = 0',
        '[window]\ncompact_at = 300000\nguard_window_share = 0.9\n[upstream]\nurl = "http://models.test/v1"',
    ],
)
def test_check_config_takes_a_threshold_that_can_act(settings: str, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(settings)
    assert CliRunner().invoke(app, ["check-config", "--config", str(path)]).exit_code == 0


def test_version() -> None:
    assert "undercliff " in CliRunner().invoke(app, ["version"]).stdout
    assert CliRunner().invoke(app, ["--version"]).stdout.startswith("undercliff ")
