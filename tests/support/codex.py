"""Drives the Codex CLI's own binary against a base URL, and the scripted model that it talks to."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support import responses_events as events
from tests.support.keeping_provider import tokens_of
from tests.support.replies import error_reply, json_reply, stream_reply
from tests.support.strict_responses import Made, responses_fault
from tests.support.upstream import Action, Request

CLIENTS = Path(os.environ.get("UNDERCLIFF_NODE_CLIENTS") or Path(__file__).resolve().parent.parent / "clients")
BINARY = CLIENTS / "node_modules" / ".bin" / "codex"
SUMMARY = "Handoff: the gauges were counted thrice and nothing else is left to do but to report."
CONFIG = """\
model = "gpt-5-codex"
{provider}
approval_policy = "never"
sandbox_mode = "danger-full-access"
{settings}
[model_providers.scripted]
name = "scripted"
base_url = "{base_url}"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
"""


@dataclass(slots=True)
class Codex:
    """One installation: its home keeps sessions between runs."""

    folder: Path
    settings: str = ""
    is_built_in: bool = False  # the provider that tries a WebSocket first

    def run(self, base_url: str, *arguments: str) -> list[dict[str, Any]]:
        """`codex exec`; returns the events that it printed."""
        home, work = self.folder / "home", self.folder / "work"
        home.mkdir(exist_ok=True)
        work.mkdir(exist_ok=True)
        provider = f'openai_base_url = "{base_url}"' if self.is_built_in else 'model_provider = "scripted"'
        config = CONFIG.format(base_url=base_url, provider=provider, settings=self.settings)
        (home / "config.toml").write_text(config)
        keys = {"SCRIPTED_KEY": "sk-scripted", "OPENAI_API_KEY": "sk-scripted", "CODEX_API_KEY": "sk-scripted"}
        environment = {**os.environ, "HOME": str(home), "CODEX_HOME": str(home), "NO_COLOR": "1", **keys}
        command = [str(BINARY), "exec", "--skip-git-repo-check", "--json", *arguments]
        done = subprocess.run(
            command, cwd=work, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def said(printed: Sequence[dict[str, Any]]) -> list[str]:
    """What the agent told its user."""
    items = [event["item"] for event in printed if event["type"] == "item.completed"]
    return [item["text"] for item in items if item["type"] == "agent_message"]


def ran(printed: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """The commands that were run, with what they printed."""
    items = [event["item"] for event in printed if event["type"] == "item.completed"]
    return [(i["command"], i["aggregated_output"]) for i in items if i["type"] == "command_execution"]


@dataclass(eq=False)
class CodexModel:
    """Handler of a scripted upstream: `steps` commands a turn, then a report. Strict on lists, honest on usage."""

    steps: int = 3
    delegates: bool = False  # the first turn's first call starts a sub-agent
    refusals: list[str] = field(default_factory=list)
    taken: list[Request] = field(default_factory=list)
    upgrades: int = 0
    made: Made = field(default_factory=Made)

    def __call__(self, request: Request) -> Action:
        if request.method != "POST":
            self.upgrades += bool(request.header("upgrade"))
            return json_reply({"object": "list", "data": [], "models": []})
        body = request.json()
        items = body["input"]
        fault = responses_fault(items, self.made)
        if fault is not None:
            self.refusals.append(fault)
            return error_reply(400, fault, param="input")
        self.taken.append(request)
        number = len(self.taken)
        thought = events.reasoning_item(f"rs_{number:04d}", f"gAAAA{number:04d}" * 20)
        output = [thought, self._answer(body, items, number, request.header("x-openai-subagent") or "")]
        self.made.add(output)
        tokens = tokens_of(items) + tokens_of(body.get("tools") or [])
        return stream_reply(
            events.reply_events(events.response(f"resp_{number:04d}", output, events.usage(tokens, 20)))
        )

    def _answer(
        self, body: dict[str, Any], items: Sequence[dict[str, Any]], number: int, subagent: str
    ) -> dict[str, Any]:
        last = max((i for i, item in enumerate(items) if item.get("role") == "user"), default=0)
        text = json.dumps(items[last])
        if not body.get("tools") and "CHECKPOINT" in text:
            return events.message_item(f"msg_{number:04d}", SUMMARY)
        if SUMMARY in text:
            return events.message_item(f"msg_{number:04d}", "Report from the notes: every gauge was counted.")
        is_parent = self.delegates and not subagent
        start = 0 if is_parent else last
        calls = [item["name"] for item in items[start:] if item["type"] == "function_call"]
        if is_parent and len(calls) < 2:
            if not calls:
                return self._agent_call(number, "spawn_agent", {"message": "Child task: count the gauges."})
            spawned = json.loads(_text(items[-1]["output"]))
            return self._agent_call(number, "wait_agent", {"targets": [spawned["agent_id"]], "timeout_ms": 20_000})
        if len(calls) < self.steps and not is_parent:
            arguments = json.dumps({"cmd": f"seq {len(calls) + 1} 700"})
            return events.call_item(f"fc_{number:04d}", f"call_{number:04d}aBcD12eF", "exec_command", arguments)
        return events.message_item(f"msg_{number:04d}", f"Report of {len(calls)} calls: every gauge was counted.")

    def _agent_call(self, number: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        item = events.call_item(f"fc_{number:04d}", f"call_{number:04d}aBcD12eF", name, json.dumps(arguments))
        return {**item, "namespace": "multi_agent_v1"}


def _text(output: Any) -> str:
    return output if isinstance(output, str) else "".join(part.get("text", "") for part in output)
