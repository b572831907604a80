"""Runs an ASGI app on a free loopback port in a thread, for as long as a `with` block lasts."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import uvicorn

START_TIMEOUT_S = 20.0


class _Server(uvicorn.Server):
    """Tells when it has started, so that nobody has to poll."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_ready = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        finally:
            self.is_ready.set()


def _run(server: _Server, sock: socket.socket) -> None:
    with suppress(SystemExit):  # how a start that fails ends; the waiting side says so
        server.run(sockets=[sock])


@contextmanager
def serving(app: Any, **options: Any) -> Iterator[str]:
    """The app's URL, without a trailing slash."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    settings = {"log_level": "error", "access_log": False, "timeout_graceful_shutdown": 3, "lifespan": "auto"}
    server = _Server(uvicorn.Config(app, **{**settings, **options}))
    thread = threading.Thread(target=_run, args=(server, sock), daemon=True, name="serving")
    thread.start()
    try:
        if not server.is_ready.wait(START_TIMEOUT_S) or not server.started:
            raise RuntimeError("a server of the demo did not start")
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(START_TIMEOUT_S)
        sock.close()
