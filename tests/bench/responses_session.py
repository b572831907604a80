"""The measured session in Responses form: an agent and a provider that say and bill the same as those of Chat do.

The provider reads the list back into messages before it counts, so that a difference in the bill is one of windows.
"""

from __future__ import annotations

import json
from collections.abc import MutableMapping, Sequence
from typing import Any

import httpx

from proxy.core.model import Usage
from proxy.demo.agent import Agent, CallReport, _Heard
from proxy.demo.pairing import Refusal, check_pairing
from proxy.demo.provider import Provider, Receive, Send, Served, _bearer, _error, _read, _send_json
from tests.support import responses_events as events
from tests.support.strict_responses import Made, responses_fault

Item = dict[str, Any]


class ResponsesAgent(Agent):
    """The same agent, speaking the other wire format. `messages` are the exact bytes of its items."""

    def _keep(self, message: dict[str, Any]) -> None:
        for item in to_items(message):
            super()._keep(item)

    def _body(self) -> bytes:
        options: dict[str, Any] = {"model": self._model, "store": False}
        if self._streams:
            options["stream"] = True
        start = json.dumps(options, separators=(",", ":"))[:-1].encode()
        tools = b',"tools":' + self._session.tools.encode() if self._session.tools else b""
        return start + tools + b',"input":[' + b",".join(self.messages) + b"]}"

    def _ask_model(self, turn: int) -> tuple[CallReport, _Heard]:
        body, heard = self._body(), _Heard()
        status, headers = 0, httpx.Headers()
        try:
            response = self._client.post("responses", content=body)
            status, headers = response.status_code, response.headers
            self._listen(response, heard)
        except httpx.HTTPError as error:
            heard.error = f"{type(error).__name__}: {error}"
        names = tuple(call["function"]["name"] for _, call in sorted(heard.calls.items()))
        report = CallReport(
            turn, status, len(self.messages), len(body), heard.text, names, headers, heard.usage, heard.error
        )
        return report, heard

    def _listen(self, response: httpx.Response, heard: _Heard) -> None:
        if response.status_code != 200:
            heard.error = response.text or f"status {response.status_code}"
            return
        whole = response.json() if "json" in response.headers["content-type"] else _last_event(response.text)
        heard.usage = whole["usage"]
        for item in whole["output"]:
            if item["type"] == "message":
                heard.text += item["content"][0]["text"]
            else:
                function = {"name": item["name"], "arguments": item["arguments"]}
                heard.calls[len(heard.calls)] = {"id": item["call_id"], "type": "function", "function": function}


def _last_event(text: str) -> dict[str, Any]:
    data = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    whole: dict[str, Any] = json.loads(data[-1])["response"]
    return whole


class ResponsesProvider(Provider):
    """The same provider behind `/responses`: one script, one counting, one cache."""

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].endswith("/responses"):
            await super().__call__(scope, receive, send)
            return
        body = await _read(receive)
        request = json.loads(body)
        request["messages"] = to_messages(request["input"])
        prompt = self._render(request)
        fault = responses_fault(request["input"], Made())
        refusal = Refusal(fault, "input") if fault else check_pairing(request["messages"])
        refusal = refusal or self._check_length(request, sum(segment.tokens for segment in prompt))
        key = _bearer(scope)
        if refusal is not None:
            usage = Usage(sum(segment.tokens for segment in prompt), 0)
            entry = Served(key, request["model"], refusal.status, usage, 0.0, 0, body, refusal=refusal.message)
            self.served.append(entry)
            await _send_json(send, refusal.status, _error(refusal))
            return
        answer = self.script(request["messages"])
        usage = self._charge(key, request, prompt, answer, body)
        number = len(self.served)
        output = [events.message_item(f"msg_{number:04d}", answer.text)] if answer.text else []
        output += [events.call_item(f"fc_{call.id}", call.id, call.name, call.arguments) for call in answer.calls]
        bill = events.usage(usage.input, usage.output, usage.cached)
        whole = events.response(f"resp_{number:04d}", output, bill)
        if not request.get("stream"):
            await _send_json(send, 200, whole)
            return
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for event in events.reply_events(whole):
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def to_items(message: dict[str, Any]) -> list[Item]:
    """A chat message as the items that say the same."""
    if message.get("role") == "tool":
        return [{"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}]
    if message.get("role") != "assistant":
        return [message]
    items: list[Item] = []
    if message.get("content"):
        part = {"type": "output_text", "text": message["content"], "annotations": []}
        items.append({"type": "message", "role": "assistant", "content": [part]})
    for call in message.get("tool_calls") or ():
        items.append({"type": "function_call", "call_id": call["id"], **call["function"]})
    return items


def to_messages(items: Sequence[Item]) -> list[dict[str, Any]]:
    """The items as the chat messages that say the same: text beside calls in one message."""
    messages: list[dict[str, Any]] = []
    for item in items:
        kind = item.get("type", "message")
        if kind == "function_call_output":
            messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]})
        elif kind == "function_call":
            function = {"name": item["name"], "arguments": item["arguments"]}
            call = {"id": item["call_id"], "type": "function", "function": function}
            if not messages or messages[-1]["role"] != "assistant":
                messages.append({"role": "assistant", "content": None})
            messages[-1].setdefault("tool_calls", []).append(call)
        else:
            content = item["content"]
            text = content if isinstance(content, str) else "".join(part["text"] for part in content)
            messages.append({"role": item["role"], "content": text})
    return messages
