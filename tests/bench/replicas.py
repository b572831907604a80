"""Replicas on one PostgreSQL under load: each turn on any of them, one killed, the database restarted meanwhile.

Run it with `python -m tests.bench.replicas [--agents N] [--turns N] [--replicas N]`. What the provider got for
each turn is compared with a single process on a file; what a client saw the end of must be in the store.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from proxy.audit.verify import verify_store
from proxy.store.archive import Archive
from proxy.store.secret import keep_secret
from tests.support import builders
from tests.support.postgres import PostgresServer, own_server
from tests.support.records import Records
from tests.support.serve import ServedProcess, served_process
from tests.support.session import FOLDED, NEVER, strict
from tests.support.upstream import Action, Request, ScriptedUpstream

MODELS = {"*": {"window": 4600}}
SETTINGS: dict[str, Any] = {"policy__options": NEVER}
TRIES = 400
SECRET = b"replicas" * 4
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class Provider:
    """Answers strictly, and remembers what each agent's newest request was."""

    def __init__(self) -> None:
        self.newest: dict[str, bytes] = {}

    def __call__(self, request: Request) -> Action:
        body = request.body
        place = body.find(b"agent-")  # in the name of its model, so that its bills are its own
        self.newest[body[place : place + 9].decode()] = body
        return strict(request)


@dataclass(slots=True)
class Agent:
    """Keeps its whole list; each turn goes to any of the replicas, and again to another where one failed."""

    name: str
    seed: int
    messages: list[dict[str, Any]] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=list)
    shaky: set[int] = field(default_factory=set)  # turns that began or ended while the database was away
    conversation: str = ""
    retries: int = 0

    def __post_init__(self) -> None:
        self.messages = [builders.system(), builders.user(f"{self.name}: watch the gauges, never touch the sluice.")]

    def turn(self, number: int, urls: Sequence[str], http: httpx.Client, provider: Provider) -> None:
        dice = random.Random(f"{self.seed} {number}")
        step = builders.step(number, builders.long_text(self.seed * 1000 + number, 2000))
        self.messages += [builders.user(builders.long_text(self.seed * 1000 + 500 + number, 1200)), *step]
        for _ in range(TRIES):
            url = dice.choice(urls)
            body = builders.body_bytes(builders.request(self.messages, model=f"m-{self.name}", tools=[builders.tool()]))
            head = {"content-type": "application/json", "authorization": "Bearer sk-one"}
            try:
                reply = http.post(f"{url}/v1/chat/completions", content=body, headers=head, timeout=30)
            except httpx.HTTPError:  # a replica was killed: what a load balancer's client does
                self.retries += 1
                time.sleep(0.05)
                continue
            assert reply.status_code == 200, reply.text
            break
        else:
            raise AssertionError("no replica answered")
        self.conversation = reply.headers.get("x-undercliff-conversation", self.conversation)
        self.messages.append(reply.json()["choices"][0]["message"])
        self.sent.append(provider.newest[self.name])


@dataclass(slots=True)
class Run:
    """What came out."""

    agents: list[Agent]
    seconds: float
    cpu_s: float
    outage_s: float = 0.0

    @property
    def turns(self) -> int:
        return sum(len(agent.sent) for agent in self.agents)


def drive(
    agents: int, turns: int, urls: Sequence[str], provider: Provider, away: threading.Event, beat: Any = None
) -> list[Agent]:
    """All agents at once, each its turns in order."""
    made = [Agent(f"agent-{number:03}", number) for number in range(agents)]

    def work(agent: Agent) -> None:
        with httpx.Client(trust_env=False) as http:
            for number in range(turns):
                was_away = away.is_set()
                agent.turn(number, urls, http, provider)
                if was_away or away.is_set():
                    agent.shaky.add(number)
                if beat is not None:
                    beat()

    with ThreadPoolExecutor(agents) as pool:
        list(pool.map(work, made))
    return made


@contextmanager
def replicas(count: int, upstream: str, url: str, folder: Path) -> Iterator[list[ServedProcess]]:
    with ExitStack() as opened:
        made = []
        for number in range(count):
            own = folder / f"replica-{number}"
            own.mkdir(parents=True, exist_ok=True)
            made.append(
                opened.enter_context(
                    served_process(
                        upstream,
                        own,
                        models=MODELS,
                        store__url=url,
                        store__secret_file=str(folder / "shared.secret"),
                        store__spool=str(folder / "spool"),
                        **SETTINGS,
                    )
                )
            )
        yield made


class Events:
    """Counts turns; at a third of them a replica is killed and started again, at two thirds the database."""

    def __init__(self, total: int, proxies: Sequence[ServedProcess], server: PostgresServer, away_s: float) -> None:
        self._lock = threading.Lock()
        self._done = 0
        self._total = total
        self._proxies = proxies
        self._server = server
        self._away_s = away_s
        self.away = threading.Event()
        self.outage_s = 0.0
        self.kills = 0
        self.threads: list[threading.Thread] = []

    def __call__(self) -> None:
        with self._lock:
            self._done += 1
            if self._done in (self._total // 4, self._total // 2):
                self._start(self._kill)
            if self._done == self._total * 2 // 3:
                self._start(self._restart)

    def _start(self, work: Any) -> None:
        self.threads.append(threading.Thread(target=work))
        self.threads[-1].start()

    def _kill(self) -> None:
        self.kills += 1
        self._proxies[self.kills % len(self._proxies)].restart()

    def _restart(self) -> None:
        self.away.set()
        started = time.monotonic()
        self._server.stop()
        time.sleep(self._away_s)
        self._server.start()
        self.outage_s = time.monotonic() - started
        for proxy in self._proxies:
            wait_drained(proxy)
        self.away.clear()

    def join(self) -> None:
        for thread in self.threads:
            thread.join()


def wait_drained(proxy: ServedProcess, timeout_s: float = 150) -> None:
    """Until it says that all it kept aside is where it belongs."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        try:
            if httpx.get(f"{proxy.url}/ctx/health", timeout=5).json().get("store") == "ok":
                return
        except (httpx.HTTPError, ValueError):
            pass
        time.sleep(0.1)
    raise AssertionError("still not drained")


def cpu_of(proxies: Sequence[ServedProcess]) -> float:
    total = 0.0
    for proxy in proxies:
        assert proxy.process is not None
        fields = Path(f"/proc/{proxy.process.pid}/stat").read_text().rpartition(") ")[2].split()
        total += (int(fields[11]) + int(fields[12])) * TICK_S
    return total


def single(agents: int, turns: int, folder: Path, up: ScriptedUpstream, provider: Provider) -> Run:
    """One process on a file: what it sends is what the others must."""
    (folder / "single").mkdir()
    keep_secret(folder / "single" / "undercliff.secret", SECRET)  # ids are made with it: the same on both sides
    with served_process(up.base_url, folder / "single", models=MODELS, **SETTINGS) as proxy:
        started, before = time.monotonic(), cpu_of([proxy])
        made = drive(agents, turns, [proxy.url], provider, threading.Event())
        return Run(made, time.monotonic() - started, cpu_of([proxy]) - before)


def shared(
    agents: int, turns: int, count: int, folder: Path, away_s: float, server: PostgresServer, up: ScriptedUpstream,
    provider: Provider,
) -> Run:  # fmt: skip
    """Several on one database, with kills. Checks what was acknowledged before it returns."""
    keep_secret(folder / "shared.secret", SECRET)
    server.execute("CREATE DATABASE replicas")
    url = server.url("replicas")
    with replicas(count, up.base_url, url, folder) as proxies:
        events = Events(agents * turns, proxies, server, away_s)
        started, before = time.monotonic(), cpu_of(proxies)
        made = drive(agents, turns, [proxy.url for proxy in proxies], provider, events.away, events)
        seconds = time.monotonic() - started
        events.join()
        cpu_s = cpu_of(proxies) - before  # of those that live; a killed one's is lost
        for proxy in proxies:
            wait_drained(proxy)
        check_kept(made, url)
    return Run(made, seconds, cpu_s, events.outage_s)


def check_kept(agents: Sequence[Agent], url: str) -> None:
    """Every message that a client sent or got is in the store, and every chain holds."""
    records = Records(url)
    for agent in agents:
        kept = set(records.texts(agent.conversation))
        told = [message["content"] for message in agent.messages if message.get("content")]
        lost = [text for text in told if not any(text in one for one in kept)]
        assert not lost, (
            f"{agent.name}: {len(lost)} of {len(told)} acknowledged messages are missing: {lost[:2]!r:.200}"
        )
    with Archive(url) as archive:
        found = verify_store(archive, secret=None)
    assert found.holds, found.problems[:5]


def compare(one: Run, many: Run) -> tuple[int, int]:
    """(turns that went out as from one process, turns that the outage touched, which may have gone out whole)."""
    same = apart = 0
    for ours, theirs in zip(one.agents, many.agents, strict=True):
        for number, (expected, got) in enumerate(zip(ours.sent, theirs.sent, strict=True)):
            if expected == got:
                same += 1
            elif number >= min(theirs.shaky, default=1 << 30):
                apart += 1  # what was served in full then is part of what follows
            else:
                raise AssertionError(
                    f"{theirs.name}, turn {number}: {len(got)} bytes, from one process {len(expected)}"
                )
    return same, apart


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=8)
    parser.add_argument("--turns", type=int, default=24)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--away", type=float, default=3.0, help="seconds that the database is down")
    asked = parser.parse_args()
    provider = Provider()
    with tempfile.TemporaryDirectory() as folder, own_server() as server, ScriptedUpstream(provider) as up:
        one = single(asked.agents, asked.turns, Path(folder), up, provider)
        many = shared(
            asked.agents, asked.turns, asked.replicas, Path(folder), asked.away, server, up, provider
        )  # fmt: skip
    same, apart = compare(one, many)
    folded = sum(FOLDED in body for agent in many.agents for body in agent.sent)
    retries = sum(agent.retries for agent in many.agents)
    print(f"{many.turns} turns of {asked.agents} agents on {asked.replicas} replicas, {folded} with folded lists")
    print(f"killed twice, the database away for {many.outage_s:.1f} s; {retries} requests were sent again by clients")
    print(
        f"{same} lists as from one process, {apart} of turns at or after the outage otherwise; 0 acknowledged rows lost"
    )
    print(f"one process, file: {one.turns / one.seconds:.1f} turns/s, {1000 * one.cpu_s / one.turns:.1f} ms CPU a turn")
    print(f"replicas: {many.turns / many.seconds:.1f} turns/s (kills and outage included)")


if __name__ == "__main__":
    main()
