"""The compose file's topology as plain processes: a front server, two replicas with deploy/'s settings, PostgreSQL.

Run it with `python -m tests.bench.topology [--front nginx|caddy] [--agents N] [--turns N]`. The front servers run with
the files of deploy/, but for addresses and ports. Checked: every piece of a stream passes before the next one is sent;
turns spread over both replicas go out as from one process; a replica that is told to stop in the middle of a stream
ends it whole; one that is killed is passed over; a body of 20 MB passes; what the front server adds about a client
ends at the replica.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from proxy.store.secret import keep_secret
from tests.bench.replicas import MODELS, SECRET, SETTINGS, Provider, Run, compare, drive, single
from tests.support import builders
from tests.support.postgres import own_server
from tests.support.replies import DONE, chunk, event, stream_reply
from tests.support.serve import ROOT, ServedProcess, free_port, served_process
from tests.support.signals import Gate
from tests.support.upstream import ScriptedUpstream

DEPLOY = ROOT / "deploy"
FRONTS = ("nginx", "caddy")
KEY = {"authorization": "Bearer sk-one", "content-type": "application/json"}
PIECES = 6


def find(front: str) -> str | None:
    return shutil.which(front) or next((p for p in (f"/usr/sbin/{front}",) if Path(p).exists()), None)


@dataclass(frozen=True, slots=True)
class Topology:
    front: str  # its URL
    replicas: Sequence[ServedProcess]
    up: ScriptedUpstream
    provider: Provider


# -- the processes -----------------------------------------------------------------------------------


def deployed(url: str, folder: Path, own: Path) -> dict[str, Any]:
    """The settings of deploy/ for replicas, with this machine's addresses and places."""
    made = tomllib.loads((DEPLOY / "config.postgres.toml").read_text())
    settings = {f"{section}__{key}": value for section, table in made.items() for key, value in table.items()}
    here = {
        "server__host": "127.0.0.1",
        "server__client_keys": ["sk-one"],
        "server__admin_key": "sk-admin",
        "server__forwarded_allow_ips": ["127.0.0.1"],
        "server__drain_delay_s": 3.0,
        "store__url": url,
        "store__secret_file": str(folder / "shared.secret"),
        "store__spool": str(own / "spool"),
    }
    assert set(here) <= set(settings)  # nothing is set here that deploy/ does not set
    return {**settings, **here, "log__level": "warning"}


@contextmanager
def running(front: str, folder: Path, provider: Provider, up: ScriptedUpstream) -> Iterator[Topology]:
    """All of it. The database, and so the caller, may be skipped where no server can be started."""
    with ExitStack() as opened:
        server = opened.enter_context(own_server())
        server.execute("CREATE DATABASE undercliff")
        keep_secret(folder / "shared.secret", SECRET)
        os.environ["OPENAI_API_KEY"] = "sk-provider"
        replicas = []
        for number in range(2):
            own = folder / f"replica-{number}"
            own.mkdir()
            settings = {**deployed(server.url("undercliff"), folder, own), **SETTINGS}
            replicas.append(opened.enter_context(served_process(up.base_url, own, models=MODELS, **settings)))
        port = free_port()
        opened.enter_context(fronted(front, port, [replica.port for replica in replicas], folder))
        yield Topology(f"http://127.0.0.1:{port}", replicas, up, provider)


@contextmanager
def fronted(front: str, port: int, replicas: Sequence[int], folder: Path) -> Iterator[None]:
    """The front server with deploy/'s file."""
    command = find(front)
    assert command is not None, f"{front} is not installed here"
    if front == "nginx":
        shutil.copy(DEPLOY / "nginx/proxy.conf", folder)
        (folder / "nginx.conf").write_text(for_nginx(port, replicas, folder))
        line = [command, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-g", "daemon off; " + _as_root()]
    else:
        (folder / "Caddyfile").write_text(for_caddy(port, replicas))
        line = [command, "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]
    with (folder / f"{front}.log").open("ab") as log:
        environment = {**os.environ, "HOME": str(folder)}
        process = subprocess.Popen(line, stdout=log, stderr=log, env=environment, cwd=folder)
    try:
        for _ in range(200):
            try:
                httpx.get(f"http://127.0.0.1:{port}/ctx/health", trust_env=False, timeout=5)
                break
            except httpx.HTTPError:
                assert process.poll() is None, (folder / f"{front}.log").read_text()
                time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(20)


def _as_root() -> str:
    return "user root;" if os.geteuid() == 0 else ""


def for_nginx(port: int, replicas: Sequence[int], folder: Path) -> str:
    text = (DEPLOY / "nginx/balancer.conf").read_text()
    for number, own in enumerate(replicas, 1):
        text = text.replace(f"replica-{number}:4272", f"127.0.0.1:{own}")
    text = text.replace("listen 8080;", f"listen 127.0.0.1:{port};").replace("/tmp/", f"{folder}/")
    return text.replace("/dev/stdout", f"{folder}/access.log").replace("/dev/stderr", f"{folder}/error.log")


def caddyfile() -> str:
    """deploy/'s, in the words of the Caddy that is here: 2.7 renamed a setting."""
    text = (DEPLOY / "Caddyfile").read_text()
    said = subprocess.run(["caddy", "version"], capture_output=True, text=True, check=True).stdout
    version = tuple(int(part) for part in re.findall(r"\d+", said)[:2])
    return (
        text if version >= (2, 7) else text.replace("request_buffers 4MB", "buffer_requests\n\t\tmax_buffer_size 4MB")
    )


def for_caddy(port: int, replicas: Sequence[int]) -> str:
    text = caddyfile()
    places = " ".join(f"127.0.0.1:{own}" for own in replicas)
    text = text.replace("llm.example.com {", f"http://127.0.0.1:{port} {{")
    text = text.replace("reverse_proxy 127.0.0.1:4272 {", f"reverse_proxy {places} {{\n\t\tlb_policy round_robin")
    return "{\n\tadmin off\n}\n" + text


# -- what is checked ---------------------------------------------------------------------------------


def body_of(text: str) -> bytes:
    return builders.body_bytes(builders.request([builders.user(text)], stream=True))


def pieces(gates: Sequence[Gate]) -> Any:
    steps: list[Any] = []
    for number, gate in enumerate(gates):
        steps += [event(chunk({"content": f"piece {number} "})), gate]
    return stream_reply([*steps, DONE])


def check_stream(made: Topology) -> int:
    """Each piece is here before the next one leaves the provider. Returns how many."""
    gates = [Gate() for _ in range(PIECES)]
    made.up.enqueue(pieces(gates))
    url, got, opened = f"{made.front}/v1/chat/completions", "", 0
    with httpx.stream("POST", url, content=body_of("one by one"), headers=KEY, timeout=20, trust_env=False) as reply:
        assert reply.status_code == 200
        for text in reply.iter_text():
            got += text
            while opened < PIECES and f"piece {opened} " in got:
                assert f"piece {opened + 1} " not in got
                gates[opened].open()
                opened += 1
    assert opened == PIECES and "[DONE]" in got
    return opened


def check_large(made: Topology) -> int:
    body = builders.body_bytes(builders.request([builders.user("a" * 20_000_000)]))
    reply = httpx.post(f"{made.front}/v1/chat/completions", content=body, headers=KEY, timeout=120, trust_env=False)
    assert reply.status_code in (200, 400), reply.text[:300]  # the strict provider may say that it is too long
    assert len(made.up.requests[-1].body) > 1000
    return len(body)


def check_front_headers(made: Topology) -> None:
    """The provider learns nothing of the front server, and nobody gets in with a header."""
    head = {**KEY, "x-forwarded-for": "127.0.0.1", "x-real-ip": "127.0.0.1"}
    url = f"{made.front}/v1/chat/completions"
    assert httpx.post(url, content=body_of("headers"), headers=head, timeout=20, trust_env=False).status_code == 200
    sent = {name.lower(): value for name, value in made.up.requests[-1].headers}
    assert not [name for name in sent if name.startswith("x-forwarded") or name in ("via", "x-real-ip")]
    assert sent["authorization"] == "Bearer sk-provider"
    near = {"x-forwarded-for": "127.0.0.1"}
    assert httpx.get(f"{made.front}/ctx/metrics", headers=near, trust_env=False).status_code == 404
    assert httpx.post(url, content=body_of("x"), timeout=20, trust_env=False).status_code == 401


def ask(made: Topology, text: str) -> None:
    url = f"{made.front}/v1/chat/completions"
    reply = httpx.post(url, content=body_of(text), headers=KEY, timeout=20, trust_env=False)
    assert reply.status_code == 200, (reply.status_code, reply.text)


def check_kill(made: Topology) -> None:
    """A replica dies at once: what comes next is served by the other."""
    made.replicas[0].kill()
    for number in range(6):
        ask(made, f"killed {number}")
    made.replicas[0].start()


def check_stop(made: Topology) -> None:
    """Both replicas are told to stop while each streams; every stream ends whole, and they come back."""
    ways = [[Gate() for _ in range(PIECES)] for _ in range(4)]
    for gates in ways:
        made.up.enqueue(pieces(gates))
    got: list[str] = []

    def read(number: int) -> None:
        url = f"{made.front}/v1/chat/completions"
        body = body_of(f"stop {number}")
        with httpx.stream("POST", url, content=body, headers=KEY, timeout=60, trust_env=False) as reply:
            got.append("".join(reply.iter_text()))

    before = made.up.received.value
    readers = [threading.Thread(target=read, args=(number,)) for number in range(4)]
    for reader in readers:
        reader.start()
    made.up.received.wait_sync(before + 4)
    first = made.replicas[0]
    assert first.process is not None
    first.process.terminate()
    for gates in ways:
        for gate in gates:
            gate.open()
    for reader in readers:
        reader.join(60)
    for number in range(6):  # while it says that it will stop, and after
        ask(made, f"meanwhile {number}")
        time.sleep(0.3)
    assert len(got) == 4 and all(f"piece {PIECES - 1} " in text and "[DONE]" in text for text in got)
    assert first.process.wait(30) == 0
    for number in range(6):  # the other one serves
        ask(made, f"after {number}")
    first.start()


def check_turns(made: Topology, agents: int, turns: int, folder: Path) -> tuple[int, Run]:
    """Turns on whichever replica the front server takes, against one process on a file. Returns (equal lists, run)."""
    one = single(agents, turns, folder, made.up, made.provider)
    started = time.monotonic()
    talked = drive(agents, turns, [made.front], made.provider, threading.Event())
    many = Run(talked, time.monotonic() - started, 0.0)
    same, apart = compare(one, many)
    assert apart == 0
    return same, many


def delay(made: Topology, count: int = 40) -> tuple[float, float]:
    """Median seconds of a small request at a replica, and through the front server."""
    found = []
    for base in (made.replicas[0].url, made.front):
        with httpx.Client(trust_env=False, headers=KEY, timeout=20) as http:
            times = []
            for number in range(count):
                body = builders.body_bytes(builders.request([builders.user(f"{base} {number}")]))
                started = time.perf_counter()
                assert http.post(f"{base}/v1/chat/completions", content=body).status_code == 200
                times.append(time.perf_counter() - started)
        found.append(statistics.median(times))
    return found[0], found[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--front", choices=FRONTS, action="append")
    parser.add_argument("--agents", type=int, default=6)
    parser.add_argument("--turns", type=int, default=20)
    asked = parser.parse_args()
    for front in asked.front or FRONTS:
        if find(front) is None:
            print(f"{front}: not installed here, skipped")
        else:
            play(front, asked.agents, asked.turns)


def play(front: str, agents: int, turns: int) -> None:
    provider = Provider()
    with (
        tempfile.TemporaryDirectory() as name,
        ScriptedUpstream(provider) as up,
        running(front, Path(name), provider, up) as made,
    ):
        print(f"{front}: {check_stream(made)} pieces of a stream one by one; {check_large(made):,} bytes passed")
        check_front_headers(made)
        same, run = check_turns(made, agents, turns, Path(name))
        print(f"  {same} of {run.turns} lists as from one process, {run.turns / run.seconds:.1f} turns/s")
        check_stop(made)
        check_kill(made)
        alone, through = delay(made)
        print(f"  a small request: {1000 * alone:.1f} ms at a replica, {1000 * through:.1f} ms through {front}")
        print("  stopped in the middle of four streams: all whole; killed: the next six requests served")


if __name__ == "__main__":
    main()
