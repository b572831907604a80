"""The page's door: SEC-01, SEC-08, SEC-11, OPS-08; exports and metrics over HTTP; no word of a conversation runs."""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from proxy.audit.verify import verify_export
from proxy.web.access import COOKIE, Access, is_loopback
from proxy.web.app import SECURITY, _money, _saved, _sum, _why
from proxy.web.pages import CHUNK, Pages, newest_branch
from tests.support import builders, replies
from tests.support.audited import _answer, copy_store, fill
from tests.support.serve import Served, served, served_process
from tests.support.session import NEVER, conversation, ok, post
from tests.support.upstream import ScriptedUpstream

KEY = "adm-0123456789-admin"
TEAM_A, TEAM_B = "team-a-key-0123456789", "team-b-key-0123456789"
PATHS = (
    "/ctx", "/ctx/", "/ctx/list", "/ctx/export", "/ctx/export?format=csv", "/ctx/metrics", "/ctx/c/{id}",
    "/ctx/c/{id}/rows?start=0", "/ctx/c/{id}/timeline.json", "/ctx/c/{id}/item/{item}", "/ctx/c/{id}/item/{item}/raw",
    "/ctx/w/{window}", "/ctx/debug", "/ctx/c/none", "/ctx/w/none", "/ctx/forget",
)  # fmt: skip


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    db = tmp_path_factory.mktemp("web") / "ctx.db"
    fill(db)
    return db


@contextmanager
def site(filled: Path, folder: Path, **settings: Any) -> Iterator[tuple[Served, dict[str, str]]]:
    db = copy_store(filled, folder / "copy")
    with ScriptedUpstream(_answer) as up, served(up.base_url, db, **settings) as proxy:
        with httpx.Client(base_url=proxy.url, headers={"authorization": f"Bearer {KEY}"}) as client:
            page = client.get("/ctx/").text
            id = next(iter(re.findall(r"/ctx/c/(\w+)\"", page)), "none")
            shown = client.get(f"/ctx/c/{id}").text
            item = next(iter(re.findall(r'id="i-(\w+)"', client.get(f"/ctx/c/{id}/rows?start=0").text)), "none")
            window = next(iter(re.findall(r"/ctx/w/([\w-]+)", shown)), "none")
        yield proxy, {"id": id, "item": item, "window": window}


def ask(proxy: Served, path: str, **headers: str) -> httpx.Response:
    return httpx.get(proxy.url + path, headers=headers, trust_env=False)


def test_sec_11_without_an_admin_key_a_shared_server_refuses_everything(filled: Path, tmp_path: Path) -> None:
    """Client keys say that others use it: then nobody is its owner by being near."""
    with site(filled, tmp_path, server__client_keys=[TEAM_A, TEAM_B]) as (proxy, ids):
        for headers in (
            {},
            {"x-undercliff-key": TEAM_A},
            {"authorization": f"Bearer {TEAM_A}"},
            {"cookie": f"{COOKIE}=x"},
        ):
            for path in PATHS:
                assert ask(proxy, path.format(**ids), **headers).status_code == 404, path
        assert ask(proxy, "/ctx/health").status_code == ask(proxy, "/ctx/ready").status_code == 200


def test_sec_11_a_private_server_shows_itself_to_its_own_machine_alone(filled: Path, tmp_path: Path) -> None:
    with site(filled, tmp_path) as (proxy, ids):
        assert all(ask(proxy, path.format(**ids)).status_code in (200, 307) for path in PATHS[:12])
        for headers in ({"host": "evil.example"}, {"x-forwarded-for": "203.0.113.9"}, {"forwarded": "for=203.0.113.9"}):
            for path in PATHS:
                assert ask(proxy, path.format(**ids), **headers).status_code == 404, (path, headers)


def test_sec_08_a_guess_and_a_hit_get_the_same_answer(filled: Path, tmp_path: Path) -> None:
    """Team B asks for team A's conversation: as if it were not there, word for word."""
    settings = {"server__client_keys": [TEAM_A, TEAM_B], "server__admin_key": KEY}
    with site(filled, tmp_path, **settings) as (proxy, ids):
        assert ids["id"] != "none" and ids["window"] != "none" and ids["item"] != "none"
        for path in PATHS[2:]:
            real, guess = path.format(**ids), path.format(id="x" * 12, item="y" * 12, window="z" * 12)
            for headers in ({"x-undercliff-key": TEAM_B}, {}, {"authorization": "Bearer wrong"}):
                found, missing = ask(proxy, real, **headers), ask(proxy, guess, **headers)
                assert found.status_code == missing.status_code == 404
                assert found.text.replace(real.split("?")[0], "") == missing.text.replace(guess.split("?")[0], "")
                assert {k: v for k, v in found.headers.items() if k not in ("date", "content-length")} == {
                    k: v for k, v in missing.headers.items() if k not in ("date", "content-length")
                }
        assert ask(proxy, f"/ctx/c/{ids['id']}", authorization=f"Bearer {KEY}").status_code == 200
        assert ask(proxy, "/ctx/c/xxxxxxxxxxxx", authorization=f"Bearer {KEY}").status_code == 404


def test_an_administrator_logs_in(filled: Path, tmp_path: Path) -> None:
    with site(filled, tmp_path, server__admin_key=KEY) as (proxy, ids), httpx.Client(base_url=proxy.url) as client:
        assert "Admin key" in client.get("/ctx/").text and "survey" not in client.get("/ctx/").text
        wrong = client.post("/ctx/login", data={"key": "wrong"})
        assert wrong.status_code == 403 and "not the key" in wrong.text and not wrong.cookies
        assert client.post("/ctx/login", content=b"x" * 10_000).status_code == 404
        done = client.post("/ctx/login", data={"key": KEY})
        assert done.status_code == 303 and done.headers["location"] == "/ctx/"
        cookie = done.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=strict" in cookie and KEY not in cookie
        assert "survey the harbour" in client.get("/ctx/").text
        assert client.get(f"/ctx/c/{ids['id']}").status_code == 200
        client.cookies.set(COOKIE, client.cookies[COOKIE][:-1] + "0", path="/ctx")


def test_sec_01_no_key_anywhere(tmp_path: Path) -> None:
    """Debug log, headers of every kind, a key in the address, an error that repeats it: in no file, page or export."""
    secrets = ["sk-bearer-0123456789abcdef", "azure-key-0123456789", "sk-query-0123456789abc", KEY, TEAM_A]
    failing = ScriptedUpstream(lambda request: replies.error_reply(401, f"Incorrect API key provided: {secrets[0]}"))
    with (
        failing as up,
        served_process(
            up.base_url, tmp_path, log__level="debug", server__admin_key=KEY, server__client_keys=[TEAM_A]
        ) as proxy,
    ):
        body = builders.body_bytes(builders.request([builders.user("hello")]))
        for path in ("/chat/completions", f"/chat/completions?key={secrets[2]}"):
            httpx.post(proxy.base_url + path, content=body, headers={
                "authorization": f"Bearer {secrets[0]}", "api-key": secrets[1], "x-undercliff-key": TEAM_A,
                "content-type": "application/json"})  # fmt: skip
        httpx.get(f"{proxy.url}/ctx/c/{secrets[0]}?key={secrets[2]}", headers={"authorization": "Bearer wrong"})
        admin = {"authorization": f"Bearer {KEY}"}
        formats = ("jsonl", "chat", "csv&rows=exchanges", "html")
        said = [httpx.get(f"{proxy.url}/ctx/export?format={format}", headers=admin).text for format in formats]
        said += [httpx.get(f"{proxy.url}/ctx/{path}", headers=admin).text for path in ("metrics", "")]
        proxy.terminate()
        kept = [file.read_bytes() for file in tmp_path.iterdir() if file.name not in ("config.toml",)]
        assert len(said[0]) > 500 and len(kept) >= 3
        for secret in secrets:
            assert not any(secret in text for text in said), secret
            assert not any(secret.encode() in data for data in kept), secret


def test_exports_over_http_are_those_of_the_command(filled: Path, tmp_path: Path) -> None:
    with site(filled, tmp_path) as (proxy, ids):
        reply = ask(proxy, "/ctx/export")
        assert reply.headers["content-disposition"].endswith('"undercliff.jsonl"')
        assert verify_export(io.BytesIO(reply.content)).holds
        one = [json.loads(line) for line in ask(proxy, f"/ctx/export?id={ids['id']}").text.splitlines()]
        assert [line["id"] for line in one if line["type"] == "chain"] == [ids["id"]]
        assert ask(proxy, "/ctx/export?format=csv&rows=forms").text.startswith("conversation,")
        for query in ("format=exe", "rows=all", "since=noon", "outcome=fine"):
            assert ask(proxy, f"/ctx/export?{query}").status_code == 400
        pytest.importorskip("pyarrow")
        assert ask(proxy, "/ctx/export?format=parquet&rows=exchanges").content.startswith(b"PAR1")


def test_pages_forbid_what_they_do_not_need(filled: Path, tmp_path: Path) -> None:
    with site(filled, tmp_path) as (proxy, ids):
        for path in (
            "/ctx/",
            f"/ctx/c/{ids['id']}",
            f"/ctx/c/{ids['id']}/item/{ids['item']}/raw",
            "/ctx/static/page.js",
        ):
            reply = ask(proxy, path)
            assert reply.status_code == 200
            assert {name: reply.headers.get(name) for name in SECURITY} == SECURITY, path
        assert "unsafe" not in SECURITY["content-security-policy"]
        raw = ask(proxy, f"/ctx/c/{ids['id']}/item/{ids['item']}/raw")
        assert raw.headers["content-type"] == "application/octet-stream"
        page = ask(proxy, f"/ctx/c/{ids['id']}").text
        assert (
            not re.search(r"<script(?! src=\"/ctx/static/)", page) and " style=" not in page and " onclick" not in page
        )
        assert ask(proxy, "/ctx/static/../app.py").status_code == 404
        assert ask(proxy, "/ctx/static/nothing.js").status_code == 404


def test_nothing_new_is_nothing_sent(filled: Path, tmp_path: Path) -> None:
    with site(filled, tmp_path) as (proxy, _):
        mark = re.search(r"list\?v=([^\"&]+)", ask(proxy, "/ctx/list").text)
        assert mark is not None and ask(proxy, f"/ctx/list?v={mark[1]}").status_code == 204
        ok(proxy, [builders.system(), builders.user("something new")])
        assert "something new" in ask(proxy, f"/ctx/list?v={mark[1]}").text


def test_ops_08_the_effect_of_each_request_and_a_warning_when_there_is_none(tmp_path: Path) -> None:
    answer = lambda request: replies.json_reply(replies.completion("noted", prompt=30_000))  # noqa: E731
    tools = [builders.tool(f"tool_{number}") for number in range(40)]
    with ScriptedUpstream(answer) as up, served(up.base_url, tmp_path / "a.db", policy__options=NEVER) as proxy:
        messages = [builders.system(), builders.user("go"), *builders.steps(10, 12_000)]
        for number in range(31):
            messages += [
                builders.assistant("noted"),
                builders.user(f"and {number}", cache_control={"type": "ephemeral"}),
            ]
            reply = post(proxy, messages, tools=False, extra_tools=tools)
            assert reply.status_code == 200, reply.text
        page = ask(proxy, f"/ctx/c/{conversation(reply)}").text
        assert "without any reduction" in page and "nothing to reduce yet" in page
        assert "undercliff_large_requests_unreduced 31.0" in ask(proxy, "/ctx/metrics").text
    with ScriptedUpstream(_answer) as up, served(up.base_url, tmp_path / "b.db") as proxy:
        fill(tmp_path / "c.db")
    with ScriptedUpstream(_answer) as up, served(up.base_url, tmp_path / "c.db") as proxy:
        page = ask(proxy, re.findall(r"/ctx/c/\w+", ask(proxy, "/ctx/?q=survey").text)[0]).text
        assert "without any reduction" not in page and "masked" in page


def test_a_session_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    access = Access(KEY, is_private=True)
    now = time.time()
    assert access.allows({}, {COOKIE: access.session()}, "203.0.113.1")
    assert not access.allows({}, {COOKIE: access.session(now - 13 * 3600)}, "127.0.0.1")
    for cookie in ("", "x", "9999999999.00", "²." + "0" * 64):
        assert not access.allows({}, {COOKIE: cookie}, "127.0.0.1")
    assert not Access("", is_private=True).is_key("")
    assert access.allows({"x-undercliff-key": KEY}, {}, "203.0.113.1")


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [("127.0.0.1", True), ("::1", True), ("[::1]", True), ("localhost", True), ("", False), ("127.0.0.1.evil", False)],
)
def test_loopback(host: str, is_ours: bool) -> None:
    assert is_loopback(host) == is_ours


async def test_pages_without_a_store() -> None:
    from proxy.errors import StoreError
    from proxy.store.null import NullStore

    with pytest.raises(StoreError, match="no store"):
        await Pages(NullStore(), None).chunks("c")
    assert newest_branch([]) is None and CHUNK > 10


SITE = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


def test_the_door_of_a_private_server_against_tricks(filled: Path, tmp_path: Path) -> None:
    """A name that points here (rebinding), a proxy before us, another site's page: nobody gets more than nothing."""
    with site(filled, tmp_path) as (proxy, ids):
        port = proxy.url.rpartition(":")[2]
        for host in ("localhost", f"localhost:{port}", "127.0.0.1", "[::1]", "[::1]:80", "LOCALHOST".lower()):
            assert ask(proxy, "/ctx/", host=host).status_code == 200, host
        for host in ("evil.example", f"evil.example:{port}", "localhost.evil.example", "127.0.0.1.evil.example",
                     "[::1]evil.example", "[::1].evil.example", "local", "0.0.0.0", "localhost:80@evil.example",
                     "localhost, evil.example", "evil@localhost", "127.1", "", "localhost.",
                     "[localhost]"):  # fmt: skip
            assert ask(proxy, "/ctx/", host=host).status_code in (400, 404), host
        for name in ("x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "forwarded", "x-real-ip", "via"):
            for value in ("127.0.0.1", ""):
                assert ask(proxy, "/ctx/", **{name: value}).status_code == 404, (name, value)
        assert ask(proxy, f"/ctx/c/{ids['id']}", **SITE).status_code == 200  # a link may lead here
        assert ask(proxy, "/ctx/export", **SITE).status_code == 404
        for changed in ({"sec-fetch-mode": "no-cors"}, {"sec-fetch-dest": "iframe"}, {"sec-fetch-dest": "script"}):
            assert ask(proxy, f"/ctx/c/{ids['id']}", **SITE | changed).status_code == 404
        assert ask(proxy, "/ctx/export", **{"sec-fetch-site": "same-origin"}).status_code == 200


def test_a_form_of_another_site_cannot_log_in(filled: Path, tmp_path: Path) -> None:
    with site(filled, tmp_path, server__admin_key=KEY) as (proxy, _):
        reply = httpx.post(f"{proxy.url}/ctx/login", data={"key": KEY}, headers=SITE, trust_env=False)
        assert reply.status_code == 404 and not reply.cookies


def test_odd_addresses_are_not_found(filled: Path, tmp_path: Path) -> None:
    with site(filled, tmp_path) as (proxy, ids):
        for path in ("/ctx/static/%00", "/ctx/static/%2e%2e/app.py", "/ctx/static/..%2f..%2fauth.py",
                     "/ctx/static//etc/passwd",
                     "/ctx/static/%2fetc%2fpasswd", "/ctx/static/..%5capp.py", "/ctx/static/" + "a" * 3000,
                     "/ctx/static/",
                     "/ctx/c/%00", "/ctx/c/%ff", "/ctx/c/..%2f..", "/ctx/w/%00", "/ctx/c/' OR 1=1 --",
                     f"/ctx/c/{ids['id']}/item/%ff/raw", f"/ctx/c/{ids['id']}/item/%ed%a0%80"):  # fmt: skip
            assert ask(proxy, path).status_code == 404, path
        for query in ("at=%ff", "at=%ed%a0%80", "at=%00"):
            assert ask(proxy, f"/ctx/c/{ids['id']}?{query}").status_code == 200, query
        assert ask(proxy, f"/ctx/c/{ids['id']}/rows?start={'9' * 50}").status_code == 400
        assert ask(proxy, "/ctx/?q=%ed%a0%80%00").status_code == 200


def test_money_that_is_not_known_is_not_nothing() -> None:
    assert _money(None) == "no price" and _money(0.0) == "$0.0000"
    assert _sum([{"cost": None}, {"cost": 0.5}], "cost") == 0.5 and _sum([{"cost": None}], "cost") is None
    assert _saved(None, 1.0) is None and _saved(3.0, 1.0) == 2.0
    assert _why("", "full", True).startswith("new") and _why("", "full", False) and _why("old", "stub", True) == "old"
