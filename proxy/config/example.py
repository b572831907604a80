"""Writes config.example.toml and the settings table from the sections, so that neither can go stale."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proxy.config.sections import SECTIONS, Default, ModelConfig, TeamConfig, settings_of

_HEAD = """\
# undercliff: every setting, its default, and why you would change it.
# All of it is optional. Use it with: undercliff serve --config config.toml
# In any text, ${NAME} is read from the environment; keys belong there.
# The environment also sets UNDERCLIFF_CONFIG (this file) and UNDERCLIFF_DATA_DIR (where the store is by default).
"""
_OPTIONS = """\
# Options of the policy itself. Which there are depends on the policy; sticky has mask_at = 32000, keep = 1,
# economics = true (false: batches of masks alone) and more, each told in policies/sticky.py.
# [policy.options]
"""
_MODELS = """\
# What you know better about some models; the built-in data is used for the rest. Any number of patterns;
# * stands for anything, and the longer pattern wins.
# [models."gpt-5*"]
"""
_TEAMS = """\
# Teams, each with its own keys (undercliff keys create NAME), provider key, models and limits. Without any, whoever has
# a client key of [server] is one team. A team may also set what [upstream], [policy], [window], [expand], [responses],
# [compaction] and [models] have: [teams.NAME.window] and so on.
# [teams.harbour]
"""
_TEAM_SAMPLES: dict[str, Default] = {
    "pass_through": False,
    "allowed_models": ("gpt-5*",),
    "requests_per_day": 20_000,
    "tokens_per_day": 200_000_000,
    "dollars_per_day": 250.0,
    "client_keys": (),
}
_MODEL_SAMPLES = {
    "window": 400_000,
    "cliff": 272_000,
    "compact_at": 200_000,
    "input_price": 1.25,
    "cached_price": 0.125,
    "write_price": 1.25,
    "output_price": 10.0,
}


def example_toml() -> str:
    """The whole of config.example.toml."""
    return "\n".join([_HEAD, *(_section(name, kind) for name, kind in SECTIONS.items()), _models(), _teams()])


def settings_table() -> Iterator[tuple[str, str, str]]:
    """Every setting as (dotted name, default as TOML, help)."""
    for name, kind in SECTIONS.items():
        for key, entry in settings_of(kind).items():
            yield f"{name}.{key}", toml_value(entry.default), entry.metadata["help"]
    for key, entry in settings_of(ModelConfig).items():
        yield f'models."PATTERN".{key}', "unset", entry.metadata["help"]
    for key, entry in settings_of(TeamConfig).items():
        yield f"teams.NAME.{key}", toml_value(entry.default), entry.metadata["help"]


def toml_value(value: Default) -> str:
    """A default as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return "[" + ", ".join(toml_value(entry) for entry in value) + "]"
    return str(value)


def _section(name: str, kind: type) -> str:
    lines = ["", f"# {kind.__doc__}", f"[{name}]"] if kind.__doc__ else ["", f"[{name}]"]
    for key, entry in settings_of(kind).items():
        lines += [f"# {_why(entry)}", f"{key} = {toml_value(entry.default)}"]
    text = "\n".join(lines).lstrip("\n") + "\n"
    return f"{text}\n{_OPTIONS}" if name == "policy" else text


def _why(entry: Any) -> str:
    choices = entry.metadata["choices"]
    help = entry.metadata["help"]
    return f"{help} One of: {', '.join(choices)}." if len(choices) > 1 else help


def _teams() -> str:
    lines = ["", _TEAMS.rstrip("\n")]
    for key, entry in settings_of(TeamConfig).items():
        lines.append(f"# {key} = {toml_value(_TEAM_SAMPLES[key])}  # {entry.metadata['help']}")
    lines += ["# [teams.harbour.upstream]", '# key_env = "HARBOUR_OPENAI_KEY"']
    return "\n".join(lines) + "\n"


def _models() -> str:
    lines = [_MODELS.rstrip("\n")]
    for key, entry in settings_of(ModelConfig).items():
        lines.append(f"# {key} = {toml_value(_MODEL_SAMPLES[key])}  # {entry.metadata['help']}")
    return "\n".join(lines) + "\n"
