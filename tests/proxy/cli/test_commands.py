"""Every command is there, and says what it does."""

from __future__ import annotations

from typer.testing import CliRunner

from proxy.cli.commands import app


def test_all_of_them() -> None:
    text = CliRunner().invoke(app, ["--help"]).stdout
    for name in ("serve", "demo", "show", "export", "verify", "migrate-store", "keys", "usage", "version"):
        assert f" {name} " in text
