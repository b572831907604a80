"""Random histories of the Responses API that any provider takes, turn by turn, and a policy that reduces at random."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from policies.model import NOT_OFFERED, Candidate, Choice, Form, Selection, Situation
from tests.support.builders import long_text
from tests.support.strict_responses import KEYS, Made

Item = dict[str, Any]

_OUTPUTS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
    "tool_search_call": "tool_search_output",
    "program": "program_output",
    "mcp_approval_request": "mcp_approval_response",
}
_ALONE = ("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call")


class Histories:
    """One history, drawn from `chooser`. `made` is what its provider remembers."""

    def __init__(self, chooser: random.Random, *, is_adjacent: bool) -> None:
        self.chooser = chooser
        self.is_adjacent = is_adjacent
        self.made = Made()
        self._count = 0
        self._has_mcp = False

    def name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}_{self._count:04d}{self.chooser.getrandbits(48):012x}"

    def text(self) -> str:
        return long_text(self._count, self.chooser.choice((12, 60, 700, 2500)))

    def exchanges(self, turns: int) -> Iterator[tuple[list[Item], list[Item]]]:
        """For each call of the model: what the client adds to its list, and what the model answers."""
        if self.chooser.random() < 0.3:
            opening = [{"role": self.chooser.choice(("system", "developer")), "content": "Keep the tide tables."}]
        else:
            opening = []
        for _ in range(turns):
            added = [*opening, self._user()]
            opening = []
            for _ in range(self.chooser.randint(1, 4)):
                reply = self._reply()
                self.made.add(reply)
                yield added, reply
                added = self._results(reply)
                if not added:
                    break
            else:
                last = [self._message()]
                yield added, last

    def _user(self) -> Item:
        text = self.text()
        match self.chooser.randrange(4):
            case 0:
                return {"role": "user", "content": text}
            case 1:
                return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
            case 2:
                parts = [{"type": "input_text", "text": text}, {"type": "input_image", "image_url": "https://x/y.png"}]
                return {"type": "message", "role": "user", "content": parts}
            case _:
                return {"type": "of_tomorrow", "id": self.name("odd"), "words": text}

    def _message(self) -> Item:
        part = {"type": "output_text", "text": self.text(), "annotations": []}
        return {
            "type": "message",
            "id": self.name("msg"),
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }

    def _reply(self) -> list[Item]:
        chooser = self.chooser
        out: list[Item] = []
        for _ in range(chooser.choice((0, 1, 1, 2))):
            sealed = "".join(chooser.choices("abcdefgh+/=", k=80))
            out.append({"type": "reasoning", "id": self.name("rs"), "summary": [], "encrypted_content": sealed})
        if chooser.random() < 0.3:
            out += self._hosted()
        if chooser.random() < 0.4:
            out.append(self._message())
        for _ in range(chooser.choice((0, 1, 1, 1, 2, 3))):
            out.append(self._call())
        if chooser.random() < 0.2 and not (self.is_adjacent and out and out[-1]["type"] in _OUTPUTS):
            out += [*self._hosted(), self._message()]
        if not out or out[-1]["type"] == "reasoning":
            out.append(self._message())
        return out

    def _call(self) -> Item:
        kind = self.chooser.choice(("function_call",) * 6 + tuple(_OUTPUTS))
        item: Item = {"type": kind, "id": self.name("it"), "status": "completed"}
        if kind != "mcp_approval_request":
            item["call_id"] = self.name("call")
        match kind:
            case "function_call":
                item |= {"name": "look", "arguments": '{"what": "it"}'}
            case "custom_tool_call":
                item |= {"name": "write", "input": "free text"}
            case "local_shell_call" | "shell_call":
                item["action"] = {"type": "exec", "command": ["ls", "-l"]}
            case "apply_patch_call":
                item["operation"] = {"type": "update_file", "path": "a.txt", "diff": "-a\n+b"}
            case "computer_call":
                item["action"] = {"type": "screenshot"}
            case "tool_search_call":
                item["arguments"] = {"query": "tides"}
            case "program":
                item |= {"code": "print(1)", "fingerprint": "f"}
            case _:
                item |= {"name": "drop", "arguments": "{}", "server_label": "s"}
        return item

    def _hosted(self) -> list[Item]:
        kind = self.chooser.choice(_ALONE)
        item: Item = {"type": kind, "id": self.name("it"), "status": "completed"}
        match kind:
            case "mcp_call":
                item |= {"name": "n", "arguments": "{}", "server_label": "s", "output": self.text()}
                if not self._has_mcp:
                    self._has_mcp = True
                    tools = {"type": "mcp_list_tools", "id": self.name("mcpl"), "server_label": "s", "tools": []}
                    return [tools, item]
            case "code_interpreter_call":
                item |= {"code": "1+1", "outputs": [{"type": "logs", "logs": self.text()}], "container_id": "c"}
            case "image_generation_call":
                item["result"] = "iVBORw0KGgo="
        return [item]

    def _results(self, reply: list[Item]) -> list[Item]:
        calls = [item for item in reply if item["type"] in _OUTPUTS]
        if self.chooser.random() < 0.3:
            self.chooser.shuffle(calls)
        return [self._result(call) for call in calls]

    def _result(self, call: Item) -> Item:
        kind = _OUTPUTS[call["type"]]
        key = KEYS.get(kind, "call_id")
        item: Item = {"type": kind, key: call["id"] if kind in KEYS else call["call_id"]}
        text = self.text()
        match kind:
            case "shell_call_output":
                outcome = {"type": "exit", "exit_code": self.chooser.randint(0, 1)}
                item["output"] = [{"stdout": text, "stderr": "", "outcome": outcome}]
            case "computer_call_output":
                item["output"] = {"type": "computer_screenshot", "image_url": "https://x/s.png"}
            case "tool_search_output":
                item["tools"] = [{"type": "function", "name": "t", "description": text}]
            case "program_output":
                item |= {"result": text, "status": "completed"}
            case "mcp_approval_response":
                item["approve"] = True
            case "function_call_output" if self.chooser.random() < 0.3:
                item["output"] = [{"type": "input_text", "text": text}, {"type": "input_text", "text": self.text()}]
            case _:
                item["output"] = text
        return item


class Reckless:
    """A policy that reduces whatever the contract lets it, at random: masks here and there, folds whole groups."""

    name = "reckless"

    def __init__(self, chooser: random.Random) -> None:
        self.chooser = chooser

    def select(self, situation: Situation) -> Selection:
        chooser, forms = self.chooser, dict[str, Form]()
        share = chooser.random()
        has_fold = chooser.random() < 0.4
        for _, members in groupby(situation.candidates, key=lambda candidate: candidate.group):
            group = list(members)
            is_free = all(not c.is_pinned and c.is_seen for c in group)
            held = {situation.held.get(c.id) for c in group}
            if is_free and (Form.FOLDED in held or (has_fold and chooser.random() < 0.5)):
                forms |= {c.id: Form.FOLDED for c in group}
            elif is_free and chooser.random() < 0.1:
                forms |= {c.id: Form.ABSENT for c in group}
            else:
                forms |= {c.id: Form.STUB for c in group if _can_mask(c) and chooser.random() < share}
        choices = tuple(Choice(c.id, forms.get(c.id, Form.FULL), "at random") for c in situation.candidates)
        return Selection(choices, "at random" if forms else "")


def _can_mask(candidate: Candidate) -> bool:
    return not candidate.is_pinned and candidate.is_seen and candidate.costs[Form.STUB] != NOT_OFFERED
