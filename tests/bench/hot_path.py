"""CPU of the proxy process per request and per streamed chunk, beside a plain pass-through with the same engine.

Run it with `python -m tests.bench.hot_path [--json]`. Both run as processes of their own over
loopback, turn by turn in one run; CPU is read from /proc. Bodies: a small one; 201 messages of
440 KB, the same each time; and the same list growing by one exchange a request.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from tests.support.serve import free_port, served_process, wait_ready

CHUNKS = 500
PAUSE_S = 0.001
TICK_US = 1_000_000 / os.sysconf("SC_CLK_TCK")
USAGE = {"prompt_tokens": 100, "completion_tokens": 2, "total_tokens": 102}
BASE = {"id": "chatcmpl-1", "created": 1, "model": "m"}


@dataclass(frozen=True, slots=True)
class Figure:
    """Microseconds of CPU a unit (a request, or a chunk), one value a round; the medians make the ratio."""

    case: str
    plain: tuple[float, ...]
    undercliff: tuple[float, ...]

    @property
    def ratio(self) -> float:
        return statistics.median(self.undercliff) / statistics.median(self.plain)


# -- the provider ------------------------------------------------------------------------------------


def _reply(message: dict[str, Any], finish: str = "stop", tokens: int = 100) -> bytes:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    usage = {"prompt_tokens": tokens, "completion_tokens": 2, "total_tokens": tokens + 2}
    body = json.dumps({**BASE, "object": "chat.completion", "choices": [choice], "usage": usage}).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _event(choices: list[dict[str, Any]], **more: object) -> bytes:
    data = (
        b"data: %s\n\n" % json.dumps({**BASE, "object": "chat.completion.chunk", "choices": choices, **more}).encode()
    )
    return b"%x\r\n%s\r\n" % (len(data), data)


def _whole(path: bytes, body: bytes) -> bytes:
    """A reply that is not streamed. `/billed` counts tokens, `/expand` asks for what the window left out first."""
    if path.startswith(b"/billed"):
        return _reply(ANSWER, tokens=len(body) // 4)
    if path.startswith(b"/expand") and (left_out := LEFT_OUT.findall(body)):
        messages = json.loads(body)["messages"]
        if messages[-1]["role"] != "tool":
            arguments = json.dumps({"id": left_out[-1].decode()})
            call = {"name": "ctx_expand", "arguments": arguments}
            calls = [{"id": f"call_expand{len(messages)}", "type": "function", "function": call}]
            return _reply({"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls")
    return REPLY


ANSWER = {"role": "assistant", "content": "ok then"}
LEFT_OUT = re.compile(rb"\bid ([a-z2-7]{12})")
REPLY = _reply(ANSWER)
WANTS_STREAM = re.compile(rb'"stream"\s*:\s*true')
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
WORDS = [_event([{"index": 0, "delta": {"content": f"word{n} "}, "finish_reason": None}]) for n in range(10)]
STREAM_END = (
    _event([{"index": 0, "delta": {}, "finish_reason": "stop"}]) + _event([], usage=USAGE)
    + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
)  # fmt: skip


async def _read_body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    if b"transfer-encoding: chunked" in head:
        parts: list[bytes] = []
        while size := int(await reader.readline(), 16):
            parts.append(await reader.readexactly(size))
            await reader.readline()
        await reader.readline()
        return b"".join(parts)
    length = next((line for line in head.split(b"\r\n") if line.startswith(b"content-length:")), b":0")
    return await reader.readexactly(int(length.split(b":")[1]))


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            body = await _read_body(reader, head.lower())
            if not WANTS_STREAM.search(body[:300] + b" " + body[-300:]):  # peers write the field where they like
                writer.write(_whole(head.split(b" ", 2)[1], body))
                continue
            writer.write(STREAM_HEAD)
            for number in range(CHUNKS):  # a peer breaks off where one chunk comes again and again
                writer.write(WORDS[number % 10])
                await asyncio.sleep(PAUSE_S)
            writer.write(STREAM_END)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


@contextmanager
def provider() -> Iterator[str]:
    """The cheapest provider there is, in a thread; yields its base URL."""
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(_answer, "127.0.0.1", 0, limit=1 << 20))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


# -- the client --------------------------------------------------------------------------------------


async def send(port: int, bodies: Iterator[bytes], requests: int) -> None:
    """So many requests over one connection, one after the other."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    for _ in range(requests):
        body = next(bodies)
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-abc\r\n"
            b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
        )
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in head, head
        if b"chunked" in head.lower():
            await reader.readuntil(b"0\r\n\r\n")
            continue
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.split(b":")[1]))
    writer.close()
    await writer.wait_closed()


def _message(index: int, text: str) -> dict[str, str]:
    return {"role": "user" if index % 2 == 0 else "assistant", "content": f"message number {index} {text}"}


def _body(messages: list[dict[str, str]], **more: object) -> bytes:
    return json.dumps({"model": "gpt-5.4", "messages": messages, **more}).encode()


def large_list() -> list[dict[str, str]]:
    """201 messages, 440 KB."""
    system = {"role": "system", "content": "You are a careful assistant."}
    return [system, *(_message(i, "lorem ipsum dolor " * 119) for i in range(199)), _message(200, "go on")]


def same(messages: list[dict[str, str]], **more: object) -> Iterator[bytes]:
    body = _body(messages, **more)
    while True:
        yield body


def openings() -> Iterator[bytes]:
    """Small bodies, each the first of a conversation of its own."""
    for number in count():
        yield _body([{"role": "user", "content": f"hi there, this is question {number}"}])


def growing() -> Iterator[bytes]:
    """The large list, one exchange longer with every request; the reply is the provider's."""
    messages = large_list()
    for number in count():
        yield _body(messages)
        messages.append({"role": "assistant", "content": "ok then"})
        messages.append({"role": "user", "content": f"go on with step {number} of the plan"})


def growing_from(size: int) -> Iterator[bytes]:
    """A list of `size` messages of 700 bytes, one exchange longer with every request."""
    messages = [{"role": "system", "content": f"You are a careful assistant with {size} messages."}]
    messages += [_message(i, "lorem ipsum dolor " * 38) for i in range(size - 1 - size % 2)]
    for number in count():
        yield _body(messages)
        messages.append({"role": "assistant", "content": "ok then"})
        messages.append({"role": "user", "content": f"go on with step {number} of the plan"})


def talks() -> Iterator[bytes]:
    """Lists of 201 messages and 440 KB, each of a conversation of its own: no message is in two of them."""
    for number in count():
        system, *rest = large_list()
        yield _body([system, *({**said, "content": f"case {number}: {said['content']}"} for said in rest)])


# -- measuring ---------------------------------------------------------------------------------------


def cpu_us(pid: int) -> float:
    """User and system time that a process has used, all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_US


@contextmanager
def plain_process(upstream_url: str) -> Iterator[tuple[int, int]]:
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "tests.bench.plain", upstream_url, str(port)])
    try:
        wait_ready(f"http://127.0.0.1:{port}")
        yield port, process.pid
    finally:
        process.kill()
        process.wait()


def measure(rounds: int, requests: int) -> list[Figure]:
    cases: dict[str, tuple[Any, int, int]] = {
        "small, new talk": (openings, 4 * requests, 1),
        "440 KB, same": (lambda: same(large_list()), requests, 1),
        "440 KB, growing": (growing, requests, 1),
        "stream, per chunk": (
            lambda: same([{"role": "user", "content": "stream please"}], stream=True),
            max(2, requests // 25),
            CHUNKS,
        ),
    }
    for size, share in ((10, 1), (100, 2), (1_000, 5), (10_000, 25)):
        cases[f"growing, {size:,} messages"] = (partial(growing_from, size), max(3, requests // share), 1)
    figures = []
    with provider() as url, plain_process(url) as plain, served_process(f"{url}/v1") as served:
        assert served.process is not None
        targets = {"plain": plain, "undercliff": (served.port, served.process.pid)}
        for case, (make, number, units) in cases.items():
            bodies = {name: make() for name in targets}
            used: dict[str, list[float]] = {name: [] for name in targets}
            for name, (port, _) in targets.items():
                asyncio.run(send(port, bodies[name], 3))
            for _ in range(rounds):
                for name, (port, pid) in targets.items():
                    before = cpu_us(pid)
                    asyncio.run(send(port, bodies[name], number))
                    used[name].append((cpu_us(pid) - before) / (number * units))
            figures.append(Figure(case, tuple(used["plain"]), tuple(used["undercliff"])))
    return figures


def rss_kb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))


def memory_per_talk(conversations: int) -> float:
    """KB of resident memory that one more live conversation of 440 KB takes, after some for the warm-up."""
    with provider() as url, served_process(f"{url}/v1") as served:
        assert served.process is not None
        bodies = talks()
        asyncio.run(send(served.port, bodies, 5))
        before = rss_kb(served.process.pid)
        asyncio.run(send(served.port, bodies, conversations))
        return (rss_kb(served.process.pid) - before) / conversations


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=100, help="large requests a round")
    parser.add_argument("--conversations", type=int, default=40, help="live conversations to measure memory with")
    arguments = parser.parse_args()
    figures = measure(arguments.rounds, arguments.requests)
    kilobytes = memory_per_talk(arguments.conversations)
    if arguments.json:
        told = [{**asdict(figure), "ratio": figure.ratio} for figure in figures]
        print(json.dumps({"cpu": told, "kb_per_conversation": kilobytes}, indent=2))
        return
    print(f"{'CPU in µs':26}{'plain (spread)':>26}{'undercliff (spread)':>26}{'ratio':>8}")
    for f in figures:
        cells = [f"{statistics.median(v):,.0f} ({min(v):,.0f}-{max(v):,.0f})" for v in (f.plain, f.undercliff)]
        print(f"{f.case:26}{cells[0]:>26}{cells[1]:>26}{f.ratio:>8.2f}")
    print(f"memory per live conversation of 440 KB: {kilobytes:,.0f} KB")


if __name__ == "__main__":
    main()
