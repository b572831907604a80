"""A PostgreSQL server of our own: one for a whole run of the tests, or one that a test may stop and break.

Run as a module, it keeps the shared server for as long as one of the processes lives that have put their number
into its folder: so no process of a run must be the last, and a killed run leaves nothing behind.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.serve import ROOT, free_port

_SETTINGS = (
    *("fsync=off", "full_page_writes=off", "shared_buffers=64MB", "max_connections=200", "listen_addresses=127.0.0.1"),
    *("logging_collector=off", "log_min_messages=fatal", "max_wal_size=256MB", "timezone=UTC"),
)
_START_S = 60.0
_names = count(1)
_keepers: list[subprocess.Popen[bytes]] = []  # they outlive us


def binaries() -> Path | None:
    """Where the newest server of Debian's packages, or the one on the path, is."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


def as_user() -> dict[str, Any]:
    """As whom the server runs: it refuses root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    return {}


@dataclass(slots=True)
class PostgresServer:
    """A private cluster on a free port. `options` are further settings, such as `max_connections=5`."""

    folder: Path
    options: tuple[str, ...] = ()
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    _as: dict[str, Any] = field(default_factory=as_user)

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://undercliff@127.0.0.1:{self.port}/{database}"

    def start(self) -> PostgresServer:
        found = binaries()
        assert found is not None, "there is no PostgreSQL server here"
        data = self.folder / "data"
        if not data.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            if self._as:
                os.chown(self.folder, self._as["user"], self._as["group"])
            command = [str(found / "initdb"), "-D", str(data), "-A", "trust", "-U", "undercliff", "--no-sync"]
            made = subprocess.run(
                [*command, "-E", "UTF8", "--locale=C.UTF-8"], capture_output=True, cwd=self.folder, **self._as
            )
            if made.returncode:
                raise RuntimeError(f"initdb: {made.stderr.decode(errors='replace')[-2000:]}")
        self.port = self.port or free_port()
        settings = [*_SETTINGS, f"unix_socket_directories={self.folder}", *self.options]
        options = [word for setting in settings for word in ("-c", setting)]
        with (self.folder / "log.txt").open("ab") as log:
            self.process = subprocess.Popen(
                [str(found / "postgres"), "-D", str(data), "-p", str(self.port), *options],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder, start_new_session=True, **self._as,
            )  # fmt: skip
        self._wait()
        return self

    def stop(self, *, now: bool = True) -> None:
        """Stop it: at once, as in a crash of the machine's service, or when all have left."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGQUIT if now else signal.SIGINT)
            self.process.wait(30)
        self.process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Every process of it stands still: connections are open, and nothing answers."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGSTOP)
        for pid in self.backends():
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in [*self.backends(), self.process.pid]:
                os.kill(pid, signal.SIGCONT)

    def backends(self) -> list[int]:
        """Its children: each leads a process group of its own."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in children.split()]

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _wait(self) -> None:
        end = time.monotonic() + _START_S
        while True:
            try:
                psycopg.connect(self.url(), connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                assert self.process is not None
                if self.process.poll() is not None or time.monotonic() > end:
                    log = (self.folder / "log.txt").read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"PostgreSQL did not start: {log}") from None
                time.sleep(0.05)


def need_postgres() -> None:
    """Skip the test where no server can be had."""
    if binaries() is None:
        pytest.skip("no PostgreSQL server here: install Debian's package postgresql (.ci/machine does)")


@contextmanager
def own_server(*options: str) -> Iterator[PostgresServer]:
    """A server of the test's own, which it may stop, freeze and fill."""
    need_postgres()
    server = PostgresServer(Path(tempfile.mkdtemp(prefix="undercliff-pg-")) / "own", options)
    server.folder.parent.chmod(0o755)
    try:
        try:
            server.start()
        except (RuntimeError, OSError) as error:
            pytest.skip(f"no PostgreSQL server can be started here: {error}")
        yield server
    finally:
        server.stop()
        shutil.rmtree(server.folder.parent, ignore_errors=True)


# -- the shared one ------------------------------------------------------------------------------
@cache
def shared_server() -> PostgresServer:
    """The server of this run, whichever process started it."""
    need_postgres()
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(os.getpid())
    folder = Path(tempfile.gettempdir()) / f"undercliff-pg-{os.geteuid()}-{run[:12]}"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)  # the server may run as another user
    (folder / f"user-{os.getpid()}").touch()
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = folder / "port"
        if not said.exists():
            with (folder / "keeper.txt").open("ab") as log:
                keeper = subprocess.Popen(
                    [sys.executable, "-m", "tests.support.postgres", str(folder)],
                    stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=ROOT, start_new_session=True,
                )  # fmt: skip
            _keepers.append(keeper)
            end = time.monotonic() + 2 * _START_S
            while not said.exists():
                if keeper.poll() is not None or time.monotonic() > end:
                    log = folder / "keeper.txt"  # the keeper takes its folder with it
                    told = log.read_text(errors="replace")[-2000:] if log.exists() else "it ended"
                    pytest.skip(f"no PostgreSQL server can be started here: {told}")
                time.sleep(0.05)
    return PostgresServer(folder / "server", port=int(said.read_text()))


def new_database() -> str:
    """The URL of a new database on the shared server, with nothing in it."""
    server = shared_server()
    name = f"t{os.getpid()}_{next(_names)}"
    server.execute(f"CREATE DATABASE {name}")
    return server.url(name)


def drop_database(url: str) -> None:
    shared_server().execute(f"DROP DATABASE IF EXISTS {url.rpartition('/')[2]} WITH (FORCE)")


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _keep(folder: Path) -> None:
    server = PostgresServer(folder / "server")
    try:
        server.start()
        draft = folder / "port.new"
        draft.write_text(str(server.port))
        draft.replace(folder / "port")
        while any(_is_alive(int(path.name.partition("-")[2])) for path in folder.glob("user-*")):
            time.sleep(0.5)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _keep(Path(sys.argv[1]))
