"""Commands that run something: the server, the demo, the check of a configuration."""

from __future__ import annotations

import importlib
import platform
import sqlite3
from pathlib import Path
from typing import Annotated, Any

import typer

from policies import registry
from proxy.banner import banner, product_version, warnings
from proxy.config import Config, check_serving, load_config, settings_table
from proxy.config.example import toml_value
from proxy.config.sections import MODEL_KEYS, SECTIONS
from proxy.core.overflow_rules import DEFAULT
from proxy.core.pricing import ModelFacts
from proxy.core.redaction import redact
from proxy.core.thresholds import dead_zone
from proxy.errors import ConfigError
from proxy.prices import PriceBook
from proxy.summaries.settings import check as check_summarizer

ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings in TOML; see config.example.toml.")
]

OWN_FIGURE = 'A model may have a figure of its own: compact_at under [models."NAME"].'


def serve(
    config: ConfigOption = None,
    upstream: Annotated[str | None, typer.Option(metavar="URL", help="The provider's base URL.")] = None,
    host: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(metavar="NUMBER", help="Port to listen on; 4272 by default.")] = None,
    db: Annotated[str | None, typer.Option(metavar="PATH-OR-URL", help="Where conversations are kept.")] = None,
    policy: Annotated[str | None, typer.Option(metavar="NAME", help="How the window is chosen.")] = None,
    log_format: Annotated[str | None, typer.Option(metavar="console|json", help="How the log is written.")] = None,
    no_store: Annotated[bool, typer.Option("--no-store", help="Keep nothing and reduce nothing.")] = False,
    allow_public: Annotated[
        bool, typer.Option("--allow-public", help="Listen beyond this machine without client keys.")
    ] = False,
    forwarded_allow_ips: Annotated[
        str | None,
        typer.Option(metavar="NETWORKS", help="Front servers whose X-Forwarded-For is believed, comma-separated."),
    ] = None,
) -> None:
    """Run the proxy. Without any option it listens on this machine and passes requests to api.openai.com."""
    given: dict[str, object | None] = {
        "upstream.url": upstream,
        "server.host": host,
        "server.port": port,
        "store.url": db,
        "policy.name": policy,
        "log.format": log_format,
        "store.enabled": False if no_store else None,
        "server.allow_public": True if allow_public else None,
        "server.forwarded_allow_ips": forwarded_allow_ips.split(",") if forwarded_allow_ips else None,
    }
    settings = load_config(config, {key: value for key, value in given.items() if value is not None})
    check(settings)
    _heavy("proxy.app").run(settings, on_ready=lambda port: typer.echo(banner(settings, port=port), err=True))


def demo(
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    seed: Annotated[int, typer.Option(metavar="NUMBER", help="Another session of the same kind.")] = 7,
) -> None:
    """Watch a long session pass through the proxy. Needs no key and no network."""
    raise typer.Exit(_heavy("proxy.demo.run").run(as_json=as_json, seed=seed))


def check_config(config: ConfigOption = None) -> None:
    """Check a configuration and list what it changes."""
    settings = load_config(config)
    check(settings)
    changed = _changes(settings)
    for name, value in changed:
        typer.echo(f"{name} = {value}")
    for text in warnings(settings):
        typer.echo(f"warning: {text}", err=True)
    typer.echo("ok")


def version() -> None:
    """Print the versions that a bug report needs."""
    typer.echo(
        f"undercliff {product_version()} (Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, "
        f"{platform.system()} {platform.machine()})"
    )


def check(config: Config) -> None:
    """What `serve` refuses to start with, beyond what loading refuses. Raises `ConfigError`."""
    check_serving(config.server, has_teams=bool(config.teams))
    _check_parts(config)
    for name, team in config.teams.items():
        upstream = (team.config or config).upstream
        if upstream.is_managed and not upstream.key:
            raise ConfigError(
                f"teams.{name}: the environment variable {upstream.key_env} is empty",
                hint="Put the team's provider key into it.",
            )
        try:
            _check_parts(team.config or config)
        except ConfigError as error:
            raise ConfigError(f"teams.{name}: {error}", hint=error.hint) from error


def _check_parts(config: Config) -> None:
    try:
        registry.build(config.policy.name, config.policy.options)
    except registry.PolicyError as error:
        raise ConfigError(f"policy: {error}", hint=f"Built in or installed: {', '.join(registry.names())}.") from error
    try:
        DEFAULT.extended(patterns=config.overflow.patterns, vetoes=config.overflow.vetoes)
    except ValueError as error:
        raise ConfigError(str(error), hint="See [overflow] in config.example.toml.") from error
    check_summarizer(config.compaction)
    _check_thresholds(config)


def _check_thresholds(config: Config) -> None:
    """`compact_at` must be able to act. Where only a pattern is given, its fixed part names the model.

    The one for all models is held against those that the configuration names, and against those that
    this provider sells with a price cliff.
    """
    window = config.window
    if not window.compact_at and not any(entry.compact_at for entry in config.models.values()):
        return

    def reason(compact_at: int, facts: ModelFacts) -> str | None:
        return dead_zone(
            compact_at,
            facts.window,
            facts.cliff,
            guard_cliff_share=window.guard_cliff_share,
            guard_window_share=window.guard_window_share,
        )

    prices = PriceBook(config.upstream.url, config.model)
    for pattern, entry in config.models.items():
        compact_at = entry.compact_at or window.compact_at
        if compact_at and (text := reason(compact_at, prices.facts(pattern.rstrip("*")))):
            place = f'models."{pattern}"' if entry.compact_at else f'window.compact_at for models."{pattern}"'
            raise ConfigError(f"{place}: {text}", hint="" if entry.compact_at else OWN_FIGURE)
    for name, facts in prices.with_cliff().items() if window.compact_at else ():
        if config.model(name).compact_at is None and (text := reason(window.compact_at, facts)):
            raise ConfigError(f"window.compact_at for {name}: {text}", hint=OWN_FIGURE)


def _changes(config: Config) -> list[tuple[str, str]]:
    """Settings that are not at their default; of keys only how many there are."""
    found = []
    for name, default, _ in settings_table():
        section, _, key = name.partition(".")
        if section not in SECTIONS:
            continue
        value = getattr(getattr(config, section), key)
        if name == "server.admin_key" and value:
            found.append((name, "(not shown)"))
        elif name == "server.client_keys" and value:
            found.append((name, f"({len(value)} not shown)"))
        elif toml_value(value) != default:
            found.append((name, redact(toml_value(value))))
    found += [(f"policy.options.{key}", repr(value)) for key, value in config.policy.options.items()]
    for pattern, entry in config.models.items():
        values = {key: getattr(entry, key) for key in MODEL_KEYS}
        found += [(f'models."{pattern}".{key}', str(value)) for key, value in values.items() if value is not None]
    return found


def _heavy(module: str) -> Any:
    """The server and the demo take most of a second to import; only the commands that run them pay for it."""
    return importlib.import_module(module)
