"""What an operator meets: starting, stopping, ports, stores that cannot be opened, keys, and the environment."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest

from proxy.config import ServerConfig, check_serving
from proxy.errors import ConfigError
from proxy.listening import close, open_port
from tests.support import builders, replies
from tests.support.raw import exchange
from tests.support.records import Records, eventually
from tests.support.serve import ROOT, ServedProcess, free_port, served, served_process, wait_ready
from tests.support.upstream import Action, Request, ScriptedUpstream, Send

CHAT = builders.body_bytes(builders.request([builders.user("high water?")]))
DEAD = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream(lambda _: replies.json_reply(replies.completion())) as upstream:
        yield upstream


def post(url: str, body: bytes = CHAT, headers: Any = None, path: str = "/chat/completions") -> httpx.Response:
    return httpx.post(f"{url}/v1{path}", content=body, headers=headers, timeout=20, trust_env=False)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "proxy", *arguments]


def environment(folder: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "UNDERCLIFF_DATA_DIR": str(folder), **more}


AS_NOBODY = """
import encodings.idna, os, sys, time
import uvicorn, uvicorn.loops.uvloop, uvicorn.lifespan.off, uvicorn.middleware.proxy_headers
import proxy.app
from proxy.cli.main import main

run = proxy.app.run

def run_as_nobody(*args, **options):
    os.setgroups([]); os.setgid(1001); os.setuid(1001)
    begun = time.monotonic()
    try:
        run(*args, **options)
    finally:
        assert time.monotonic() - begun < 3

proxy.app.run = run_as_nobody
main(sys.argv[1:])
"""
"""As a user without a name from where it runs on: the interpreter itself may lie where only root can read."""


def refused(*arguments: str, folder: Path, as_nobody: bool = False) -> str:
    """What a `serve` that must not start says: one line, and one that helps."""
    start = [sys.executable, "-c", AS_NOBODY] if as_nobody else command()
    done = subprocess.run(
        [*start, "serve", *arguments],
        capture_output=True, text=True, env=environment(folder), cwd=folder, timeout=20, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    first, hint = done.stderr.splitlines()
    assert first.startswith("undercliff: ") and hint.startswith("  ")
    return first


# -- start and stop ------------------------------------------------------------------------------------


@contextmanager
def started(*arguments: str, folder: Path, **more: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`serve` with these arguments on a free port, and its URL."""
    port = free_port()
    process = subprocess.Popen(
        command("serve", "--port", str(port), *arguments),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(folder, **more), cwd=folder,
    )  # fmt: skip
    try:
        host = "[::1]" if "::1" in arguments else "127.0.0.1"
        wait_ready(f"http://{host}:{port}", is_alive=lambda: process.poll() is None)
        yield process, f"http://{host}:{port}"
    finally:
        process.kill()
        process.communicate()


def test_serve_prints_its_block_once_and_ends_well(up: ScriptedUpstream, tmp_path: Path) -> None:
    with started("--upstream", up.base_url, folder=tmp_path) as (process, url):
        assert post(url).status_code == 200
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=15)
    assert process.returncode == 0 and out == ""
    assert [line.strip() for line in err.splitlines() if "export" in line] == [f"export OPENAI_BASE_URL={url}/v1"]
    for line in ("listening", "upstream", "store", "policy"):
        assert len(re.findall(rf"(?m)^  {line} ", err)) == 1, err
    assert "Traceback" not in err and "error" not in err.lower()
    assert not (tmp_path / "undercliff.db-wal").exists()  # closed in good order
    assert len(Records(tmp_path / "undercliff.db").conversations()) == 1


def test_listening_on_ipv6(up: ScriptedUpstream, tmp_path: Path) -> None:
    """OPS-05, the side of clients."""
    try:
        close(open_port("::1", 0))
    except ConfigError as error:
        pytest.skip(str(error))
    with started("--upstream", up.base_url, "--host", "::1", folder=tmp_path) as (_, url):
        assert post(url).status_code == 200


def test_a_port_in_use_is_one_line_and_nothing_is_opened(up: ScriptedUpstream, tmp_path: Path) -> None:
    sockets = open_port("127.0.0.1", 0)
    port = sockets[0].getsockname()[1]
    line = refused("--port", str(port), folder=tmp_path)
    close(sockets)
    assert line == f"undercliff: cannot listen on 127.0.0.1:{port}: something listens there already"
    assert list(tmp_path.iterdir()) == []


def test_sec_10_nothing_is_open_to_others_by_default(tmp_path: Path) -> None:
    assert "client keys" in refused("--host", "0.0.0.0", folder=tmp_path)
    for host in ("::", "192.0.2.1", "host.example", ""):
        with pytest.raises(ConfigError, match="client keys"):
            check_serving(ServerConfig(host=host))


# -- the store cannot be opened (OPS-06) ----------------------------------------------------------------


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to start it as another user")
@pytest.mark.parametrize("case", ["volume", "folder", "file", "secret"])
def test_ops_06_a_store_that_is_somebody_elses(case: str) -> None:
    """A user without a name, as in a container: one line with path and user, within 3 s."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        place = Path(folder) / "volume"
        place.mkdir()
        file, secret = place / "x.db", place / "x.secret"
        if case != "volume":
            file.touch()
        if case in ("folder", "secret"):
            os.chown(file, 1001, 1001)
        if case in ("file", "secret"):
            os.chown(place, 1001, 1001)
        if case == "secret":
            secret.write_bytes(b"s" * 32)
            secret.chmod(0o600)
        line = refused("--port", "0", "--db", str(file), folder=Path(folder), as_nobody=True)
        assert str(secret if case == "secret" else file) in line and "uid 1001" in line


def test_ops_06_runs_without_a_store_if_told_to(up: ScriptedUpstream, tmp_path: Path) -> None:
    (tmp_path / "x.db").mkdir()  # nobody can open it, root neither
    settings = {"store__url": str(tmp_path / "x.db"), "store__required": False}
    with served_process(up.base_url, tmp_path, **settings) as process:
        assert post(process.url).status_code == 200
        assert "store_unavailable" in process.log


# -- keys -------------------------------------------------------------------------------------------


KEYS = {
    "bearer": "house-Kx81-bearer-secret",
    "client": "gate-Pq72-client-secret",
    "query": "quay-Zr63-query-secret",
    "wrong": "wrong-Lm54-secret",
    "azure": "azure-Tt45-secret",
}


def echoing(request: Request) -> Action:
    """A provider that repeats in its error every key that it saw."""
    seen = " ".join(f"{name}: {value}" for name, value in request.headers) + " " + request.target
    return replies.error_reply(401, f"Incorrect API key provided: {seen}. Key {request.header('authorization')} is bad")


def texts_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "config.toml")


@pytest.mark.parametrize("is_managed", [True, False])
def test_sec_01_no_key_is_written_down(tmp_path: Path, is_managed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Log at its loudest, errors that repeat keys, a broken reply, a wrong key, a crash of the client's link."""
    monkeypatch.setenv("HOUSE_KEY", KEYS["bearer"])
    settings: dict[str, object] = {"log__level": "debug", "server__client_keys": [KEYS["client"]]}
    if is_managed:
        settings["upstream__key_env"] = "HOUSE_KEY"
    with ScriptedUpstream(echoing) as up, served_process(up.base_url, tmp_path, **settings) as process:
        target = f"/chat/completions?key={KEYS['query']}"
        right = {
            "x-undercliff-key": KEYS["client"],
            "authorization": f"Bearer {KEYS['bearer']}",
            "api-key": KEYS["azure"],
        }
        assert post(process.url, headers=right, path=target).status_code == 401
        assert post(process.url, headers=right, path=f"/embeddings?api_key={KEYS['query']}").status_code == 401
        before = up.bodies_read
        assert post(process.url, headers={"authorization": f"Bearer {KEYS['wrong']}"}).status_code == 401
        assert up.bodies_read == before
        up.enqueue(Action((Send(b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"),), is_last=True))
        assert post(process.url, headers=right, path=target).status_code == 502
        exchange(process.port, f"GET /v1/?key={KEYS['query']} HTTP/1.1\r\n{KEYS['wrong']}\r\n\r\n".encode())
        if is_managed:
            assert {request.header("authorization") for request in up.requests} == {f"Bearer {KEYS['bearer']}"}
            assert not any(request.header("api-key") for request in up.requests)
        assert not any(KEYS["client"] in request.raw_head.decode() for request in up.requests)
        process.terminate()
        written = texts_of(tmp_path)
        assert b"Incorrect API key provided" in written  # the error itself is kept
        for name, key in KEYS.items():
            assert key.encode() not in written, name


@pytest.mark.parametrize("value", [None, "", "  "])
@pytest.mark.parametrize("path", ["/chat/completions", "/models"])
def test_sec_06_managed_without_a_key_sends_nothing(
    up: ScriptedUpstream, path: str, value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is not None:
        monkeypatch.setenv("HOUSE_KEY", value)
    before = len(up.connections)
    with served(up.base_url, upstream__key_env="HOUSE_KEY") as proxy:
        reply = post(proxy.url, path=path, headers={"authorization": "Bearer sk-clients-own"})
        assert reply.status_code == 503 and "HOUSE_KEY" in reply.json()["error"]["message"]
    assert len(up.connections) == before


def test_sec_06_pass_through_sends_the_clients_key_as_it_is(up: ScriptedUpstream) -> None:
    with served(up.base_url) as proxy:
        for headers in ({"authorization": "Bearer sk-own"}, {"api-key": "own"}, {"x-api-key": "own"}):
            post(proxy.url, headers=headers)
            ((name, value),) = headers.items()
            assert up.requests[-1].header_list(name) == [value]
        post(proxy.url)
        assert not any(up.requests[-1].header(name) for name in ("authorization", "api-key", "x-api-key"))


def test_client_keys_are_needed_on_every_path_but_health(up: ScriptedUpstream) -> None:
    before = len(up.requests)
    with served(up.base_url, server__client_keys=["right"]) as proxy:
        for path in ("/chat/completions", "/models", "/files"):
            for headers in ({}, {"x-undercliff-key": "wrong"}, {"authorization": "Bearer right"}):
                reply = post(proxy.url, headers=headers, path=path)
                assert reply.status_code == 401 and reply.json()["error"]["code"] == "invalid_api_key"
        assert len(up.requests) == before
        assert post(proxy.url, headers={"x-undercliff-key": "right", "authorization": "Bearer sk"}).status_code == 200
        assert httpx.get(f"{proxy.url}/ctx/health", trust_env=False).status_code == 200


# -- the environment's proxies (OPS-03) -----------------------------------------------------------------

ENVIRONMENT: Mapping[str, str] = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"), DEAD),
    "NO_PROXY": "localhost,10.0.0.0/8,::1,*.internal",
    "no_proxy": "localhost,10.0.0.0/8,::1,*.internal",
}


@pytest.mark.parametrize("trust_env", [False, True])
def test_ops_03_it_starts_and_reaches_loopback_whatever_the_environment_names(
    up: ScriptedUpstream, tmp_path: Path, trust_env: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    for url in (up.base_url, up.base_url.replace("127.0.0.1", "localhost")):
        with served(url, upstream__trust_env=trust_env) as proxy:
            assert post(proxy.url).status_code == 200


def test_ops_03_the_environments_proxy_is_used_only_when_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host beyond this machine, behind a proxy that answers for it."""
    with ScriptedUpstream(lambda _: replies.raw_reply(200, b"by proxy")) as gateway:
        monkeypatch.setenv("http_proxy", gateway.url)
        with served("http://llm.invalid/v1", upstream__trust_env=True) as proxy:
            assert httpx.get(f"{proxy.base_url}/models", trust_env=False).text == "by proxy"
            assert gateway.requests[-1].target == "http://llm.invalid/v1/models"
        seen = len(gateway.requests)
        with served("http://llm.invalid/v1") as proxy:
            assert httpx.get(f"{proxy.base_url}/models", trust_env=False, timeout=20).status_code == 502
        assert len(gateway.requests) == seen


def test_the_process_serves_again_at_once_on_its_port(up: ScriptedUpstream, tmp_path: Path) -> None:
    """Stopped while clients hold links, started again: the port is free and the words are there."""
    server = ServedProcess(up.base_url, tmp_path)
    try:
        with httpx.Client(trust_env=False) as client:
            server.start()
            client.post(f"{server.base_url}/chat/completions", content=CHAT)
            assert server.terminate() == 0
            server.start()
            assert client.post(f"{server.base_url}/chat/completions", content=CHAT).status_code == 200
        assert eventually(lambda: len(Records(server.db).conversations()) == 1)
    finally:
        server.kill()
