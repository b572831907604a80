"""Real client libraries through the product: the same session as without it, over lists a strict provider takes."""

from __future__ import annotations

import json
import sqlite3
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.integration.clients import DRIVES, LITELLM_WARNING
from tests.support.client_loops import Outcome
from tests.support.serve import served
from tests.support.strict_model import STEPS, TURNS, StrictModel, as_items, report
from tests.support.upstream import Request, ScriptedUpstream

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings(LITELLM_WARNING)]

WINDOW = 5_000
LARGE = 50_000
# A target that leaves a tail: the cut of the fold then lies between calls, where pairs could break.
SMALL: dict[str, Any] = {
    "policy__options": {"mask_at": 2_000, "min_tail": 1},
    "window__target_share": 0.34,
    "window__compact_at": 2_000,
}
EXPAND = "ctx_expand"
OWN_HEADERS = ("host", "content-length", "connection", "accept-encoding")
MASKED = "output omitted from history"
DIGEST = "earlier messages of this conversation, made by the proxy"
clients = pytest.mark.parametrize("name", DRIVES)
streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@cache
def direct(name: str, stream: bool) -> tuple[Outcome, list[Request]]:
    """The session without the product: what it must be like with it."""
    model = StrictModel()
    with ScriptedUpstream(model) as upstream:
        outcome = DRIVES[name](upstream.base_url, stream=stream)
    assert not model.refusals
    assert outcome.answers == [report(turn) for turn in range(1, TURNS + 1)]
    return outcome, model.taken


def listed(request: Request) -> list[dict[str, Any]]:
    body = request.json()
    return body["messages"] if "messages" in body else as_items(body["input"])


def without_list(request: Request, *, is_through: bool) -> dict[str, Any]:
    """The other fields; usage that the product asks for on its own is left out."""
    body = {key: value for key, value in request.json().items() if key not in ("messages", "input")}
    if is_through and body.get("stream_options") == {"include_usage": True}:
        del body["stream_options"]
    if is_through and "tools" in body:  # one more stands behind the client's own, once something was left out
        names = [tool.get("name") or tool["function"]["name"] for tool in body["tools"]]
        assert EXPAND not in names[:-1]
        body["tools"] = body["tools"][:-1] if names[-1] == EXPAND else body["tools"]
    return body


def headers_of(request: Request) -> list[tuple[str, str]]:
    return sorted((name.lower(), value) for name, value in request.headers if name.lower() not in OWN_HEADERS)


def texts(item: dict[str, Any]) -> str:
    return json.dumps(item, sort_keys=True, ensure_ascii=False)


def assert_same_requests(through: list[Request], straight: list[Request]) -> None:
    """One request for one, each with the client's own items in order, but for what was reduced."""
    assert len(through) == len(straight)
    for ours, theirs in zip(through, straight, strict=True):
        assert without_list(ours, is_through=True) == without_list(theirs, is_through="stream_options" in theirs.json())
        assert headers_of(ours) == headers_of(theirs)
        wanted = [texts(item) for item in listed(theirs)]
        got = [texts(item) for item in listed(ours)]
        assert got[-1] == wanted[-1]
        kept = [text for text in got if text in wanted]
        assert kept == [text for text in wanted if text in kept]  # in the client's order
        for text in got:
            assert text in wanted or MASKED in text or DIGEST in text, text[:300]


def largest(requests: list[Request]) -> int:
    return max(len(request.body) for request in requests)


def has_digest(request: Request) -> bool:
    return any(DIGEST in texts(item) for item in listed(request))


def counted(db: Path, query: str) -> int:
    with sqlite3.connect(db) as connection:
        return int(connection.execute(query).fetchone()[0])


@clients
@streamed
def test_a_long_session_is_the_same_in_a_small_window(name: str, stream: bool, tmp_path: Path) -> None:
    """Masks and folds happen, every list pairs up, and the application cannot tell."""
    expected, straight = direct(name, stream)
    model = StrictModel(window=WINDOW)
    db = tmp_path / "undercliff.db"
    with (
        ScriptedUpstream(model) as upstream,
        served(upstream.base_url, db, models={"scripted-*": {"window": WINDOW}}, **SMALL) as proxy,
    ):
        outcome = DRIVES[name](proxy.base_url, stream=stream)
    assert not model.refusals
    assert model.overflows == 0
    assert outcome == expected
    assert_same_requests(model.taken, straight)
    assert any(MASKED in request.body.decode() for request in model.taken)
    assert any(has_digest(request) for request in model.taken)
    assert counted(db, "SELECT count(*) FROM folds") >= 1
    assert counted(db, "SELECT count(*) FROM conversations") == 1
    assert largest(model.taken) < 0.45 * largest(straight)


@clients
@streamed
def test_one_overflow_is_recovered_unseen(name: str, stream: bool, tmp_path: Path) -> None:
    """The provider's window is far smaller than we were told: one refusal, and the application never hears of it."""
    expected, straight = direct(name, stream)
    model = StrictModel(window=WINDOW)
    db = tmp_path / "undercliff.db"
    settings = {"policy__options": {"mask_at": LARGE}}
    with (
        ScriptedUpstream(model) as upstream,
        served(upstream.base_url, db, models={"scripted-*": {"window": LARGE}}, **settings) as proxy,
    ):
        outcome = DRIVES[name](proxy.base_url, stream=stream, turns=2)
    assert not model.refusals
    assert outcome.answers == expected.answers[:2]
    assert expected.starts_with(outcome)
    assert_same_requests(model.taken, straight[: 2 * (STEPS + 1)])
    assert model.overflows >= 1
    named_its_limit = "responses" not in name or not stream
    assert model.overflows == 1 or not named_its_limit
    assert counted(db, "SELECT count(*) FROM outcomes WHERE attempts > 1") == model.overflows
    assert counted(db, "SELECT count(*) FROM outcomes WHERE outcome != 'ok'") == 0
