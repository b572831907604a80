"""Live tasks against a model behind a socket: it does what it can, and what it did is judged and billed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from proxy.config import LogConfig
from proxy.core.pricing import ModelFacts, Rates
from proxy.demo.provider import Answer, Provider, ScriptedCall
from proxy.demo.serving import serving
from proxy.errors import UndercliffError
from proxy.evaluation.live.playing import LiveTask
from proxy.evaluation.live.purse import CostReachedError, Purse
from proxy.evaluation.results import TaskResult
from proxy.evaluation.task import budget
from proxy.logs import configure_logging
from tests.proxy.evaluation.live.models import Model, endpoint, story

FACTS = ModelFacts(window=128_000, rates=Rates(1.0, 0.1, 1.0, 4.0))


@pytest.fixture(autouse=True)
def loud() -> Iterator[None]:
    yield
    configure_logging(LogConfig())


def played(policy: str, size: str, provider: Provider, purse: Purse | None = None) -> TaskResult:
    with serving(provider) as url:
        return LiveTask(story(), endpoint(url), purse or Purse(FACTS)).run(policy, budget(size))


def test_with_all_in_sight_it_passes_and_only_the_checked_parts_are_asked_for() -> None:
    provider = Provider(Model(story()))
    purse = Purse(FACTS)
    result = played("passthrough", "full", provider, purse)
    assert result.passed and result.passed_expanded and not result.missing and not result.error
    assert (result.task, result.source) == (f"{story().name}#1", "live")
    checked = sum(move.is_checked for move in story().moves)
    assert checked <= len(provider.served) < len(result.calls) / 2
    assert {served.model for served in provider.served} == {"small-model"}
    billed = [(served.usage.input, served.usage.output) for served in provider.served]
    assert [(call.input, call.output) for call in result.calls if (call.input, call.output) in billed] == billed
    assert purse.spent > 0


def test_what_is_out_of_sight_is_fetched_or_missed() -> None:
    blind = played("last_n", "quarter", Provider(Model(story())))
    assert not blind.passed_expanded and blind.missing and blind.expansions == 0
    assert {one.check for one in blind.missing} <= {check.name for check in blind.checks if not check.passed}
    seeing = played("sticky", "quarter", Provider(Model(story())))
    assert seeing.expansions > 0 and seeing.expansion_tokens > 0 and seeing.over_budget == seeing.invalid_windows == 0
    assert sum(check.passed_expanded for check in seeing.checks) > sum(check.passed_expanded for check in blind.checks)


def test_a_model_that_sees_all_and_does_nothing_fails() -> None:
    result = played("passthrough", "full", Provider(lambda _: Answer("I would rather not.")))
    assert not result.passed_expanded and not result.missing
    assert {check.why for check in result.checks} == {"done otherwise"}


def test_a_model_that_never_ends_is_ended() -> None:
    lost = Provider(lambda m: Answer("", (ScriptedCall(f"c{len(m)}", "wander", "{}"),)))
    result = played("passthrough", "full", lost)
    assert not result.passed_expanded and not result.error and len(result.calls) < 100


def test_the_limit_stops_it_before_the_call() -> None:
    provider, purse = Provider(Model(story())), Purse(FACTS, limit=0.02)
    with pytest.raises(CostReachedError, match="could cost"):
        played("passthrough", "full", provider, purse)
    assert purse.spent <= 0.02


def test_a_provider_that_refuses_is_no_failure_of_the_model() -> None:
    purse = Purse(FACTS)
    with serving(Provider(Model(story()))) as url, pytest.raises(UndercliffError, match="refused small-model: 404"):
        LiveTask(story(), endpoint(f"{url}/nowhere#"), purse).run("passthrough", budget("full"))
    assert purse.spent == 0


def test_the_digest_says_what_was_asked_not_by_whom() -> None:
    first = LiveTask(story(), endpoint("http://a"), Purse(FACTS))
    assert first.digest != LiveTask(story(), endpoint("http://a"), Purse(FACTS), repeat=2).digest
    assert first.digest == LiveTask(story(), endpoint("http://a"), Purse(FACTS, 3.0)).digest
    assert "secret" not in repr(first)


def test_an_agent_that_cannot_wait_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.evaluation.live.playing.PATIENCE_S", 0.0)
    with pytest.raises(UndercliffError, match="broke off: ReadTimeout"):
        LiveTask(story(), endpoint("http://a", timeout_s=0.001), Purse(FACTS)).run("passthrough", budget("full"))
