from __future__ import annotations

import json

import pytest

from proxy.demo.agent import Agent
from proxy.demo.provider import Provider
from proxy.demo.serving import serving
from proxy.demo.session import Session, Shape, Turn, make_session


@pytest.mark.parametrize("streams", [True, False])
def test_agent_runs_a_session_to_its_end(streams: bool) -> None:
    session = make_session(5, Shape(turns=(3, 2), parallel_every=2))
    provider = Provider(session.script())
    with serving(provider) as base:
        agent = Agent(f"{base}/v1", "k", session, streams=streams)
        reports = list(agent.run())
        agent.close()
    assert not any(report.error for report in reports)
    assert len(reports) == len(provider.served) == sum(len(turn.steps) + 1 for turn in session.turns)
    assert not any(served.is_break for served in provider.served)
    assert json.loads(provider.served[-1].body)["messages"] == [json.loads(raw) for raw in agent.messages[:-1]]
    assert all(report.usage for report in reports)


def test_agent_stops_at_a_refusal() -> None:
    session = make_session(5, Shape(turns=(9,), parallel_every=0))
    provider = Provider(session.script(), window=9_000)
    with serving(provider) as base:
        agent = Agent(f"{base}/v1", "k", session)
        reports = list(agent.run())
        agent.close()
    assert reports[-1].status == 400 and "context_length_exceeded" in reports[-1].error
    assert not any(report.error for report in reports[:-1])


def test_a_session_without_tools_sends_none() -> None:
    session = Session("", "", (Turn("hello", (), ""),), ())
    provider = Provider(session.script())
    with serving(provider) as base:
        agent = Agent(f"{base}/v1", "k", session, max_tokens=5)
        (report,) = agent.run()
        agent.close()
    body = json.loads(provider.served[0].body)
    assert "tools" not in body and body["max_tokens"] == 5 and len(body["messages"]) == 1
    assert not report.error


def test_a_server_that_is_gone_is_an_error_not_a_crash() -> None:
    session = make_session(5)
    with serving(Provider(session.script())) as base:
        pass
    agent = Agent(f"{base}/v1", "k", session)
    (report,) = agent.run()
    agent.close()
    assert report.status == 0 and "ConnectError" in report.error
