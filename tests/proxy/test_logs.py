from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator

import pytest
import structlog

from proxy.config import LogConfig
from proxy.logs import configure_logging, redactor

KEY = "zq8f7KEYmaterial42"


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    structlog.reset_defaults()
    root.handlers, root.level = handlers, level
    logging.getLogger("uvicorn.access").disabled = False


def write_events() -> None:
    log = structlog.get_logger()
    log.debug(
        "request_received", headers={"Authorization": f"Bearer {KEY}", "api-key": KEY}, url=f"/v1/models?key={KEY}"
    )
    log.info("upstream_answered", error=f"Incorrect API key provided: {KEY}.", raw=f"Bearer {KEY}".encode())
    log.info("pairs", pairs=[("authorization", f"Bearer {KEY}")], odd=ValueError(f"Bearer {KEY}"))
    log.info("managed", text="the managed key is swordfish, really", api_key=KEY)
    try:
        raise RuntimeError(f"crashed with ?key={KEY}")
    except RuntimeError:
        log.exception("crashed")
        logging.getLogger("some.library").exception("it broke for Bearer %s", KEY)
    logging.getLogger("uvicorn.error").error("bad request line GET /?key=%s", KEY)
    logging.getLogger("uvicorn.access").info('"GET /v1/models?key=%s HTTP/1.1" 200', KEY)
    logging.getLogger("httpx").debug("headers: X-Whatever: %s", KEY)


@pytest.mark.parametrize("format", ["console", "json"])
def test_no_key_is_ever_written(format: str, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogConfig(format=format, level="debug"), secrets=["swordfish", ""])
    write_events()
    out, err = capsys.readouterr()
    assert out == ""
    assert "request_received" in err and "RuntimeError" in err and "bad request line" in err
    assert KEY not in err
    assert "swordfish" not in err


def test_json_lines_are_whole_events(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogConfig(format="json", level="info"))
    structlog.get_logger().info("window_selected", conversation="k3x", tokens=14, items=("a", "b"), nothing=None)
    logging.getLogger("some.library").warning("odd %d", 1)
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert first.pop("timestamp").endswith("Z")
    assert first == {
        "event": "window_selected",
        "level": "info",
        "conversation": "k3x",
        "tokens": 14,
        "items": ["a", "b"],
        "nothing": None,
    }
    assert (second["event"], second["level"]) == ("odd 1", "warning")


def test_level_holds_for_events_and_libraries(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogConfig(level="warning"))
    structlog.get_logger().info("quiet")
    logging.getLogger("some.library").info("quiet")
    structlog.get_logger().warning("loud")
    err = capsys.readouterr().err
    assert "quiet" not in err
    assert "loud" in err


def test_access_lines_are_off(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogConfig(level="debug"))
    logging.getLogger("uvicorn.access").info("GET /v1/models")
    assert capsys.readouterr().err == ""


def test_context_is_part_of_every_event(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogConfig(format="json"))
    with structlog.contextvars.bound_contextvars(exchange="e1"):
        structlog.get_logger().info("relayed")
    assert json.loads(capsys.readouterr().err)["exchange"] == "e1"


def test_redactor_keeps_what_is_no_text() -> None:
    event = redactor()(None, "info", {"count": 3, "share": 0.5, "ok": True, "_record": sys, "token": 7})
    assert event == {"count": 3, "share": 0.5, "ok": True, "_record": sys, "token": 7}
