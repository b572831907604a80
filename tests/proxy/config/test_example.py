from __future__ import annotations

import re
import tomllib
from pathlib import Path

from proxy.config import example_toml, load_config, settings_table
from proxy.config.example import toml_value


def test_the_example_is_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(example_toml(), encoding="utf-8")
    assert load_config(path, environ={}) == load_config(environ={})


def test_the_example_works_with_everything_switched_on(tmp_path: Path) -> None:
    text = re.sub(
        r"^# (\[models|window|cliff|compact_at|\w+_price|\[policy\.options)", r"\1", example_toml(), flags=re.M
    )
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    assert load_config(path, environ={}).model("gpt-5").window == 400_000


def test_every_setting_is_in_the_example_and_the_table() -> None:
    loaded = tomllib.loads(example_toml())
    rows = {name: default for name, default, _ in settings_table()}
    for section, table in loaded.items():
        for key, value in table.items():
            assert tomllib.loads(f"x = {rows[f'{section}.{key}']}")["x"] == value
    assert 'models."PATTERN".cliff' in rows


def test_values_are_written_as_toml() -> None:
    assert toml_value(True) == "true"
    assert toml_value(("a", "b")) == '["a", "b"]'
    assert toml_value(1.0) == "1.0"
