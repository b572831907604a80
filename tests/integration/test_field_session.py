"""The tool-heavy session of the bench, as a gate: cheaper than direct, never invalid, past a limit nobody told us."""

from __future__ import annotations

import pytest

from proxy.demo.session import make_session
from tests.bench.field_session import NEVER_MASKS, ArmResult, field_shape, run_arm

SESSION = make_session(7, field_shape())
CALLS = 41


@pytest.fixture(scope="module")
def direct() -> ArmResult:
    return run_arm("direct", SESSION)


def test_the_direct_run_is_what_it_is_said_to_be(direct: ArmResult) -> None:
    assert (direct.calls, direct.errors, direct.breaks, direct.errors_visible) == (CALLS, 0, 0, 8)
    assert 0.94 < direct.cache_hit < 0.96 and direct.peak > 75_000


@pytest.mark.parametrize("streams", [False, True])
def test_the_default_is_cheaper_and_never_wrong(direct: ArmResult, streams: bool) -> None:
    result = run_arm("sticky", SESSION, streams=streams, policy="sticky")
    assert (result.calls, result.errors, result.refused_upstream) == (CALLS, 0, 0)
    assert result.bill["0.1"] <= 0.58 * direct.bill["0.1"]
    assert result.bill["0.5"] < 0.4 * direct.bill["0.5"]
    assert result.breaks <= 4
    assert result.errors_visible == direct.errors_visible, "MASK-06: a reduced log keeps its error line"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_goal_is_no_matter_of_one_seed(seed: int) -> None:
    session = make_session(seed, field_shape())
    plain, result = run_arm("direct", session), run_arm("sticky", session, policy="sticky")
    assert (result.calls, result.errors, result.refused_upstream) == (CALLS, 0, 0)
    assert result.bill["0.1"] <= 0.58 * plain.bill["0.1"]
    assert result.breaks <= 4 and result.errors_visible == plain.errors_visible


def test_the_default_stays_below_a_limit_that_nobody_told_us() -> None:
    result = run_arm("sticky", SESSION, window=45_000, policy="sticky")
    assert (result.calls, result.errors, result.refused_upstream, result.invalid_lists) == (CALLS, 0, 0, 0)


def test_passthrough_changes_nothing(direct: ArmResult) -> None:
    result = run_arm("passthrough", SESSION, policy="passthrough")
    assert (result.upstream_bytes, result.bill) == (direct.upstream_bytes, direct.bill)


@pytest.mark.parametrize("streams", [False, True])
def test_a_limit_that_nobody_told_us_is_met_once_and_survived(streams: bool) -> None:
    result = run_arm("met", SESSION, streams=streams, window=45_000, policy="sticky", policy__options=NEVER_MASKS)
    assert (result.calls, result.errors, result.invalid_lists) == (CALLS, 0, 0)
    assert result.refused_upstream == 1
    assert result.peak <= 45_000


def test_without_a_window_of_ours_the_limit_ends_the_session() -> None:
    assert run_arm("direct", SESSION, window=45_000).errors == 1
    assert run_arm("off", SESSION, window=45_000, policy="passthrough").errors == 1


def test_what_the_baseline_left_out_stays_known_as_seen() -> None:
    """Else it would come back as new, in full, and could never be left out again."""
    result = run_arm("last_n", SESSION, window=45_000, policy="last_n")
    assert (result.calls, result.errors, result.refused_upstream) == (CALLS, 0, 1)


@pytest.mark.parametrize("seed", [7, 1])
@pytest.mark.parametrize("policy", ["sticky", "last_n"])
def test_the_same_session_in_responses_form_costs_the_same(seed: int, policy: str) -> None:
    session = make_session(seed, field_shape())
    chat, other = (run_arm(policy, session, policy=policy, wire=wire) for wire in ("chat", "responses"))
    print(policy, seed, chat.breaks, other.breaks, [round(other.bill[s] / chat.bill[s], 4) for s in chat.bill])
    assert (other.calls, other.errors, other.refused_upstream) == (CALLS, 0, 0)
    assert all(0.98 <= other.bill[share] / chat.bill[share] <= 1.02 for share in chat.bill)
    assert abs(other.breaks - chat.breaks) <= 0.02 * chat.breaks
    assert other.errors_visible == chat.errors_visible
