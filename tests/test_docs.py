"""The documents say what the code does: settings, commands, options, policies, and the commands of the README."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest
import typer
from typer.main import get_command

from policies import registry
from proxy.cli.commands import app
from proxy.config import example_toml

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
DEPLOY = (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")
UNIT = (ROOT / "deploy" / "undercliff.service").read_text(encoding="utf-8")
COMMANDS = dict(get_command(app).commands)  # type: ignore[attr-defined]
USES = re.compile(r"(?:undercliff|ctx) +([a-z][a-z-]*)([^`\n|]*)")


def code(text: str) -> list[str]:
    """Every code span and every line of every code block."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, flags=re.M | re.S)
    without = re.sub(r"^```\w*\n.*?^```", "", text, flags=re.M | re.S)
    return [line for block in blocks for line in block.splitlines()] + re.findall(r"`([^`\n]+)`", without)


def test_example_configuration_is_up_to_date() -> None:
    written = (ROOT / "config.example.toml").read_text(encoding="utf-8")
    assert written == example_toml(), "write it again: python -m proxy.config > config.example.toml"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_documented(name: str) -> None:
    assert f"undercliff {name}" in README
    command = COMMANDS[name]
    assert command.help
    for parameter in command.params:
        assert getattr(parameter, "help", ""), f"{name}: {parameter.name} has no help"


@pytest.mark.parametrize("text", [README, DEPLOY, UNIT, (ROOT / "config.example.toml").read_text(encoding="utf-8")])
def test_every_command_in_the_documents_exists(text: str) -> None:
    lines = code(text) if text in (README, DEPLOY) else text.splitlines()
    uses = [use for line in lines for use in USES.findall(line)]
    assert uses
    for name, rest in uses:
        if name in ("an", "system"):  # prose in comments
            continue
        assert name in COMMANDS, f"undercliff {name}"
        known = {option for parameter in COMMANDS[name].params for option in parameter.opts} | {"--help"}
        used = set(re.findall(r"--[a-z-]+", rest))
        assert used <= known, f"undercliff {name}{rest}"


@pytest.mark.parametrize("name", registry.names())
def test_every_policy_is_documented(name: str) -> None:
    assert f"`{name}`" in README


def test_the_policy_of_the_readme_is_the_tested_one() -> None:
    example = (ROOT / "tests" / "policies" / "example.py").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", README, flags=re.M | re.S)
    assert any("class Forget" in block and block in example for block in blocks)


@pytest.mark.parametrize("target", re.findall(r"\]\((?!http)([^)#]+)\)", README))
def test_links_lead_somewhere(target: str) -> None:
    assert (ROOT / target).exists()


def test_the_two_commands_of_the_readme() -> None:
    first, second = (re.findall(r"^```sh\n(.*?)^```", README, flags=re.M | re.S)[i].strip() for i in (0, -1))
    assert first.endswith(".venv/bin/undercliff demo")
    assert second == "./tests/run"
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.search(rf"^    {re.escape(second)} && return$", ci, flags=re.M)


@pytest.mark.parametrize("script", [".ci/run", ".ci/machine", "tests/run"])
def test_scripts_can_be_run(script: str) -> None:
    path = ROOT / script
    assert os.access(path, os.X_OK)
    assert path.read_text(encoding="utf-8").startswith("#!/usr/bin/env bash\n")


def test_versions_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"## [{project['version']}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert project["scripts"]["undercliff"] == project["scripts"]["ctx"]
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").lstrip().startswith("Apache License")


def test_commands_are_typer_commands() -> None:
    assert isinstance(app, typer.Typer)
    assert len(COMMANDS) >= 8
