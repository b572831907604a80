"""The command line of a server has one command, with the help that it has among the others."""

from __future__ import annotations

from typer.testing import CliRunner

from proxy.cli import commands, serving


def test_serve_is_the_same_by_itself() -> None:
    alone, among = (CliRunner().invoke(app, ["serve", "--help"]).stdout for app in (serving.app, commands.app))
    assert alone == among and "--upstream" in alone
