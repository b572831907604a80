"""Sets up the log on stderr, for people or as JSON. What it writes holds ids and counts, never bodies or keys."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
import structlog
from structlog.types import EventDict, Processor, WrappedLogger

from proxy.config import LogConfig
from proxy.core.redaction import MASK, is_secret_name, redact

_LIBRARIES_AT_WARNING = ("httpx", "httpcore", "aiohttp", "asyncio", "openai", "urllib3")


def configure_logging(config: LogConfig, *, secrets: Sequence[str] = ()) -> None:
    """Send our events and the libraries' records through one chain. `secrets` are masked wherever they occur."""
    level = logging.getLevelNamesMapping()[config.level.upper()]
    chain: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        redactor(secrets),
    ]
    renderer = _renderer(config)
    structlog.configure(
        processors=[*chain, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    _configure_libraries(level, chain, renderer)


def redactor(secrets: Sequence[str] = ()) -> Callable[[WrappedLogger, str, EventDict], EventDict]:
    """A processor that masks secrets in every value, however deep. It must stand behind `format_exc_info`."""
    known = sorted((secret for secret in secrets if secret), key=len, reverse=True)

    def process(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        return {name: _clean(name, value, known) for name, value in event.items()}

    return process


def _clean(name: str, value: Any, secrets: Sequence[str]) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if name.startswith("_"):  # the logging machinery's own entries, never rendered
        return value
    if is_secret_name(name):
        return MASK
    if isinstance(value, Mapping):
        return {str(key): _clean(str(key), entry, secrets) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_clean("", entry, secrets) for entry in value]
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return redact(value if isinstance(value, str) else repr(value), secrets)


def _renderer(config: LogConfig) -> Processor:
    if config.format == "json":
        return structlog.processors.JSONRenderer(serializer=_to_json)
    return structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback, pad_event_to=28
    )


def _to_json(event: Any, **_options: Any) -> str:
    return orjson.dumps(event, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()


def _configure_libraries(level: int, chain: Sequence[Processor], renderer: Processor) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=list(chain),
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for name in _LIBRARIES_AT_WARNING:  # at debug level they write whole headers
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers = []
        logger.propagate = True
        logger.setLevel(max(level, logging.WARNING))
    access = logging.getLogger("uvicorn.access")  # its lines hold raw URLs; the exchange's own event says more
    access.disabled = True
    access.propagate = False
