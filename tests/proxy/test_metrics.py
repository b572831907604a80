"""Sums, their exposition, spans and the warning when nothing is ever reduced."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from proxy.core.records import Batch
from proxy.errors import ConfigError
from proxy.metrics import LARGE_REQUESTS, Meter
from proxy.spans import Spans
from tests.proxy.store.rows import make_exchange, make_fold, make_outcome, make_window


def window(tokens_in: int, tokens_out: int) -> Batch:
    return Batch(windows=(replace(make_window("w", "e", []), tokens_in=tokens_in, tokens_out=tokens_out),))


def test_sums_and_their_exposition() -> None:
    meter = Meter()
    meter.observe(Batch(exchanges=(make_exchange("e"),), folds=(make_fold("C1", ["1"]),)))
    meter.observe(window(100, 40))
    meter.observe(Batch(outcomes=(make_outcome("e", input=7, cost=0.5, breaks=2, duration_ms=700.0),)))
    text = meter.exposition(is_degraded=True).decode()
    for line in (
        'undercliff_exchanges_total{outcome="ok"} 1.0',
        'undercliff_tokens_total{kind="input"} 7.0',
        'undercliff_tokens_total{kind="saved"} 60.0',
        'undercliff_cost_dollars_total{kind="billed"} 0.5',
        "undercliff_cache_breaks_total 2.0",
        "undercliff_folds_total 1.0",
        "undercliff_store_degraded 1.0",
        'undercliff_exchange_seconds_bucket{le="0.5"} 0.0',
        'undercliff_exchange_seconds_bucket{le="1.0"} 1.0',
        "undercliff_exchange_seconds_sum 0.7",
    ):
        assert line in text, line
    assert not {"sk-", "Bearer"} & set(text.split())


def test_many_large_requests_without_any_effect_are_told_of_once() -> None:
    meter = Meter()
    for _ in range(LARGE_REQUESTS - 1):
        meter.observe(window(50_000, 50_000))
        meter.observe(window(100, 100))  # a small one counts neither way
    assert not meter.warning
    meter.observe(window(50_000, 50_000))
    assert "without any reduction" in meter.warning
    meter.observe(window(50_000, 20_000))
    assert not meter.warning and meter.large_without_effect == 0


def test_a_span_for_each_call_with_the_genai_conventions() -> None:
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    kept = memory.InMemorySpanExporter()
    provider = trace.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(kept))
    spans = Spans(provider.get_tracer("test"))
    spans.observe(Batch(exchanges=(make_exchange("e1"), make_exchange("e2"))))
    spans.observe(window(100, 40))
    spans.observe(Batch(outcomes=(
        make_outcome("e1", input=7, output=3, cached=2, duration_ms=250.0, finish="stop", cost=0.25),
        replace(make_outcome("e2"), outcome="error", status=500), make_outcome("never begun"))))  # fmt: skip
    one, two = kept.get_finished_spans()
    assert one.name == "chat gpt-x" and one.end_time - one.start_time == 250_000_000
    found: dict[str, Any] = dict(one.attributes)
    assert found["gen_ai.operation.name"] == "chat" and found["gen_ai.request.model"] == "gpt-x"
    assert found["gen_ai.usage.input_tokens"] == 7 and found["gen_ai.usage.output_tokens"] == 3
    assert found["gen_ai.usage.cache_read.input_tokens"] == 2 and found["gen_ai.conversation.id"] == "c"
    assert found["gen_ai.response.finish_reasons"] == ("stop",)
    assert two.attributes["error.type"] == "error" and two.status.is_ok is False
    provider.shutdown()


def test_spans_need_their_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ConfigError, match="OpenTelemetry"):
        Spans()
