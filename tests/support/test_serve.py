"""The served proxy: in a thread and as a process that survives its own death."""

from __future__ import annotations

import signal
import tomllib
from pathlib import Path

import httpx

from tests.support import builders, replies
from tests.support.serve import dotted, served, served_process, to_toml
from tests.support.upstream import ScriptedUpstream

BODY = builders.body_bytes(builders.request([builders.user("When is high water?")]))
HEADERS = {"authorization": "Bearer key", "content-type": "application/json"}


def ask(base_url: str) -> httpx.Response:
    url = f"{base_url}/chat/completions"
    return httpx.post(url, content=BODY, headers=HEADERS, timeout=20, trust_env=False)


def test_settings_become_a_configuration_file() -> None:
    settings = dotted({"policy__name": "last_n", "policy__options": {"messages": 4}, "window__compact_at": 9})
    value = tomllib.loads(to_toml("http://u/v1", "/tmp/x.db", settings, {"gpt-*": {"window": 5}}))
    assert value["policy"] == {"name": "last_n", "options": {"messages": 4}}
    assert value["window"] == {"compact_at": 9}
    assert value["upstream"]["url"] == "http://u/v1" and value["models"] == {"gpt-*": {"window": 5}}


def test_in_a_thread() -> None:
    with (
        ScriptedUpstream(lambda _: replies.json_reply(replies.completion("at six"))) as up,
        served(up.base_url) as proxy,
    ):
        reply = ask(proxy.base_url)
        assert reply.json()["choices"][0]["message"]["content"] == "at six"
        assert up.requests[0].body == BODY
        assert up.requests[0].target == "/v1/chat/completions"
        assert proxy.db.exists()


def test_as_a_process_that_is_killed_and_comes_back(tmp_path: Path) -> None:
    with (
        ScriptedUpstream(lambda _: replies.json_reply(replies.completion("at six"))) as up,
        served_process(up.base_url, tmp_path) as proxy,
    ):
        first = ask(proxy.base_url)
        proxy.kill()
        assert proxy.process is not None and proxy.process.returncode == -9
        proxy.restart()
        second = ask(proxy.base_url)
        name = "x-undercliff-conversation"
        assert first.headers[name] == second.headers[name], "the store did not survive"
        assert proxy.terminate() in (0, -signal.SIGTERM)  # after an orderly end the signal is raised again
