from __future__ import annotations

import subprocess
import sys

import pytest

from proxy.cli.main import main

COMMANDS = ("serve", "demo", "conversations", "show", "window", "expand", "check-config", "version")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for command in COMMANDS:
        assert f"  {command} " in text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert f"Usage: undercliff {command}" in capsys.readouterr().out


def test_a_wrong_word_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["srve"])
    assert caught.value.code == 2
    assert "serve" in capsys.readouterr().err


def test_start_up_stays_light() -> None:
    code = "import sys, proxy.cli.main; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"starlette", "uvicorn", "aiohttp", "httpx", "tiktoken", "genai_prices", "openai", "proxy.app"}
    assert heavy.isdisjoint(loaded)


def test_a_server_loads_no_other_command() -> None:
    code = (
        "import sys, proxy.cli.main; sys.argv[1:] = ['serve', '--help']\n"
        "try: proxy.cli.main.main()\nexcept SystemExit: print('LOADED', *sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = set(out.partition("LOADED")[2].split())
    others = {"commands", "auditing", "exporting", "getting", "moving", "teams", "viewing"}
    assert "proxy.cli.running" in loaded and loaded.isdisjoint(f"proxy.cli.{name}" for name in others)
    assert loaded.isdisjoint({"pyarrow", "psycopg", "proxy.audit.checking", "proxy.audit.verify"})


def test_module_runs_without_a_traceback() -> None:
    run = [sys.executable, "-m", "proxy", "serve", "--host", "0.0.0.0"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 2
