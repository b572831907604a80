"""Two replicas on PostgreSQL with turns spread over them; one killed, the database restarted: small, of the bench."""

from __future__ import annotations

import threading
from pathlib import Path

import httpx
import pytest

from tests.bench import replicas
from tests.support.postgres import own_server
from tests.support.session import FOLDED
from tests.support.upstream import ScriptedUpstream


@pytest.mark.slow
def test_lists_equal_a_single_process_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    """STOR-11 and STOR-09 over PostgreSQL: kills of a replica, then the database away for a while."""
    provider = replicas.Provider()
    with own_server() as server, ScriptedUpstream(provider) as up:
        one = replicas.single(3, 14, tmp_path, up, provider)
        many = replicas.shared(3, 14, 2, tmp_path, 0.5, server, up, provider)
    same, apart = replicas.compare(one, many)
    assert same + apart == 42 and same >= 20
    assert any(FOLDED in body for agent in many.agents for body in agent.sent)
    assert many.outage_s > 0


def test_while_the_database_is_away_requests_are_served_and_their_rows_come_later(tmp_path: Path) -> None:
    """STOR-06 over PostgreSQL, with the proxy killed before the database is back: its spool is on disk."""
    provider = replicas.Provider()
    with own_server() as server, ScriptedUpstream(provider) as up:
        with replicas.replicas(1, up.base_url, server.url(), tmp_path) as (proxy,):
            agents = replicas.drive(2, 3, [proxy.url], provider, threading.Event())
            server.stop()
            with httpx.Client(trust_env=False) as http:
                for agent in agents:
                    for number in range(3, 6):
                        agent.turn(number, [proxy.url], http, provider)
                assert http.get(f"{proxy.url}/ctx/health").json()["store"] == "degraded"
                proxy.restart()
                for agent in agents:
                    agent.turn(6, [proxy.url], http, provider)
                server.start()
                replicas.wait_drained(proxy)
                for agent in agents:
                    agent.turn(7, [proxy.url], http, provider)
        replicas.check_kept(agents, server.url())
        assert [agent.retries for agent in agents] == [0, 0]
