"""Counts what goes to the store as it passes: plain additions on the request path, all else when someone asks."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from proxy.core.records import Batch, OutcomeRow

TEAM = "team:"
"""How the tenant of a team begins."""
MOST_RUNNING = 100_000
LARGE_TOKENS = 20_000
"""A request of so many tokens could have been made smaller."""
LARGE_REQUESTS = 30
"""So many large ones without any effect are worth a warning."""
_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

log = structlog.get_logger()


class Meter:
    """Sums since the start. `observe` is called for every batch that is handed to the store."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.dollars: Counter[str] = Counter()
        self.breaks = 0
        self.folds = 0
        self.bypassed = 0
        self.large_without_effect = 0
        self.warning = ""
        self._first_byte = _Seconds()
        self._duration = _Seconds()
        self.teams: Counter[tuple[str, str]] = Counter()  # (team, figure)
        self._running: OrderedDict[str, str] = OrderedDict()  # exchange: team

    def observe(self, batch: Batch) -> None:
        for exchange in batch.exchanges:
            self.bypassed += exchange.verdict == "bypass"
            if exchange.tenant.startswith(TEAM):
                self._running[exchange.id] = exchange.tenant.removeprefix(TEAM)
                while len(self._running) > MOST_RUNNING:
                    self._running.popitem(last=False)
        for window in batch.windows:
            saved = window.tokens_in - window.tokens_out
            self.tokens["saved"] += saved
            if saved > 0:
                self.large_without_effect, self.warning = 0, ""
            elif window.tokens_in >= LARGE_TOKENS:
                self._large_one_passed()
        self.folds += len(batch.folds)
        for outcome in batch.outcomes:
            self._ended(outcome)

    def _large_one_passed(self) -> None:
        self.large_without_effect += 1
        if self.large_without_effect == LARGE_REQUESTS:
            self.warning = (
                f"the last {LARGE_REQUESTS} requests over {LARGE_TOKENS:,} tokens were sent without any reduction:"
                " see whether the policy, the thresholds or the price data fit this model"
            )
            log.warning("nothing_reduced", requests=LARGE_REQUESTS, least_tokens=LARGE_TOKENS)

    def _ended(self, outcome: OutcomeRow) -> None:
        if team := self._running.pop(outcome.exchange, ""):
            self.teams[team, "requests"] += 1
            for kind in ("input", "cached", "output"):
                self.teams[team, kind] += getattr(outcome, kind)
            self.teams[team, "billed"] += outcome.cost or 0  # type: ignore[assignment]
            self.teams[team, "direct"] += outcome.cost_direct or 0  # type: ignore[assignment]
        self.outcomes[outcome.outcome] += 1
        for kind in ("input", "cached", "written", "output", "reasoning"):
            self.tokens[kind] += getattr(outcome, kind)
        self.dollars["billed"] += outcome.cost or 0  # type: ignore[assignment]
        self.dollars["direct"] += outcome.cost_direct or 0  # type: ignore[assignment]
        self.breaks += outcome.breaks
        self._first_byte.add(outcome.first_byte_ms / 1000)
        self._duration.add(outcome.duration_ms / 1000)

    def exposition(self, *, is_degraded: bool = False) -> bytes:
        """Everything in Prometheus' text format."""
        registry = CollectorRegistry()
        registry.register(_Exposed(self, is_degraded))
        return generate_latest(registry)

    def families(self, is_degraded: bool) -> Iterator[Metric]:
        yield _by_label("undercliff_exchanges", "Exchanges by how they ended", "outcome", self.outcomes)
        yield _by_label("undercliff_tokens", "Tokens billed by kind, and estimated as saved", "kind", self.tokens)
        yield _by_label("undercliff_cost_dollars", "Billed, and what a direct run would cost", "kind", self.dollars)
        yield from self._of_teams()
        for name, text, value in (
            ("undercliff_cache_breaks", "Prefix breaks that the proxy made", self.breaks),
            ("undercliff_folds", "Compactions", self.folds),
            ("undercliff_bypassed", "Requests that were passed as they came", self.bypassed),
        ):
            yield CounterMetricFamily(name, text, value=value)
        yield GaugeMetricFamily("undercliff_store_degraded", "1 while writing fails", value=is_degraded)
        yield GaugeMetricFamily(
            "undercliff_large_requests_unreduced", "Large requests in a row without effect", self.large_without_effect
        )
        yield self._first_byte.family("undercliff_first_byte_seconds", "Until the first byte reached the client")
        yield self._duration.family("undercliff_exchange_seconds", "Whole exchanges")

    def _of_teams(self) -> Iterator[Metric]:
        """By team: teams are named in the configuration, so there are never more labels than that."""
        requests = CounterMetricFamily("undercliff_team_requests", "Requests by team", labels=["team"])
        tokens = CounterMetricFamily("undercliff_team_tokens", "Tokens billed by team", labels=["team", "kind"])
        dollars = CounterMetricFamily(
            "undercliff_team_cost_dollars", "Billed, and what a direct run would cost, by team", labels=["team", "kind"]
        )
        for (team, figure), value in sorted(self.teams.items()):
            if figure == "requests":
                requests.add_metric([team], value)
            else:
                (dollars if figure in ("billed", "direct") else tokens).add_metric([team, figure], max(value, 0))
        yield from (requests, tokens, dollars)


class _Exposed(Collector):
    def __init__(self, meter: Meter, is_degraded: bool) -> None:
        self._meter, self._is_degraded = meter, is_degraded

    def collect(self) -> Iterator[Metric]:
        return self._meter.families(self._is_degraded)


class _Seconds:
    """A histogram."""

    def __init__(self) -> None:
        self._counts = [0] * (len(_SECONDS) + 1)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        self._counts[next((i for i, bound in enumerate(_SECONDS) if seconds <= bound), len(_SECONDS))] += 1
        self._sum += seconds

    def family(self, name: str, text: str) -> Metric:
        total, buckets = 0, []
        for bound, count in zip((*map(str, _SECONDS), "+Inf"), self._counts, strict=True):
            total += count
            buckets.append((bound, total))
        return HistogramMetricFamily(name, text, buckets=buckets, sum_value=self._sum)


def _by_label(name: str, text: str, label: str, values: Counter[str]) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label])
    for key in sorted(values):
        family.add_metric([key], max(values[key], 0))
    return family
