"""HTTP/1.1 by hand, for what a client library would hide: exact bytes out, exact bytes in."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. Header names in lower case, in order, repeats and all; `body` without its framing."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    raw: bytes

    def header(self, name: str) -> str | None:
        return next(iter(self.all(name)), None)

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True)
class Link:
    """A connection. Reading stops at the other side's close."""

    sock: socket.socket
    buffer: bytes = b""

    def send(self, data: bytes) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # refused before it was all sent: the answer counts
            self.sock.sendall(data)

    def more(self) -> bool:
        try:
            data = self.sock.recv(1 << 16)
        except ConnectionResetError:
            return False
        self.buffer += data
        return bool(data)

    def read_until(self, mark: bytes) -> bytes:
        while mark not in self.buffer:
            if not self.more():
                raise EOFError(f"closed before {mark!r}: {self.buffer[-200:]!r}")
        return self.take(self.buffer.index(mark) + len(mark))

    def read_exactly(self, size: int) -> bytes:
        while len(self.buffer) < size:
            if not self.more():
                raise EOFError(f"closed {size - len(self.buffer)} bytes early")
        return self.take(size)

    def read_all(self) -> bytes:
        while self.more():
            pass
        return self.take(len(self.buffer))

    def take(self, size: int) -> bytes:
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def reply(self, *, has_body: bool = True) -> Reply:
        """The next answer; `has_body` is False for an answer to HEAD."""
        head = self.read_until(b"\r\n\r\n")
        status, *lines = head[:-4].decode("latin-1").split("\r\n")
        headers = tuple((name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines))
        body, framing = b"", dict(headers)
        code = int(status.split(" ")[1])
        if not has_body or code in (204, 304):
            pass
        elif "transfer-encoding" in framing:
            while size := int(self.read_until(b"\r\n"), 16):
                body += self.read_exactly(size + 2)[:-2]
            self.read_until(b"\r\n")
        elif "content-length" in framing:
            body = self.read_exactly(int(framing["content-length"]))
        else:
            body = self.read_all()
        return Reply(code, headers, body, head)


@contextmanager
def talk(port: int, *, host: str = "127.0.0.1", timeout_s: float = 10) -> Iterator[Link]:
    with socket.create_connection((host, port), timeout=timeout_s) as sock:
        yield Link(sock)


def exchange(port: int, data: bytes, *, until_closed: bool = False, has_body: bool = True) -> Reply:
    """Send the bytes, read one answer; with `until_closed` nothing may follow it but the close."""
    with talk(port) as link:
        link.send(data)
        reply = link.reply(has_body=has_body)
        if until_closed:
            assert link.read_all() == b""
        return reply
