"""A scripted provider on a real socket: speaks HTTP/1.1 by hand, so that a test decides every byte and every close.

It records what arrived, answers by script, and tells when a client went away. It knows no JSON shape of its own
(see `replies`), and never guesses: a request without a scripted answer gets 599.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Self

from tests.support.signals import Counter, Gate

MAX_HEAD = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One request as it arrived. `target` is the raw path with its raw query; header names keep their case."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    connection: int
    at: float
    raw_head: bytes = b""
    is_chunked: bool = False

    def header(self, name: str) -> str | None:
        return next(iter(self.header_list(name)), None)

    def header_list(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]


# -- steps of an answer ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Exactly these bytes in one write, then wait until the kernel took them."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


@dataclass(frozen=True, slots=True)
class Fin:
    """Close in the clean way, whatever the framing promised."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Close with RST (SO_LINGER 0)."""


@dataclass(frozen=True, slots=True)
class Hang:
    """Say nothing more until the client closes."""


Step = Send | Pause | Gate | Fin | Reset | Hang


@dataclass(frozen=True, slots=True)
class Action:
    """Steps to play in order. The connection is kept for the next request unless a step or `is_last` closes it."""

    steps: tuple[Step, ...]
    is_last: bool = False


Handler = Callable[[Request], "Action | Awaitable[Action]"]


@dataclass(slots=True, eq=False)
class Connection:
    """What is known of one accepted connection."""

    number: int
    opened_at: float
    requests: int = 0
    is_closed_by_client: bool = False
    closed_at: float | None = None


class _GoneError(Exception):
    """The client closed, or this side did."""


class _Peer(asyncio.Protocol):
    """The bytes of one connection. Sees a client's close at once, even while an answer is being written."""

    def __init__(self, server: ScriptedUpstream) -> None:
        self._server = server
        self.buffer = bytearray()
        self._wake = asyncio.Event()
        self.gone = asyncio.Event()
        self._can_write = asyncio.Event()
        self._can_write.set()
        self.is_ours = False
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.record = Connection(len(self._server.connections) + 1, time.monotonic())
        self._server.connections.append(self.record)
        self._server.opened.add()
        self._server._spawn(self._server._talk(self))

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        self._wake.set()

    def eof_received(self) -> bool:
        self._note_gone()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._note_gone()

    def _note_gone(self) -> None:
        if not self.gone.is_set():
            self.record.closed_at = time.monotonic()
            self.gone.set()
            self._wake.set()
            self._can_write.set()
            if not self.is_ours:
                self.record.is_closed_by_client = True
                self._server.closed.add()

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    async def more(self) -> None:
        self._wake.clear()
        if self.gone.is_set():
            raise _GoneError
        await self._wake.wait()

    async def until(self, mark: bytes) -> bytes:
        while mark not in self.buffer:
            if len(self.buffer) > MAX_HEAD:
                raise _GoneError
            await self.more()
        end = self.buffer.index(mark) + len(mark)
        return self.take(end)

    async def exactly(self, size: int) -> bytes:
        while len(self.buffer) < size:
            await self.more()
        return self.take(size)

    def take(self, size: int) -> bytes:
        data = bytes(self.buffer[:size])
        del self.buffer[:size]
        return data

    async def send(self, data: bytes) -> None:
        if self.gone.is_set():
            raise _GoneError
        self.transport.write(data)
        await self._can_write.wait()
        await asyncio.sleep(0)  # lets the client's close in between two writes
        if self.gone.is_set():
            raise _GoneError

    def close(self, *, reset: bool = False) -> None:
        self.is_ours = True
        if reset:
            sock = self.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()
        else:
            self.transport.close()


NO_ANSWER = Action((Send(b"HTTP/1.1 599 No Scripted Answer\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"),), True)


@dataclass(eq=False)
class ScriptedUpstream:
    """`async with ScriptedUpstream(handler) as up:` or, for sync clients, `with ScriptedUpstream(handler) as up:`
    (in a thread). Queued answers go first, then `handler`.

    `idle_close_s` closes a kept connection that long after its last answer, as real providers do.
    `head_hook` may answer before the body is read.
    """

    handler: Handler | None = None
    idle_close_s: float | None = None
    head_hook: Callable[[Request], Action | None] | None = None
    port: int = 0
    requests: list[Request] = field(default_factory=list)
    connections: list[Connection] = field(default_factory=list)
    faults: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.received, self.closed, self.opened, self.answered = Counter(), Counter(), Counter(), Counter()
        self._queue: deque[Action] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread: threading.Thread | None = None
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    # -- script ----------------------------------------------------------------------------------
    def enqueue(self, *actions: Action) -> None:
        """Answers for the next requests, first in first out, before `handler` is asked."""
        self._queue.extend(actions)

    def forget_script(self) -> None:
        """Drop the answers that no request has fetched."""
        self._queue.clear()
        self.handler = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    @property
    def bodies_read(self) -> int:
        """How many request bodies were read to their end."""
        return self.received.value

    async def wait_requests(self, count: int, timeout_s: float = 10) -> None:
        await self.received.wait(count, timeout_s)

    async def wait_closed(self, count: int = 1, timeout_s: float = 10) -> None:
        """Until `count` connections in all were closed from the other side."""
        await self.closed.wait(count, timeout_s)

    # -- life --------------------------------------------------------------------------------------
    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._server = await self._loop.create_server(lambda: _Peer(self), "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()
        if self.faults and not exc[0]:
            raise self.faults[0]

    async def aclose(self) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def start_in_thread(self) -> Self:
        ready = threading.Event()

        async def main() -> None:
            self._stop = asyncio.Event()
            await self.__aenter__()
            ready.set()
            await self._stop.wait()
            await self.aclose()  # faults are raised where the test is, in `__exit__`

        self._thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True, name="scripted-upstream")
        self._thread.start()
        if not ready.wait(10):
            raise TimeoutError("the scripted upstream did not start")
        return self

    def stop(self) -> None:
        assert self._thread and self._loop and self._stop
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def __enter__(self) -> Self:
        return self.start_in_thread()

    def __exit__(self, *exc: object) -> None:
        self.stop()
        if self.faults and not exc[0]:
            raise self.faults[0]

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- one connection -----------------------------------------------------------------------------
    async def _talk(self, peer: _Peer) -> None:
        try:
            while await self._one(peer):
                pass
        except _GoneError:
            pass
        except (OSError, AssertionError, ValueError, LookupError, TypeError, AttributeError) as exc:
            self.faults.append(exc)  # a broken handler must fail the test, not hang it
        finally:
            peer.close()

    async def _one(self, peer: _Peer) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.idle_close_s if peer.record.requests else None):
                while not peer.buffer:
                    await peer.more()
        if not peer.buffer:
            return False
        head = await peer.until(b"\r\n\r\n")
        request = _parse_head(head, peer.record.number)
        early = self.head_hook(request) if self.head_hook else None
        if early is not None:
            self.requests.append(request)
            return await self._play(peer, early)
        if (request.header("expect") or "").lower() == "100-continue":
            await peer.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        request = await _read_body(peer, request)
        peer.record.requests += 1
        self.requests.append(request)
        self.received.add()
        action = await self._answer(request)
        keeps = await self._play(peer, action)
        self.answered.add()
        return keeps and (request.header("connection") or "").lower() != "close"

    async def _answer(self, request: Request) -> Action:
        if self._queue:
            return self._queue.popleft()
        if self.handler is None:
            return NO_ANSWER
        action = self.handler(request)
        return await action if inspect.isawaitable(action) else action

    async def _play(self, peer: _Peer, action: Action) -> bool:
        for step in action.steps:
            match step:
                case Send(data):
                    await peer.send(data)
                case Pause(seconds):
                    await _first(peer.gone.wait(), asyncio.sleep(seconds))
                case Gate():
                    await _first(peer.gone.wait(), step.wait())
                case Hang():
                    await peer.gone.wait()
                case Fin():
                    return False
                case Reset():
                    peer.close(reset=True)
                    return False
            if peer.gone.is_set():
                raise _GoneError
        return not action.is_last


async def _first(*works: Any) -> None:
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _parse_head(head: bytes, connection: int) -> Request:
    first, *lines = head[:-4].decode("latin-1").split("\r\n")
    method, target, _version = first.split(" ", 2)
    headers = []
    for line in lines:
        name, _, value = line.partition(":")
        headers.append((name, value.strip()))
    return Request(method, target, tuple(headers), b"", connection, time.monotonic(), head)


async def _read_body(peer: _Peer, head: Request) -> Request:
    body, is_chunked = b"", "chunked" in (head.header("transfer-encoding") or "").lower()
    if is_chunked:
        parts: list[bytes] = []
        while size := int((await peer.until(b"\r\n")).split(b";")[0], 16):
            parts.append((await peer.exactly(size + 2))[:-2])
        while (await peer.until(b"\r\n")) != b"\r\n":
            pass  # trailers
        body = b"".join(parts)
    elif length := head.header("content-length"):
        body = await peer.exactly(int(length))
    return Request(
        head.method, head.target, head.headers, body, head.connection, time.monotonic(), head.raw_head, is_chunked
    )


def flatten(parts: Iterable[Step | bytes | float]) -> tuple[Step, ...]:
    """Plain bytes are sends and plain numbers are pauses."""
    steps: list[Step] = []
    for part in parts:
        if isinstance(part, bytes):
            steps.append(Send(part))
        elif isinstance(part, int | float):
            steps.append(Pause(float(part)))
        else:
            steps.append(part)
    return tuple(steps)
