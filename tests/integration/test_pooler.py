"""Replicas behind PgBouncer, which gives each transaction whichever connection is free."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import httpx
import psycopg
import pytest

from proxy.store.secret import keep_secret
from tests.bench.replicas import SECRET, Provider, check_kept, compare, drive, replicas, single
from tests.bench.replicas import Run as Played
from tests.support.postgres import as_user, drop_database, need_postgres, new_database
from tests.support.records import eventually
from tests.support.serve import free_port
from tests.support.upstream import ScriptedUpstream


@pytest.fixture
def pooled() -> Iterator[tuple[str, str]]:
    """A database's own URL, and its URL at a PgBouncer with two connections for everybody."""
    command = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if command is None:
        pytest.skip("pgbouncer is not installed here: .ci/machine does")
    need_postgres()
    url = new_database()
    host, _, name = url.rpartition("/")
    port, folder = free_port(), Path(mkdtemp(prefix="undercliff-pooler-"))
    (folder / "users.txt").write_text('"undercliff" ""\n')
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\n{name} = host=127.0.0.1 port={host.rpartition(':')[2]} dbname={name}\n"
        f"[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port={port}\nauth_type=trust\nauth_file={folder}/users.txt\n"
        "pool_mode=transaction\ndefault_pool_size=2\nmax_client_conn=200\nunix_socket_dir=\n"
    )
    for path in (folder, *folder.iterdir()):
        path.chmod(0o755)
    process = subprocess.Popen([command, "-q", folder / "pgbouncer.ini"], stderr=subprocess.DEVNULL, **as_user())
    through = f"postgresql://undercliff@127.0.0.1:{port}/{name}?prepare=no"
    try:
        eventually(lambda: answers(through.partition("?")[0]), 20)
        yield url, through
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)
        drop_database(url)


def answers(url: str) -> bool:
    try:
        with psycopg.connect(url, connect_timeout=2) as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)
    except psycopg.OperationalError:
        return False


def test_replicas_behind_a_pooler_of_transactions(pooled: tuple[str, str], tmp_path: Path) -> None:
    url, through = pooled
    provider = Provider()
    with ScriptedUpstream(provider) as up:
        one = single(2, 10, tmp_path, up, provider)
        keep_secret(tmp_path / "shared.secret", SECRET)
        with replicas(2, up.base_url, through, tmp_path) as proxies:
            made = drive(2, 10, [proxy.url for proxy in proxies], provider, threading.Event())
            for proxy in proxies:
                assert httpx.get(f"{proxy.url}/ctx/health").json()["store"] == "ok"
                assert "degraded" not in proxy.log
        check_kept(made, url)
    same, apart = compare(one, Played(made, 0.0, 0.0))
    assert (same, apart) == (20, 0)
