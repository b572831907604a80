"""Every provider's way to report usage, read into one. Missing is not zero; nothing here ever fails."""

from __future__ import annotations

from typing import Any

from proxy.core.usage import UsageReport, merge


def read_usage(document: dict[str, Any]) -> UsageReport | None:
    """All that a chunk or a whole reply reports, wherever it stands; later places win per field."""
    report = _read_timings(document.get("timings"))
    choices = document.get("choices")
    if isinstance(choices, list):
        for choice in choices:
            if isinstance(choice, dict) and "usage" in choice:
                report = merge(report, _read_object(choice["usage"]))
    groq = document.get("x_groq")
    if isinstance(groq, dict):
        report = merge(report, _read_object(groq.get("usage")))
    response = document.get("response")
    if isinstance(response, dict):
        report = merge(report, _read_object(response.get("usage")))
    return merge(report, _read_object(document.get("usage")))


def _read_object(usage: Any) -> UsageReport | None:
    if not isinstance(usage, dict):
        return None
    prompt = _details(usage, "prompt_tokens_details", "input_tokens_details")
    completion = _details(usage, "completion_tokens_details", "output_tokens_details")
    given = _first(usage, "prompt_tokens", "input_tokens")
    output = _first(usage, "completion_tokens", "output_tokens")
    cached = _or(
        _first(prompt, "cached_tokens"),
        _first(usage, "prompt_cache_hit_tokens", "cache_read_input_tokens", "cached_tokens", "num_cached_tokens"),
    )
    written = _or(
        _first(prompt, "cache_write_tokens", "cache_creation_input_tokens", "created_cache_tokens"),
        _or(_first(usage, "cache_creation_input_tokens"), _sum_creation(prompt, usage)),
    )
    if given is None:
        given = _sum(usage, "prompt_cache_hit_tokens", "prompt_cache_miss_tokens")
    reasoning = _or(_first(completion, "reasoning_tokens"), _first(usage, "reasoning_tokens"))
    given = _inclusive_input(usage, given, output)
    report = UsageReport(
        input=given,
        output=_whole_output(usage, given, output),
        cached=cached,
        written=written,
        reasoning=reasoning,
        cost=_cost(usage.get("cost")),
    )
    return None if report == UsageReport() else report


def _inclusive_input(usage: dict[str, Any], given: int | None, output: int | None) -> int | None:
    """The total input. Anthropic's own figures leave cached reads and writes out of `input_tokens`."""
    if given is None or "prompt_tokens" in usage or "input_tokens_details" in usage:
        return given
    apart = (_count(usage.get("cache_read_input_tokens")) or 0) + (
        _count(usage.get("cache_creation_input_tokens")) or 0
    )
    is_inclusive = _count(usage.get("total_tokens")) == given + (output or 0)
    return given if is_inclusive else given + apart


def _whole_output(usage: dict[str, Any], given: int | None, output: int | None) -> int | None:
    """Some providers leave reasoning out of the completion and only count it in the total."""
    whole = _count(usage.get("total_tokens"))
    if whole is None or given is None or output is None:
        return output
    return max(output, whole - given)


def _read_timings(timings: Any) -> UsageReport | None:
    """llama.cpp: `prompt_n` is what was processed, `cache_n` what came from the cache."""
    if not isinstance(timings, dict):
        return None
    processed, cached = _count(timings.get("prompt_n")), _count(timings.get("cache_n"))
    if processed is None:
        return None
    return UsageReport(input=processed + (cached or 0), output=_count(timings.get("predicted_n")), cached=cached)


def _details(usage: dict[str, Any], *names: str) -> dict[str, Any]:
    for name in names:
        value = usage.get(name)
        if isinstance(value, dict):
            return value
    return {}


def _sum_creation(*places: dict[str, Any]) -> int | None:
    """Cache writes given per lifetime only: `cache_creation{ephemeral_5m_input_tokens, ...}`."""
    for place in places:
        creation = place.get("cache_creation")
        if isinstance(creation, dict):
            counts = [count for value in creation.values() if (count := _count(value)) is not None]
            if counts:
                return sum(counts)
    return None


def _sum(usage: dict[str, Any], *names: str) -> int | None:
    counts = [_count(usage.get(name)) for name in names]
    return None if None in counts else sum(count for count in counts if count is not None)


def _first(place: dict[str, Any], *names: str) -> int | None:
    for name in names:
        count = _count(place.get(name))
        if count is not None:
            return count
    return None


def _or(first: int | None, second: int | None) -> int | None:
    return second if first is None else first


def _count(value: Any) -> int | None:
    """A token count; anything else, negative or not finite included, is no report."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if 0 <= value < 2**53 else None


def _cost(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value < 1e9 else None
