"""Reads TOML, overrides and the environment into a Config. Every refusal names the key, its value and what to do."""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from ipaddress import ip_address, ip_network
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args, get_type_hints

from platformdirs import user_data_path

from proxy.config.sections import (
    SECTIONS,
    TEAM_SECTIONS,
    Config,
    ModelConfig,
    ServerConfig,
    StoreConfig,
    TeamConfig,
    settings_of,
)
from proxy.core.urls import check_base
from proxy.errors import ConfigError

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_TEAM_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STORE_SCHEMES = ("sqlite", "postgres", "postgresql")
_SECRET_KEYS = frozenset({"client_keys", "admin_key", "key_env"})


def load_config(
    path: Path | None = None,
    overrides: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """Settings from `path` (else from $UNDERCLIFF_CONFIG, else the defaults) with `overrides` by dotted key on top.

    Raises `ConfigError`. `environ` stands in for the process environment in tests.
    """
    environ = os.environ if environ is None else environ
    if path is None and environ.get("UNDERCLIFF_CONFIG"):
        path = Path(environ["UNDERCLIFF_CONFIG"])
    tables = _expand(_read(path), environ, "") if path is not None else {}
    for dotted, value in (overrides or {}).items():
        section, _, key = dotted.partition(".")
        tables.setdefault(section, {})[key] = list(value) if isinstance(value, tuple) else value
    teams = tables.pop("teams", {})
    config = _whole(tables, environ)
    return dataclasses.replace(config, teams=_build_teams(teams, tables, config, environ)) if teams else config


def _whole(tables: Mapping[str, Any], environ: Mapping[str, str]) -> Config:
    config = _resolve(_build(tables), environ)
    _check(config)
    return config


def check_serving(server: ServerConfig, *, has_teams: bool = False) -> None:
    """Raise `ConfigError` if listening there would leave the proxy open to strangers."""
    if server.allow_public or server.client_keys or has_teams or is_loopback(server.host):
        return
    raise ConfigError(
        f"server.host = {server.host!r} can be reached by other machines, and no client keys are set",
        hint="Set server.client_keys, or listen on 127.0.0.1, or say --allow-public if anyone may use it.",
    )


def is_loopback(host: str) -> bool:
    """True if only this machine can reach `host`."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


# -- reading -----------------------------------------------------------------------------------


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", hint="Check the path given by --config.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text", hint="Save it as UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}", hint='Texts need quotes: key = "value".') from error


def _expand(value: Any, environ: Mapping[str, str], key: str) -> Any:
    """Replace ${NAME} in every text. A missing variable is refused: an empty key must not switch a check off."""
    if isinstance(value, dict):
        return {name: _expand(entry, environ, f"{key}.{name}".lstrip(".")) for name, entry in value.items()}
    if isinstance(value, list):
        return [_expand(entry, environ, key) for entry in value]
    if not isinstance(value, str):
        return value

    def look_up(match: re.Match[str]) -> str:
        found = environ.get(match[1], "")
        if not found:
            raise ConfigError(
                f"{key} needs the environment variable {match[1]}", hint=f"Set {match[1]}, or change {key}."
            )
        return found

    return _VARIABLE.sub(look_up, value)


# -- building ----------------------------------------------------------------------------------


def _build(tables: Mapping[str, Any]) -> Config:
    known = [*SECTIONS, "models", "teams"]
    parts: dict[str, Any] = {}
    for name, table in tables.items():
        if name not in known:
            raise _unknown_section(name, table, known)
        if not isinstance(table, dict):
            raise ConfigError(f"{name} = {table!r} stands where a section is expected", hint=f"Write [{name}].")
        parts[name] = _build_models(table) if name == "models" else _build_section(name, SECTIONS[name], table)
    return Config(**parts)


def _build_section(name: str, section: type, table: Mapping[str, Any]) -> Any:
    settings = settings_of(section)
    hints = get_type_hints(section)
    values: dict[str, Any] = {}
    for key, value in table.items():
        if name == "policy" and key == "options":
            values[key] = _options(value)
        elif key not in settings:
            raise _unknown_key(name, key, settings)
        else:
            values[key] = _convert(f"{name}.{key}", value, hints[key], settings[key].metadata)
    return section(**values)


def _build_models(table: Mapping[str, Any]) -> Mapping[str, ModelConfig]:
    models: dict[str, ModelConfig] = {}
    for pattern, entry in table.items():
        if not isinstance(entry, dict):
            raise ConfigError(
                f"models.{pattern} = {entry!r} stands where a section is expected",
                hint='Name the models in quotes: [models."gpt-5*"].',
            )
        models[pattern] = _build_section(f'models."{pattern}"', ModelConfig, entry)
    return MappingProxyType(models)


def _build_teams(
    teams: Any, tables: Mapping[str, Any], config: Config, environ: Mapping[str, str]
) -> Mapping[str, TeamConfig]:
    """Every team with the whole configuration as it holds for it: its own settings over the common ones."""
    if not isinstance(teams, dict) or not all(isinstance(entry, dict) for entry in teams.values()):
        raise ConfigError(f"teams = {teams!r} stands where sections are expected", hint="Write [teams.NAME].")
    if config.server.client_keys:
        raise ConfigError(
            "server.client_keys cannot stand beside [teams]: whose would they be?",
            hint="Move them to client_keys of a team, or make keys with: undercliff keys create NAME.",
        )
    built: dict[str, TeamConfig] = {}
    owners: dict[str, str] = {}
    for name, entry in teams.items():
        if not _TEAM_NAME.fullmatch(name):
            raise ConfigError(f"teams.{name} is no team's name", hint="Use up to 40 of a-z, 0-9, - and _.")
        own = {key: value for key, value in entry.items() if key not in TEAM_SECTIONS}
        team = _build_section(f"teams.{name}", TeamConfig, own)
        keys = _split_keys(team.client_keys)
        for key in keys:
            if owners.setdefault(key, name) != name:
                raise ConfigError(
                    f"teams.{owners[key]} and teams.{name} have a client key in common",
                    hint="A key says whose a request is: give each team its own.",
                )
        whole = _team_config(name, entry, tables, environ)
        _check_team(name, team, whole)
        built[name] = dataclasses.replace(team, client_keys=keys, config=whole)
    return MappingProxyType(built)


def _team_config(name: str, entry: Mapping[str, Any], tables: Mapping[str, Any], environ: Mapping[str, str]) -> Config:
    merged = dict(tables)
    for section in TEAM_SECTIONS:
        if section in entry:
            if not isinstance(entry[section], dict):
                raise ConfigError(
                    f"teams.{name}.{section} = {entry[section]!r} is no table",
                    hint=f"Write [teams.{name}.{section}] and one line a setting.",
                )
            merged[section] = {**tables.get(section, {}), **entry[section]}
    try:
        return _whole(merged, environ)
    except ConfigError as error:
        raise ConfigError(f"teams.{name}: {error}", hint=error.hint) from error


def _check_team(name: str, team: TeamConfig, config: Config) -> None:
    upstream = config.upstream
    if upstream.is_managed and team.pass_through:
        raise ConfigError(
            f"teams.{name} has pass_through = true and a provider key ({upstream.key_env})",
            hint=f'Take pass_through out, or write key_env = "" below [teams.{name}.upstream].',
        )
    if not upstream.is_managed and not team.pass_through:
        raise ConfigError(
            f"teams.{name} has no provider key",
            hint=f"Name its variable in key_env below [teams.{name}.upstream], or write pass_through = true.",
        )


def _options(value: Any) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ConfigError(
            f"policy.options = {value!r} is no table", hint="Write [policy.options] and one line an option."
        )
    return MappingProxyType(dict(value))


def _unknown_section(name: str, table: Any, known: Sequence[str]) -> ConfigError:
    if not isinstance(table, dict):
        homes = [section for section, kind in SECTIONS.items() if name in settings_of(kind)]
        if homes:
            return ConfigError(f"{name} stands outside its section", hint=f"Put it below [{homes[0]}].")
    return ConfigError(f"there is no section [{name}]", hint=_nearest(name, known, "[{}]"))


def _unknown_key(section: str, key: str, settings: Mapping[str, Any]) -> ConfigError:
    homes = [other for other, kind in SECTIONS.items() if key in settings_of(kind)]
    if homes:
        return ConfigError(f"{section}.{key} is no setting", hint=f"Did you mean {homes[0]}.{key}?")
    known = [*settings, "options"] if section == "policy" else list(settings)
    return ConfigError(f"{section}.{key} is no setting", hint=_nearest(key, known, f"{section}.{{}}"))


def _nearest(word: str, known: Sequence[str], shape: str) -> str:
    found = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.5)
    if found:
        return f"Did you mean {shape.format(found[0])}?"
    return f"Known: {', '.join(known)}."


def _convert(key: str, value: Any, hint: Any, rules: Mapping[str, Any]) -> Any:
    kinds = [kind for kind in (get_args(hint) or (hint,)) if kind is not type(None)]
    if get_args(hint)[1:] == (Ellipsis,):
        converted: Any = _texts(key, value)
    elif float in kinds:
        converted = _number(key, value, whole=False)
    elif bool in kinds:
        converted = _flag(key, value)
    elif int in kinds:
        converted = _number(key, value, whole=True)
    else:
        converted = _text(key, value)
    _check_rules(key, converted, rules)
    return converted


def _texts(key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise _wrong(key, value, "a list of texts", '["one", "two"]')
    return tuple(value)


def _number(key: str, value: Any, *, whole: bool) -> int | float:
    is_number = isinstance(value, int) or (isinstance(value, float) and not whole)
    if isinstance(value, bool) or not is_number:
        raise _wrong(key, value, "a whole number" if whole else "a number", "10" if whole else "1.5")
    return int(value) if whole else float(value)


def _flag(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(key, value, "true or false", "true")
    return value


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(key, value, "a text", '"text"')
    return value


def _check_rules(key: str, value: Any, rules: Mapping[str, Any]) -> None:
    if rules["choices"] and value not in rules["choices"]:
        hint = _nearest(value, rules["choices"], '"{}"')
        raise ConfigError(f"{key} = {value!r} is not one of {', '.join(rules['choices'])}", hint=hint)
    low, high = rules["low"], rules["high"]
    if low is not None and not value >= low:
        raise ConfigError(f"{key} = {value!r} is too small", hint=f"Use {low} or more.")
    if high is not None and not value <= high:
        raise ConfigError(f"{key} = {value!r} is too large", hint=f"Use {high} or less.")


def _wrong(key: str, value: Any, expected: str, sample: str) -> ConfigError:
    shown = "(not shown)" if key.rpartition(".")[2] in _SECRET_KEYS else repr(value)
    return ConfigError(f"{key} = {shown} must be {expected}", hint=f"Write {key.rpartition('.')[2]} = {sample}.")


# -- checking what depends on more than one value -----------------------------------------------


def _resolve(config: Config, environ: Mapping[str, str]) -> Config:
    key = environ.get(config.upstream.key_env, "").strip() if config.upstream.is_managed else ""
    upstream = dataclasses.replace(config.upstream, key=key)
    own = environ.get(config.compaction.key_env, "").strip() if config.compaction.key_env else ""
    compaction = dataclasses.replace(config.compaction, key=own)
    server = dataclasses.replace(config.server, client_keys=_split_keys(config.server.client_keys))
    data = _data_folder(environ)
    store = dataclasses.replace(
        config.store,
        url=config.store.url or str(data / "undercliff.db"),
        secret_file=str(Path(config.store.secret_file or data / "undercliff.secret").expanduser()),
        spool=str(Path(config.store.spool or data / "spool").expanduser()),
    )
    return dataclasses.replace(config, server=server, upstream=upstream, store=store, compaction=compaction)


def _split_keys(texts: Sequence[str]) -> tuple[str, ...]:
    """Keys, several of which may stand in one text."""
    return tuple(key for text in texts for key in re.split(r"[,\s]+", text.strip()) if key)


def _data_folder(environ: Mapping[str, str]) -> Path:
    given = environ.get("UNDERCLIFF_DATA_DIR")
    return Path(given).expanduser() if given else user_data_path("undercliff", appauthor=False)


def _check(config: Config) -> None:
    check_base(config.upstream.url)
    for name, variable in (("upstream", config.upstream.key_env), ("compaction", config.compaction.key_env)):
        if variable and not _VARIABLE_NAME.fullmatch(variable):
            raise ConfigError(
                f"{name}.key_env must be the name of an environment variable, not a key",
                hint='Write key_env = "OPENAI_API_KEY" and put the key into that variable.',
            )
    _check_store(config.store)
    for entry in config.server.forwarded_allow_ips:
        _check_network(entry)
    for name in ("patterns", "vetoes"):
        for pattern in getattr(config.overflow, name):
            _check_pattern(f"overflow.{name}", pattern)


def _check_store(store: StoreConfig) -> None:
    scheme, separator, _ = store.url.partition("://")
    if separator and scheme not in _STORE_SCHEMES:
        raise ConfigError(
            f"store.url has the scheme {scheme!r}",
            hint="Write a file path, sqlite:///path or postgresql://host/database.",
        )


def _check_network(entry: str) -> None:
    """A front server's address. Names and `*` are refused: with those anybody could be anyone."""
    try:
        network = ip_network(entry)
    except ValueError as error:
        raise ConfigError(
            f"server.forwarded_allow_ips: {entry!r} is no address or network ({error})",
            hint='Write the front server\'s address, like "127.0.0.1", or its network, like "10.0.0.0/24".',
        ) from error
    if network.prefixlen == 0:
        raise ConfigError(
            f"server.forwarded_allow_ips: {entry!r} is everybody",
            hint="Name the front servers' own network.",
        )


def _check_pattern(key: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ConfigError(
            f"{key}: {pattern!r} is no regular expression ({error})", hint="Use single quotes to keep backslashes."
        ) from error
