"""kill -9 at random moments under load: is anything missing that a client was told?

Run it with `python -m tests.bench.kill_rounds`.

Clients go on with their conversations over every kill. What a client saw the end of must be in the
store: the message it sent and the reply it got; and the database must be intact.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sqlite3
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx

from proxy.store.open import open_store
from tests.support import replies
from tests.support.serve import ServedProcess
from tests.support.upstream import Action, Request, ScriptedUpstream


def answer(request: Request) -> Action:
    """Echo the newest marker, as a stream for every second one."""
    body = request.json()
    marker = body["messages"][-1]["content"].split()[0]
    text = f"reply-to-{marker} " + "word " * 40
    if body.get("stream"):
        return replies.chat_stream(text, prompt=len(request.body) // 4)
    return replies.json_reply(replies.completion(text, prompt=len(request.body) // 4))


class Client(threading.Thread):
    """One agent that keeps its whole list and goes on until it is told to stop."""

    def __init__(self, name: str, url: str) -> None:
        super().__init__(daemon=True)
        self.agent = name
        self.url = url
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": f"You are agent {name}."}]
        self.acknowledged: list[str] = []
        self.count = 0
        self.stopping = threading.Event()

    def run(self) -> None:
        with httpx.Client(trust_env=False, timeout=5) as http:
            while not self.stopping.is_set():
                self.count += 1
                marker = f"{self.agent}-{self.count}"
                message = {"role": "user", "content": f"{marker} please " + "and then " * 30}
                try:
                    text = self.ask(http, [*self.messages, message])
                except httpx.HTTPError:
                    time.sleep(0.02)
                    continue
                if text.startswith(f"reply-to-{marker} "):
                    self.acknowledged.append(marker)
                    self.messages += [message, {"role": "assistant", "content": text}]
                    del self.messages[41:]

    def ask(self, http: httpx.Client, messages: list[dict[str, Any]]) -> str:
        is_stream = self.count % 2 == 0
        body = {"model": "scripted-1", "messages": messages, "stream": is_stream}
        reply = http.post(self.url, json=body, headers={"authorization": "Bearer sk-kill-test"})
        if reply.status_code != 200:
            return ""
        if not is_stream:
            return str(reply.json()["choices"][0]["message"]["content"])
        if not reply.text.rstrip().endswith("[DONE]"):
            return ""
        events = [line[6:] for line in reply.text.splitlines() if line.startswith("data: {")]
        deltas = [choice["delta"].get("content", "") for e in events for choice in json.loads(e)["choices"]]
        return "".join(deltas)


async def stored_markers(db: Path) -> tuple[set[str], set[str]]:
    """Markers of stored user messages and of stored replies."""
    store = open_store(str(db))
    await store.open()
    sent, answered = set(), set()
    for conversation in await store.conversations(limit=100_000):
        async for item in await store.transcript(conversation.id):
            message = json.loads(item.data)
            word = str(message["content"]).split()[0]
            if message["role"] == "user":
                sent.add(word)
            elif message["role"] == "assistant":
                answered.add(word.removeprefix("reply-to-"))
    await store.aclose()
    return sent, answered


def run(rounds: int, clients: int, seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    with ScriptedUpstream(answer) as upstream, tempfile.TemporaryDirectory() as folder:
        server = ServedProcess(f"{upstream.url}/v1", Path(folder), {}, {}).start()
        agents = [Client(f"a{i}", f"{server.base_url}/chat/completions") for i in range(clients)]
        for agent in agents:
            agent.start()
        for number in range(rounds):
            time.sleep(chance.uniform(0.02, 0.8))
            server.restart() if number + 1 < rounds else server.kill()
        for agent in agents:
            agent.stopping.set()
        for agent in agents:
            agent.join(10)
        check = sqlite3.connect(server.db).execute("PRAGMA integrity_check").fetchone()[0]
        sent, answered = asyncio.run(stored_markers(server.db))
    told = {marker for agent in agents for marker in agent.acknowledged}
    return {
        "kills": rounds,
        "acknowledged": len(told),
        "missing_messages": len(told - sent),
        "missing_replies": len(told - answered),
        "integrity": check,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    print(json.dumps(run(given.rounds, given.clients, given.seed)))


if __name__ == "__main__":
    main()
