"""Tells a provider's "too long for the model" from every other refusal, and reads its figures.

Pure: works on decoded values, so it never sees JSON text of its own; a caller that can decode
passes `loads` for the JSON that gateways wrap into strings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from proxy.core.model import Usage
from proxy.core.overflow_figures import MAX_LIMIT, MIN_LIMIT, Figures, clean, read
from proxy.core.overflow_rules import DEFAULT, Patterns, Rules

Loads = Callable[[str], object]

MAX_DEPTH = 10
MAX_TEXTS = 64
MAX_TEXT_CHARS = 2_000
MAX_ALL_CHARS = 6_000  # a refusal is short, and the patterns run on the event loop

_ECHOES = frozenset(
    {
        "input",
        "messages",
        "prompt",
        "instructions",
        "output",
        "choices",
        "content",
        "request",
        "tools",
        "usage",
        "headers",
    }
)
"""Keys under which a refusal repeats the request: their text is the user's, not the provider's."""
_SILENT_KEYS = frozenset(
    {
        "param",
        "loc",
        "url",
        "request_id",
        "requestid",
        "id",
        "model",
        "user",
        "provider_name",
        "documentation_url",
        "instance",
    }
)
_CODE_KEYS = frozenset(
    {"code", "type", "status", "status_code", "statuscode", "error_code", "errorcode", "error_type", "reason",
     "err_code", "sub_code", "error", "name", "title", "ecode", "errcode", "error_name"}
)  # fmt: skip
_STATUS_KEYS = frozenset(
    {"code", "status", "status_code", "statuscode", "error_code", "http_status", "raw_status_code"}
)
_LIMIT_KEYS = (
    "n_ctx", "context_length", "max_context_length", "context_window", "max_model_len", "max_input_tokens",
    "max_prompt_tokens", "token_limit", "max_context_tokens", "max_tokens_allowed", "limit",
)  # fmt: skip
_REQUESTED_KEYS = (
    "n_prompt_tokens", "requested_tokens", "prompt_tokens", "input_tokens", "token_count", "num_tokens",
    "actual_tokens", "requested",
)  # fmt: skip
_IDENTIFIER = re.compile(r"[A-Za-z][\w.\- ]{2,79}")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Overflow:
    """A refusal for length. `cause` is "output" when the input alone would have fitted."""

    limit: int | None = None
    requested: int | None = None
    input: int | None = None
    output: int | None = None
    cause: Literal["input", "output"] = "input"

    @property
    def room(self) -> int | None:
        """Tokens that the limit leaves for the reply beside this input; None when the text does not say."""
        if self.limit is None or self.input is None:
            return None
        return max(0, self.limit - self.input)


@dataclass(slots=True)
class _Evidence:
    """What a walk through an error found."""

    texts: list[str] = field(default_factory=list)
    chars: int = 0
    codes: list[str] = field(default_factory=list)
    statuses: set[int] = field(default_factory=set)
    numbers: dict[str, int] = field(default_factory=dict)


def classify(
    status: int,
    value: object,
    *,
    is_streamed: bool = False,
    rules: Rules = DEFAULT,
    loads: Loads | None = None,
) -> Overflow | None:
    """The overflow that this answer reports, or None.

    `value` is the decoded body, or its text when it is no JSON. `is_streamed` says that the value
    is an error met inside a stream: then text counts under a 200 as well.
    """
    is_success = 200 <= status < 300
    if not is_success and status not in rules.statuses:
        return None
    evidence = _Evidence()
    for part in _error_parts(value, is_streamed, loads) if is_success else (value,):
        _walk(part, "", evidence, loads, 0)
    texts = [clean(text) for text in evidence.texts]
    if not _is_overflow(evidence, texts, rules):
        return None
    return _with_figures(evidence, texts)


def is_silent_overflow(finish: str, usage: Usage | None, window: int | None) -> bool:
    """Whether a reply without an error shows that the window was full before it began."""
    if finish == "model_context_window_exceeded":
        return True
    if finish != "length" or usage is None or not window:
        return False
    return usage.output == 0 and usage.input >= 0.99 * window


def is_bodiless_overflow(status: int, body_bytes: int, estimate: int, window: int | None) -> bool:
    """A refusal without a word counts as overflow only when our own estimate nearly fills the known window."""
    return status in (400, 413) and body_bytes == 0 and bool(window) and estimate > 0.9 * (window or 0)


def _is_overflow(evidence: _Evidence, texts: list[str], rules: Rules) -> bool:
    if evidence.statuses & rules.refusing_statuses or _any(rules.veto_codes, evidence.codes):
        return False
    if _any(rules.strong_codes, evidence.codes):
        return True
    if _any(rules.vetoes, texts):
        return False
    if any(veto.phrase.search(text) and not veto.unless.search(text) for veto in rules.soft_vetoes for text in texts):
        return False
    return _any(rules.phrases, texts) or any(
        all(pattern.search(text) for pattern in rules.measured) and read(text).is_excessive for text in texts
    )


def _any(patterns: Patterns, texts: list[str]) -> bool:
    return any(pattern.search(text) for text in texts for pattern in patterns)


def _error_parts(value: object, is_streamed: bool, loads: Loads | None) -> Iterator[object]:
    """The parts of a successful answer that report an error; what the model wrote is none of them."""
    if isinstance(value, str):
        decoded = list(_decoded(value, loads))
        for part in decoded:
            yield from _error_parts(part, is_streamed, None)
        if is_streamed and not decoded:
            yield value
    elif isinstance(value, list):
        for part in value:
            yield from _error_parts(part, is_streamed, loads)
    elif isinstance(value, Mapping):
        yield from _error_members(value)


def _error_members(value: Mapping[object, object]) -> Iterator[object]:
    kind = value.get("type")
    if kind == "error" or value.get("object") == "error" or value.get("success") is False:
        yield value
        return
    for key in ("error", "errors", "base_resp"):
        if value.get(key):
            yield {key: value[key]}
    response = value.get("response")
    if isinstance(response, Mapping):
        if response.get("error"):
            yield {"error": response["error"]}
        if response.get("status_details"):
            yield response["status_details"]
    choices = value.get("choices")
    if isinstance(choices, list):
        for choice in choices:
            if isinstance(choice, Mapping) and choice.get("error"):
                yield {"error": choice["error"]}
    elif not any(key in value for key in ("output", "response", "error", "id", "data", "object")) or (
        value.get("data", 0) is None and "code" in value
    ):
        yield value  # a bare {code, message} that some gateways send under a 200


def _walk(value: object, key: str, evidence: _Evidence, loads: Loads | None, depth: int) -> None:
    if depth > MAX_DEPTH or len(evidence.texts) >= MAX_TEXTS or evidence.chars >= MAX_ALL_CHARS:
        return
    if isinstance(value, Mapping):
        for name, member in value.items():
            name = str(name).lower()
            if name not in _ECHOES:
                _walk(member, name, evidence, loads, depth + 1)
    elif isinstance(value, list | tuple):
        for member in value:
            _walk(member, key, evidence, loads, depth + 1)
    elif isinstance(value, str):
        _take_text(value, key, evidence, loads, depth)
    elif isinstance(value, int) and not isinstance(value, bool):
        _take_number(value, key, evidence)


def _take_text(text: str, key: str, evidence: _Evidence, loads: Loads | None, depth: int) -> None:
    if key in _SILENT_KEYS or not text.strip():
        return
    if text.isdigit() and len(text) < 10:
        _take_number(int(text), key, evidence)
        return
    if key in _CODE_KEYS and _IDENTIFIER.fullmatch(text):
        evidence.codes.append(_snake(text))
        if " " not in text:
            return
    decoded = list(_decoded(text, loads))
    for part in decoded:
        _walk(part, key, evidence, loads, depth + 1)
    if not decoded or not text.lstrip().startswith(("{", "[")):
        half = MAX_TEXT_CHARS // 2
        evidence.chars += min(len(text), MAX_TEXT_CHARS)
        evidence.texts.append(text if len(text) <= MAX_TEXT_CHARS else f"{text[:half]} … {text[-half:]}")


def _take_number(number: int, key: str, evidence: _Evidence) -> None:
    if key in _STATUS_KEYS:
        evidence.codes.append(str(number))
        if 100 <= number <= 599:
            evidence.statuses.add(number)
    elif key in _LIMIT_KEYS or key in _REQUESTED_KEYS:
        evidence.numbers.setdefault(key, number)


def _decoded(text: str, loads: Loads | None) -> Iterator[object]:
    """JSON objects that a text is, or holds: `{"error": …}`, `data: {…}` lines, `400 - {…}`."""
    if loads is None or "{" not in text or len(text) > 1_000_000:
        return
    start, end = text.find("{"), text.rfind("}") + 1
    candidates = [text[text.find("[") :] if text.lstrip().startswith("[") else text[start:end]]
    candidates += [line.partition(":")[2] for line in text.splitlines()[:200] if line.startswith("data:")]
    for candidate in candidates:
        try:
            value = loads(candidate)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, Mapping | list):
            yield value


def _snake(code: str) -> str:
    return re.sub(r"[\W_]+", "_", _CAMEL.sub("_", code)).strip("_").lower()


def _with_figures(evidence: _Evidence, texts: list[str]) -> Overflow:
    """The figures of the text that says most, then the numbers that stand beside the message."""
    best = max((read(text) for text in texts), key=_richness, default=Figures())
    limit = best.limit or _bounded(_beside(evidence, _LIMIT_KEYS))
    requested, tokens_in = best.requested, best.input
    if requested is None and best.output is None:
        requested = _beside(evidence, _REQUESTED_KEYS)
        tokens_in = requested if tokens_in is None else tokens_in
    is_output = best.output is not None and (
        (limit is not None and tokens_in is not None and tokens_in < limit)
        or (limit is not None and best.output >= limit)
        or (tokens_in is None and limit is None)
    )
    return Overflow(limit, requested, tokens_in, best.output, "output" if is_output else "input")


def _richness(figures: Figures) -> int:
    known = (figures.limit, figures.requested, figures.input, figures.output)
    return sum(figure is not None for figure in known) + 2 * (figures.limit is not None)


def _beside(evidence: _Evidence, keys: tuple[str, ...]) -> int | None:
    return next((evidence.numbers[key] for key in keys if evidence.numbers.get(key, 0) > 0), None)


def _bounded(limit: int | None) -> int | None:
    return limit if limit is not None and MIN_LIMIT <= limit <= MAX_LIMIT else None
