"""OpenTelemetry spans with the GenAI conventions, one a call, made from its rows when it has ended (extra `otel`).

Ids, names and counts only: nothing of what was said. Where spans go is set by the SDK's own OTEL_* variables.
"""

from __future__ import annotations

import importlib
from collections import OrderedDict
from datetime import datetime
from typing import Any

from proxy.core.records import Batch, ExchangeRow, OutcomeRow
from proxy.errors import ConfigError

_RUNNING = 10_000
_HINT = "pip install 'undercliff[otel]'"


class Spans:
    """Remembers what began, and tells of it when it ends. Raises `ConfigError` without the extra."""

    def __init__(self, tracer: Any = None) -> None:
        self._running: OrderedDict[str, ExchangeRow] = OrderedDict()
        self._saved: OrderedDict[str, int] = OrderedDict()
        self._tracer = tracer or _tracer()
        self._kinds: Any = _module("opentelemetry.trace")

    def observe(self, batch: Batch) -> None:
        for exchange in batch.exchanges:
            self._running[exchange.id] = exchange
            if len(self._running) > _RUNNING:
                self._running.popitem(last=False)
        for window in batch.windows:
            self._saved[window.exchange] = window.tokens_in - window.tokens_out
            if len(self._saved) > _RUNNING:
                self._saved.popitem(last=False)
        for outcome in batch.outcomes:
            exchange_row = self._running.pop(outcome.exchange, None)
            if exchange_row is not None:
                self._end(exchange_row, outcome)

    def _end(self, exchange: ExchangeRow, outcome: OutcomeRow) -> None:
        start = _nanoseconds(exchange.created_at)
        span = self._tracer.start_span(
            f"chat {exchange.model}".strip(), kind=self._kinds.SpanKind.CLIENT, start_time=start,
            attributes=self._attributes(exchange, outcome),
        )  # fmt: skip
        if outcome.outcome not in ("ok", "incomplete", "cancelled"):
            span.set_status(self._kinds.StatusCode.ERROR, outcome.outcome)
        span.end(start + int(outcome.duration_ms * 1e6))

    def _attributes(self, exchange: ExchangeRow, outcome: OutcomeRow) -> dict[str, Any]:
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": exchange.model,
            "gen_ai.request.stream": exchange.is_stream,
            "gen_ai.conversation.id": exchange.conversation,
            "gen_ai.usage.input_tokens": outcome.input,
            "gen_ai.usage.cache_read.input_tokens": outcome.cached,
            "gen_ai.usage.cache_creation.input_tokens": outcome.written,
            "gen_ai.usage.output_tokens": outcome.output,
            "http.response.status_code": outcome.status,
            "undercliff.exchange": exchange.id,
            "undercliff.tenant": exchange.tenant,
            "undercliff.verdict": exchange.verdict,
            "undercliff.saved_tokens": self._saved.pop(exchange.id, 0),
            "undercliff.cache_breaks": outcome.breaks,
            "undercliff.first_byte_ms": outcome.first_byte_ms,
        }
        if outcome.finish:
            attributes["gen_ai.response.finish_reasons"] = [outcome.finish]
        if outcome.cost is not None:
            attributes["undercliff.cost_dollars"] = outcome.cost
        if outcome.outcome not in ("ok", "incomplete"):
            attributes["error.type"] = outcome.outcome
        return attributes


def _nanoseconds(stamp: str) -> int:
    return int(datetime.fromisoformat(stamp).timestamp() * 1e6) * 1000


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError("log.otel needs the OpenTelemetry SDK", hint=_HINT) from error


def _tracer() -> Any:
    """The SDK's tracer, sending in batches from a thread of its own."""
    sdk, export = _module("opentelemetry.sdk.trace"), _module("opentelemetry.sdk.trace.export")
    otlp = _module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    resources = _module("opentelemetry.sdk.resources")
    provider = sdk.TracerProvider(resource=resources.Resource.create({"service.name": "undercliff"}))
    provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter()))
    return provider.get_tracer("undercliff")
