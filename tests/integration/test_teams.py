"""Teams over sockets: each with its own keys, provider, models, limits and settings, and nothing crosses."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from typer.testing import CliRunner

import proxy.allowance
import proxy.roster
from proxy.app import create_app
from proxy.cli.commands import app
from proxy.config import Config, load_config
from proxy.demo.serving import serving
from proxy.listening import server_options
from proxy.store.base import Store
from tests.support import builders, replies
from tests.support import responses_events as events
from tests.support.expanding import expand
from tests.support.records import eventually
from tests.support.serve import wait_ready
from tests.support.session import from_store, tokens_of
from tests.support.upstream import Action, Request, ScriptedUpstream

TEAMS = """
[upstream]
url = "{url}"
[store]
url = "{db}"
[log]
level = "warning"
[teams.harbour]
client_keys = ["key-of-the-harbour"]
allowed_models = ["scripted-*"]
[teams.harbour.upstream]
key_env = "HARBOUR"
[teams.harbour.policy]
options = {{ economics = false, mask_at = 0, keep = 0, min_batch = 0, min_share = 0 }}
[teams.quay]
client_keys = ["key-of-the-quay"]
pass_through = true
[teams.quay.upstream]
url = "{other}"
[teams.quay.expand]
enabled = false
"""
ENVIRONMENT = {"HARBOUR": "sk-harbour-provider"}
HARBOUR = {"authorization": "Bearer key-of-the-harbour"}
CALLS = [builders.call("call_s1", "look", what="x")]
QUAY = {"authorization": "Bearer sk-quay-own", "x-undercliff-key": "key-of-the-quay"}


def provider(request: Request) -> Action:
    if request.method == "GET" or not request.path.endswith(("/chat/completions", "/responses")):
        return replies.json_reply({"object": "list", "data": []})
    if request.path.endswith("/responses"):
        item = events.message_item("msg_1", "noted")
        return replies.json_reply(events.response("resp_1", [item], events.usage(tokens_of(request.body), 2)))
    if not request.body.startswith(b"{"):
        return replies.error_reply(400, "no JSON")
    body = request.json()
    if body.get("stream"):
        return replies.chat_stream("noted")
    return replies.json_reply(replies.completion("noted", prompt=tokens_of(request.body)))


class Yard:
    """A proxy with two teams, each with a provider of its own."""

    def __init__(self, up: ScriptedUpstream, other: ScriptedUpstream, url: str, db: Path, config: Path) -> None:
        self.up, self.other, self.url, self.db, self.config = up, other, url, db, config

    def ask(self, headers: dict[str, str], messages: list[Any] | None = None, **more: Any) -> httpx.Response:
        body = builders.request(messages or [builders.user("hello")], **more)
        return httpx.post(f"{self.url}/v1/chat/completions", json=body, headers=headers, timeout=20)


@contextmanager
def yard(tmp_path: Path, extra: str = "", top: str = "") -> Iterator[Yard]:
    with ExitStack() as stack:
        up, other = (stack.enter_context(ScriptedUpstream(provider)) for _ in range(2))
        path = tmp_path / "c.toml"
        text = TEAMS.format(url=up.base_url, other=other.base_url, db=tmp_path / "x.db")
        path.write_text(top + text.replace("[teams.harbour]\n", f"[teams.harbour]\n{extra}\n"))
        config: Config = load_config(path, environ=ENVIRONMENT)
        url = stack.enter_context(serving(create_app(config), **server_options(config.server)))
        wait_ready(url)
        yield Yard(up, other, url, tmp_path / "x.db", path)


def conversation(reply: httpx.Response) -> str:
    return reply.headers["x-undercliff-conversation"]


def ids_of(db: Path, name: str) -> list[str]:
    async def read(store: Store) -> list[str]:
        return [stored.row.id async for stored in await store.transcript(name)]

    return from_store(db, read)


def settled(db: Path, count: int) -> None:
    """Until so many of the harbour's exchanges have their bill in the store."""

    def look() -> bool:
        rows = from_store(db, lambda store: store.usage("2020-01-01T00:00:00.000000Z"))
        return sum(row.requests for row in rows if row.output and row.tenant == "team:harbour") >= count

    eventually(look, 20)


def test_each_team_goes_to_its_own_provider_with_its_own_key(tmp_path: Path) -> None:
    with yard(tmp_path) as y:
        assert y.ask(HARBOUR).status_code == y.ask(QUAY).status_code == 200
        assert [r.header("authorization") for r in y.up.requests] == ["Bearer sk-harbour-provider"]
        assert [r.header("authorization") for r in y.other.requests] == ["Bearer sk-quay-own"]
        sent = b"".join(r.raw_head + r.body for r in (*y.up.requests, *y.other.requests))
        assert b"key-of-the" not in sent and b"x-undercliff" not in sent.lower()


def test_a_team_s_settings_hold_for_it_alone(tmp_path: Path) -> None:
    messages = [builders.system(), builders.user("read"), *builders.steps(3, 3000), builders.assistant("done"),
                builders.user("so?")]  # fmt: skip
    with yard(tmp_path) as y:
        for headers in (HARBOUR, QUAY):
            y.ask(headers, messages[:-2], tools=[builders.tool()])
            y.ask(headers, messages, tools=[builders.tool()])
        assert b"output omitted" in y.up.requests[-1].body and b"ctx_expand" in y.up.requests[-1].body
        assert b"output omitted" not in y.other.requests[-1].body and b"ctx_expand" not in y.other.requests[-1].body


def test_real_client_with_a_team_s_key(tmp_path: Path) -> None:
    with yard(tmp_path) as y:
        client = openai.OpenAI(base_url=f"{y.url}/v1", api_key="key-of-the-harbour", max_retries=0)
        parts = client.chat.completions.create(
            model="scripted-1", messages=[{"role": "user", "content": "x"}], stream=True
        )
        assert "".join(part.choices[0].delta.content or "" for part in parts if part.choices) == "noted"
        y.up.enqueue(
            replies.json_reply(replies.completion(None, calls=[replies.tool_call("call_a1", "look", {"what": "x"})]))
        )
        made = client.chat.completions.create(model="scripted-1", messages=[{"role": "user", "content": "y"}],
                                              tools=[builders.tool()])  # fmt: skip
        assert made.choices[0].message.tool_calls
        assert client.responses.create(model="scripted-1", input="z").output_text == "noted"
        with pytest.raises(openai.PermissionDeniedError, match="allowed_models"):
            client.chat.completions.create(model="other", messages=[{"role": "user", "content": "y"}])
        with pytest.raises(openai.AuthenticationError):
            openai.OpenAI(base_url=f"{y.url}/v1", api_key="sk-harbour-provider", max_retries=0).models.list()
        client.close()


@pytest.mark.parametrize(
    "path", ["chat/completions", "responses", "embeddings", "responses/compact", "completions", "files"]
)
def test_sec_a_model_that_is_not_allowed_is_not_called_on_any_path(tmp_path: Path, path: str) -> None:
    with yard(tmp_path) as y:
        bad = [
            b'{"model":"forbidden","messages":[],"input":"x"}',
            b'{"model":"scripted-1","model":"forbidden"}',
            b"--form--",
        ]
        for body in bad:
            reply = httpx.post(f"{y.url}/v1/{path}", content=body, headers=HARBOUR)
            assert reply.status_code == 403 and reply.json()["error"]["code"] == "model_not_allowed"
        assert not y.up.requests
        good = b'{"model":"scripted-1","messages":[{"role":"user","content":"x"}],"input":"x"}'
        assert httpx.post(f"{y.url}/v1/{path}", content=good, headers=HARBOUR).status_code == 200
        assert y.up.requests[-1].body == good or path in ("chat/completions", "responses")
        assert httpx.get(f"{y.url}/v1/models", headers=HARBOUR).status_code == 200
        assert httpx.post(f"{y.url}/v1/{path}", content=b"--form--", headers=QUAY).status_code in (200, 400)
        assert len(y.other.requests) == 1


def test_sec_nothing_of_another_team_can_be_reached(tmp_path: Path) -> None:
    """Ids guessed and replayed, names forged: another team's are as if they did not exist."""
    secret = "the harbour's secret is berth 4711. " + builders.long_text(1, 3000)
    messages = [builders.system(), builders.user("read"), builders.assistant(None, CALLS),
                builders.result("call_s1", secret), builders.assistant("done"), builders.user("so?")]  # fmt: skip
    with yard(tmp_path) as y:
        y.ask(HARBOUR, messages[:-2])
        mine = y.ask(HARBOUR, messages)
        name = conversation(mine)
        items = ids_of(y.db, name)
        asked = httpx.post(
            f"{y.url}/v1/responses", json={"model": "scripted-1", "input": "keep"}, headers=HARBOUR
        ).json()
        for item in items:
            assert httpx.get(f"{y.url}/ctx/expand/{item}", headers=HARBOUR).status_code == 200
            assert httpx.get(f"{y.url}/ctx/expand/{item}", headers=QUAY).status_code == 404
        forged = {**QUAY, "x-undercliff-conversation": name, "x-undercliff-tenant": "team:harbour",
                  "x-session-id": name,
                  "openai-organization": "team:harbour", "x-undercliff-team": "harbour"}  # fmt: skip
        theirs = [
            y.ask(forged, messages),
            httpx.post(f"{y.url}/s/{name}/v1/chat/completions", json=builders.request(messages[:2]), headers=QUAY),
            httpx.post(f"{y.url}/v1/responses", headers=QUAY,
                       json={"model": "m", "input": "so?", "previous_response_id": asked["id"]}),
        ]  # fmt: skip
        assert all(reply.status_code == 200 and conversation(reply) != name for reply in theirs)
        assert b"4711" not in y.other.requests[-1].body and b"keep" not in y.other.requests[-1].body
        # The model of the other team asks for the item by id: the tool finds nothing (and is off for that team).
        y.other.enqueue(replies.json_reply(replies.completion(None, calls=[expand(id=items[3])])))
        y.ask(QUAY, [builders.user("fetch it")])
        assert all(b"berth 4711" not in r.body for r in y.other.requests[-1:])
        tenants = {one.tenant for one in from_store(y.db, lambda store: store.conversations())}
        assert tenants == {"team:harbour", "team:quay"}


@pytest.mark.parametrize("path", ["/ctx/", "/ctx/export", "/ctx/metrics", "/ctx/api/conversations"])
def test_sec_a_client_key_opens_no_page(tmp_path: Path, path: str) -> None:
    with yard(tmp_path) as y:
        for headers in (
            HARBOUR,
            QUAY,
            {},
            {"x-undercliff-key": "key-of-the-harbour"},
            {"cookie": "undercliff_admin=1.x"},
        ):
            assert httpx.get(f"{y.url}{path}", headers=headers).status_code in (401, 403, 404)


@pytest.mark.parametrize(
    "headers",
    [{}, {"authorization": "Bearer sk-harbour-provider"}, {"authorization": "Bearer key-of-the-quay"},
     {"authorization": "Bearer"}, {"x-undercliff-key": "uc_harbour_" + "0" * 48}],
)  # fmt: skip
def test_sec_without_a_team_s_key_nothing_goes_upstream(tmp_path: Path, headers: dict[str, str]) -> None:
    with yard(tmp_path) as y:
        reply = y.ask(headers)
        assert reply.status_code == 401 and reply.json()["error"]["code"] == "invalid_api_key"
        assert not y.up.requests and not y.other.requests


@pytest.mark.parametrize(
    "lines",
    ["POST http://evil.test/v1/chat/completions HTTP/1.1\r\nHost: evil.test",
     "POST //evil.test/v1/chat/completions HTTP/1.1\r\nHost: x",
     "POST /v1/chat/completions HTTP/1.1\r\nHost: evil.test\r\nX-Forwarded-Host: evil.test\r\nX-Original-URL: http://evil.test",
     "POST /v1/../../@evil.test/chat/completions HTTP/1.1\r\nHost: x"],
)  # fmt: skip
def test_sec_no_shape_of_a_request_chooses_the_provider(tmp_path: Path, lines: str) -> None:
    body = json.dumps(builders.request([builders.user("x")])).encode()
    with yard(tmp_path) as y:
        host, port = y.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=20) as link:
            more = f"Authorization: Bearer key-of-the-harbour\r\nContent-Length: {len(body)}\r\nConnection: close"
            link.sendall(f"{lines}\r\n{more}\r\n\r\n".encode() + body)
            answer = b"".join(iter(lambda: link.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 ")
        assert not y.other.requests and all(b"key-of" not in r.raw_head + r.body for r in y.up.requests)


def test_limits_are_told_and_lifted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy.allowance, "STALE_S", 0.0)
    with yard(tmp_path, "requests_per_day = 2") as y:
        assert [y.ask(HARBOUR).status_code for _ in range(2)] == [200, 200]
        settled(y.db, 2)
        over = y.ask(HARBOUR)
        assert over.status_code == 429 and over.json()["error"]["code"] == "team_limit_reached"
        assert 0 < int(over.headers["retry-after"]) <= 86_401 and over.headers["x-should-retry"] == "false"
        assert "2 of 2 requests" in over.json()["error"]["message"]
        assert httpx.get(f"{y.url}/v1/models", headers=HARBOUR).status_code == 200
        assert y.ask(QUAY).status_code == 200, "another team's limit"


def test_tokens_count_by_the_bill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy.allowance, "STALE_S", 0.0)
    with yard(tmp_path, "tokens_per_day = 50") as y:
        y.up.enqueue(replies.json_reply(replies.completion("noted", prompt=49)))
        assert y.ask(HARBOUR).status_code == 200
        settled(y.db, 1)
        assert y.ask(HARBOUR).status_code == 429


def test_keys_are_made_rotated_and_ended_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy.roster, "STALE_S", 0.0)

    def run(*arguments: str) -> str:
        made = CliRunner().invoke(app, [*arguments, "--config", str(y.config)], env=ENVIRONMENT)
        assert made.exit_code == 0, made.output
        return made.stdout

    with yard(tmp_path) as y:
        first = run("keys", "create", "harbour").strip()
        bearer = {"authorization": f"Bearer {first}"}
        begun = y.ask(bearer)
        assert begun.status_code == 200
        listed = json.loads(run("keys", "list", "--json"))
        assert [row["team"] for row in listed] == ["harbour"] and first not in json.dumps(listed)
        second = run("keys", "rotate", listed[0]["id"], "--grace-hours", "0").strip()
        assert y.ask(bearer).status_code == 401
        again = y.ask({"authorization": f"Bearer {second}"}, [builders.user("hello"), builders.assistant("noted"),
                                                               builders.user("and?")])  # fmt: skip
        assert conversation(again) == conversation(begun), "a team's conversations outlive its keys"
        newest = next(row for row in json.loads(run("keys", "list", "--json")) if not row["revoked_at"])
        run("keys", "revoke", newest["id"])
        assert y.ask({"authorization": f"Bearer {second}"}).status_code == 401
        assert first.encode() not in y.db.read_bytes() + (y.db.with_name("x.db-wal")).read_bytes()
        usage = json.loads(run("usage", "--json"))
        assert [row["tenant"] for row in usage] == ["team:harbour"] and usage[0]["requests"] == 2
        assert "harbour" in run("usage", "--team", "harbour") and "quay" not in run("usage")


def test_the_page_shows_what_each_team_used_today(tmp_path: Path) -> None:
    key = {"authorization": "Bearer adm-0123456789"}
    with yard(tmp_path, top='[server]\nadmin_key = "adm-0123456789"\n') as y:
        assert "Teams today" not in httpx.get(f"{y.url}/ctx/", headers=key).text
        for _ in range(2):
            y.ask(HARBOUR)
        y.ask(QUAY)
        settled(y.db, 2)

        def look() -> list[str]:
            page = httpx.get(f"{y.url}/ctx/list", headers=key).text
            return re.findall(r"<bdi>(\w+)</bdi></a></td><td class=\"n\">(\d+)<", page)

        eventually(lambda: sorted(look()) == [("harbour", "2"), ("quay", "1")])
        one = httpx.get(f"{y.url}/ctx/", params={"tenant": "team:quay"}, headers=key).text
        assert one.count('class="move" href="/ctx/c/') == 1
