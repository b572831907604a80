"""The real product on a real port: in a thread, or as a process that can be killed and started again on its data."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import httpx

from proxy.app import create_app
from proxy.config import Config, load_config
from proxy.demo.serving import serving
from proxy.listening import server_options

ROOT = Path(__file__).resolve().parents[2]


def make_config(
    upstream_url: str,
    db: Path | str,
    settings: Mapping[str, object] | None = None,
    models: Mapping[str, Mapping[str, object]] | None = None,
) -> Config:
    """Settings by dotted key (`{"window.compact_at": 9000}`), and what is said about models by pattern."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "config.toml"
        path.write_text(to_toml(upstream_url, db, settings, models))
        return load_config(path)


@dataclass(slots=True)
class Served:
    """A running proxy. `base_url` ends in /v1, as a client's OPENAI_BASE_URL does."""

    url: str
    db: Any  # a file, or a URL
    config: Config | None = None

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"


@contextmanager
def served(
    upstream_url: str,
    db: Path | str | None = None,
    *,
    models: Mapping[str, Mapping[str, object]] | None = None,
    **settings: object,
) -> Iterator[Served]:
    """The product in a thread. Settings are written with two underscores: `policy__name="last_n"`.

    Without `db` everything is gone afterwards; with it, a second block goes on where the first one stopped.
    """
    with TemporaryDirectory() as folder:
        path = db if "://" in str(db) else Path(db) if db else Path(folder) / "undercliff.db"
        config = make_config(upstream_url, path, dotted(settings), models)
        with serving(create_app(config), **server_options(config.server)) as url:
            wait_ready(url)
            yield Served(url, path, config)


@dataclass(slots=True)
class ServedProcess:
    """`python -m proxy serve` on its own. The port stays the same over restarts."""

    upstream_url: str
    folder: Path
    settings: Mapping[str, object] = field(default_factory=dict)
    models: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    port: int = 0
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    @property
    def db(self) -> Path:
        return self.folder / "undercliff.db"

    @property
    def log(self) -> str:
        return (self.folder / "log.txt").read_text(errors="replace")

    def start(self) -> Self:
        self.port = self.port or free_port()
        config = self.folder / "config.toml"
        config.write_text(to_toml(self.upstream_url, self.db, self.settings, self.models))
        command = [sys.executable, "-m", "proxy", "serve", "--config", str(config), "--port", str(self.port)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
        with (self.folder / "log.txt").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=self.folder)
        try:
            wait_ready(self.url, is_alive=lambda: self.process is not None and self.process.poll() is None)
        except RuntimeError as error:
            self.kill()
            raise RuntimeError(f"{error}\n{self.log[-4000:]}") from None
        return self

    def kill(self) -> None:
        """SIGKILL: no goodbye, no flush."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def terminate(self, timeout_s: float = 20) -> int:
        """SIGTERM, then the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout_s)

    def restart(self) -> Self:
        """Kill it and start again on the same port and the same data."""
        self.kill()
        return self.start()


@contextmanager
def served_process(
    upstream_url: str,
    folder: Path | None = None,
    *,
    models: Mapping[str, Mapping[str, object]] | None = None,
    **settings: object,
) -> Iterator[ServedProcess]:
    """The product as a process of its own, killed at the end if it still runs."""
    with TemporaryDirectory() as temporary:
        server = ServedProcess(upstream_url, folder or Path(temporary), dotted(settings), models or {})
        try:
            yield server.start()
        finally:
            server.kill()


def dotted(settings: Mapping[str, object]) -> dict[str, object]:
    return {key.replace("__", ".", 1): value for key, value in settings.items()}


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def wait_ready(url: str, *, is_alive: Any = lambda: True, timeout_s: float = 30) -> None:
    """Until /ctx/ready answers 200. Another process has no event to wait for, so this asks again and again."""
    end = time.monotonic() + timeout_s
    last = "nothing"
    with httpx.Client(trust_env=False) as client:
        while time.monotonic() < end and is_alive():
            try:
                reply = client.get(f"{url}/ctx/ready", timeout=5)
                if reply.status_code == 200:
                    return
                last = f"{reply.status_code} {reply.text[:200]}"
            except httpx.HTTPError as error:
                last = repr(error)
            time.sleep(0.02)
    raise RuntimeError(f"the proxy at {url} is not ready: {last}")


def to_toml(
    upstream_url: str,
    db: Path | str,
    settings: Mapping[str, object] | None = None,
    models: Mapping[str, Mapping[str, object]] | None = None,
) -> str:
    """A configuration file. JSON texts, numbers, lists and booleans are TOML too."""
    tables: dict[str, dict[str, object]] = {
        "upstream": {"url": upstream_url},
        "store": {"url": str(db)},
        "log": {"level": "warning"},
    }
    for key, value in (settings or {}).items():
        section, _, name = key.partition(".")
        if name == "options" and isinstance(value, Mapping):
            tables.setdefault(f"{section}.options", {}).update(value)
        else:
            tables.setdefault(section, {})[name] = value
    for pattern, entry in (models or {}).items():
        tables[f"models.{json.dumps(pattern)}"] = dict(entry)
    lines: list[str] = []
    for section, table in tables.items():
        lines.append(f"[{section}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    return "\n".join(lines) + "\n"
