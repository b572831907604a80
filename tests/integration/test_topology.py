"""deploy/'s front servers, settings and two replicas on PostgreSQL, as processes: a small run of the bench."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench import topology
from tests.bench.replicas import Provider
from tests.support.upstream import ScriptedUpstream


@pytest.fixture(scope="module", params=topology.FRONTS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[topology.Topology]:
    if topology.find(request.param) is None:
        pytest.skip(f"{request.param} is not installed here: .ci/machine does")
    folder: Path = tmp_path_factory.mktemp(request.param)
    provider = Provider()
    with ScriptedUpstream(provider) as up, topology.running(request.param, folder, provider, up) as running:
        yield running


def test_streams_are_not_buffered(made: topology.Topology) -> None:
    assert topology.check_stream(made) == topology.PIECES


def test_a_large_body_passes(made: topology.Topology) -> None:
    assert topology.check_large(made) > 20_000_000


def test_what_the_front_server_says_ends_at_the_replica(made: topology.Topology) -> None:
    topology.check_front_headers(made)


def test_turns_on_any_replica_go_out_as_from_one(made: topology.Topology, tmp_path: Path) -> None:
    same, run = topology.check_turns(made, agents=2, turns=9, folder=tmp_path)
    assert same == run.turns == 18


def test_a_replica_that_stops_ends_its_streams_whole(made: topology.Topology) -> None:
    topology.check_stop(made)


def test_a_replica_that_dies_is_passed_over(made: topology.Topology) -> None:
    topology.check_kill(made)
