"""The proxies that the gateway bench compares: how each is installed, started and asked. Nothing is measured here."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.serve import free_port, served_process

KEY = "sk-bench"
MODEL = "gpt-5.4"


class NotInstalledError(RuntimeError):
    """A peer that this machine cannot have; the bench says so and goes on."""


@dataclass(frozen=True, slots=True)
class Running:
    """A proxy that answers at `port`. `pid` is its root process, 0 for the provider itself."""

    name: str
    port: int
    pid: int
    path: str = "/v1/chat/completions"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Peer:
    """How to get and start one proxy. `command` gets home, upstream base URL, port and a scratch folder."""

    name: str
    install: Callable[[Path], None]
    command: Callable[[Path, str, int, Path], Sequence[str]]
    headers: Callable[[str], tuple[tuple[str, str], ...]] = lambda url: ()
    environment: dict[str, str] = field(default_factory=dict)
    start_s: float = 60.0

    @contextmanager
    def run(self, homes: Path, upstream_url: str, scratch: Path) -> Iterator[Running]:
        """Start it before `upstream_url` (without /v1). Raises `NotInstalledError` when it cannot be had."""
        home = homes / self.name
        if not home.exists():
            home.mkdir(parents=True)
            try:
                self.install(home)
            except (subprocess.CalledProcessError, OSError) as error:
                shutil.rmtree(home, ignore_errors=True)
                raise NotInstalledError(f"{self.name}: {error}") from error
        port = free_port()
        scratch = scratch / self.name
        scratch.mkdir(parents=True, exist_ok=True)
        with (scratch / "log").open("wb") as log:
            process = subprocess.Popen(
                list(self.command(home, upstream_url, port, scratch)),
                stdout=log,
                stderr=log,
                cwd=scratch,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )
            try:
                if not wait_for_port(port, self.start_s):
                    tail = (scratch / "log").read_text(errors="replace")[-300:]
                    raise NotInstalledError(f"{self.name} did not start: {tail}")
                yield Running(self.name, port, process.pid, headers=self.headers(upstream_url))
            finally:
                os.killpg(process.pid, 9)
                process.wait()


def _pip(*packages: str) -> Callable[[Path], None]:
    def install(home: Path) -> None:
        venv.create(home, with_pip=True)
        subprocess.run([home / "bin/pip", "install", "-q", *packages], check=True, stdout=subprocess.DEVNULL)

    return install


def _npm(package: str) -> Callable[[Path], None]:
    def install(home: Path) -> None:
        subprocess.run(["npm", "install", "--silent", "--prefix", str(home), package], check=True)

    return install


def _debian(program: str, package: str) -> Callable[[Path], None]:
    def install(home: Path) -> None:
        if shutil.which(program) is None:
            subprocess.run(["apt-get", "install", "-y", "-qq", package], check=True, stdout=subprocess.DEVNULL)

    return install


def _nginx(home: Path, url: str, port: int, scratch: Path) -> Sequence[str]:
    config = scratch / "nginx.conf"
    config.write_text(
        "daemon off; master_process off; worker_processes 1; pid nginx.pid; error_log stderr warn;\n"
        "events { worker_connections 4096; }\n"
        "http { access_log off; client_max_body_size 100m; client_body_buffer_size 8m;\n"
        f" upstream provider {{ server {url.removeprefix('http://')}; keepalive 512; }}\n"
        f" server {{ listen 127.0.0.1:{port}; keepalive_requests 1000000;\n"
        "  location / { proxy_pass http://provider; proxy_http_version 1.1;\n"
        '   proxy_set_header Connection ""; proxy_buffering off; proxy_read_timeout 600s; } } }\n'
    )
    return ["nginx", "-p", str(scratch), "-c", str(config)]


def _litellm(home: Path, url: str, port: int, scratch: Path) -> Sequence[str]:
    config = scratch / "lite.yaml"
    config.write_text(
        f"model_list:\n  - model_name: {MODEL}\n    litellm_params:\n"
        f"      model: openai/{MODEL}\n      api_base: {url}/v1\n      api_key: sk-none\n"
    )
    return [str(home / "bin/litellm"), "--config", str(config), "--port", str(port), "--host", "127.0.0.1"]


def _portkey_headers(url: str) -> tuple[tuple[str, str], ...]:
    return (("x-portkey-provider", "openai"), ("x-portkey-custom-host", f"{url}/v1"))


PEERS = (
    Peer("nginx", _debian("nginx", "nginx-light"), _nginx),
    Peer(
        "litellm",
        _pip("litellm[proxy]"),
        _litellm,
        environment={"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": KEY},
        start_s=120,
    ),
    Peer(
        "portkey",
        _npm("@portkey-ai/gateway"),
        lambda home, url, port, scratch: [
            "node", str(home / "node_modules/@portkey-ai/gateway/build/start-server.js"), f"--port={port}", "--headless"
        ],
        headers=_portkey_headers,
    ),
    Peer(
        "cliffcompaction",
        _pip("cliffcompaction"),
        lambda home, url, port, scratch: [
            str(home / "bin/cliff"), "serve", "--port", str(port), "--threshold", "200000", "--openai-upstream", url
        ],
    ),
    Peer(
        "ctxkeeper",
        _pip("ctxkeeper"),
        lambda home, url, port, scratch: [
            str(home / "bin/ctxkeeper"), "--upstream", url, "--port", str(port), "--recipe", "agent",
            "--budget", "200000",
        ],
    ),
    Peer(
        "context-guardian",
        _pip("context-guardian"),
        lambda home, url, port, scratch: [
            "env", f"GUARDIAN_PORT={port}", f"GUARDIAN_UPSTREAM_URL={url}/v1", "GUARDIAN_NUM_CTX=200000",
            "GUARDIAN_DETECT_CONTEXT=0", "GUARDIAN_VERSION_CHECK=0", str(home / "bin/context-guardian"),
        ],
    ),
    Peer(
        "foveance",
        _pip("foveance"),
        lambda home, url, port, scratch: [
            str(home / "bin/foveance"), "proxy", "--port", str(port), "--upstream", url, "--budget", "200000"
        ],
    ),
    Peer(
        "distil",
        _pip("distil-llm"),
        lambda home, url, port, scratch: [
            str(home / "bin/distil"), "proxy", "--port", str(port), "--upstream", url, "--expand", "--shadow", "0"
        ],
    ),
    Peer(
        "kompact",
        _pip("kompact"),
        lambda home, url, port, scratch: [
            str(home / "bin/kompact"), "proxy", "--port", str(port), "--no-otel", "--openai-base-url", url
        ],
    ),
)  # fmt: skip
"""Every peer beside our own two, in the order of the table."""


def wait_for_port(port: int, timeout_s: float) -> bool:
    """Until somebody listens there. Another process has no event to wait for, so this asks again and again."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        with socket.socket() as sock:
            sock.settimeout(1)
            if sock.connect_ex(("127.0.0.1", port)) == 0:
                return True
        time.sleep(0.05)
    return False


@contextmanager
def our_own(
    upstream_url: str,
    settings: Mapping[str, object] | None = None,
    models: Mapping[str, Mapping[str, object]] | None = None,
) -> Iterator[Running]:
    """undercliff, with its default configuration where none is given."""
    with served_process(f"{upstream_url}/v1", models=models, **(settings or {})) as served:
        assert served.process is not None
        yield Running("undercliff", served.port, served.process.pid)


@contextmanager
def plain(upstream_url: str) -> Iterator[Running]:
    """The pass-through with our engine."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "tests.bench.plain", upstream_url, str(port)])
    try:
        if not wait_for_port(port, 30):
            raise NotInstalledError("the plain pass-through did not start")
        yield Running("plain", port, process.pid)
    finally:
        process.kill()
        process.wait()


@contextmanager
def everyone(upstream_url: str, homes: Path, scratch: Path, only: Sequence[str]) -> Iterator[list[Running]]:
    """All that can run, started at once; those that cannot are named on standard error."""
    with ExitStack() as stack:
        port = int(upstream_url.rpartition(":")[2])
        running = [Running("direct", port, 0)]
        running.append(stack.enter_context(plain(upstream_url)))
        running.append(stack.enter_context(our_own(upstream_url)))
        for peer in PEERS:
            if only and peer.name not in only:
                continue
            try:
                running.append(stack.enter_context(peer.run(homes, upstream_url, scratch)))
            except NotInstalledError as error:
                print(f"skipped {error}", file=sys.stderr)
        yield running
