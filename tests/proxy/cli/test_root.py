"""The root of the command line."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from proxy.cli.root import application


def set_sail(knots: int = 4) -> None:
    """Leave the harbour."""
    print("under way at", knots)


def import_() -> None:
    """Take in."""


@pytest.mark.parametrize(("words", "said"), [(["set-sail", "--knots", "7"], "at 7"), (["--version"], "undercliff ")])
def test_commands_have_the_names_of_their_functions(words: list[str], said: str) -> None:
    done = CliRunner().invoke(application((set_sail, import_)), words)
    assert done.exit_code == 0 and said in done.stdout


def test_help_names_them() -> None:
    text = CliRunner().invoke(application((set_sail, import_)), ["--help"]).stdout
    assert "set-sail" in text and "import" in text and "Leave the harbour." in text
