"""An ordinary agent: keeps its whole list, streams, runs the tools it is asked for, and knows nothing of a proxy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from proxy.demo.session import Session, Turn


@dataclass(frozen=True, slots=True)
class CallReport:
    """What the agent knows after one model call. `sent` is how many messages its list had."""

    turn: int
    status: int
    sent: int
    sent_bytes: int
    text: str
    calls: tuple[str, ...]  # names of the tools asked for
    headers: Mapping[str, str]
    usage: Mapping[str, Any] | None
    error: str = ""


@dataclass(slots=True)
class _Heard:
    """An assistant message as it is put together from deltas."""

    text: str = ""
    calls: dict[int, dict[str, Any]] = field(default_factory=dict)
    usage: dict[str, Any] | None = None
    error: str = ""

    def add(self, value: dict[str, Any]) -> None:
        if value.get("error"):
            self.error = json.dumps(value["error"])
        self.usage = value.get("usage") or self.usage
        for choice in value.get("choices") or []:
            delta = choice.get("delta") or choice.get("message") or {}
            self.text += delta.get("content") or ""
            for position, piece in enumerate(delta.get("tool_calls") or []):
                self._add_call(piece.get("index", position), piece)

    def _add_call(self, index: int, piece: dict[str, Any]) -> None:
        empty = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
        call = self.calls.setdefault(index, empty)
        call["id"] = piece.get("id") or call["id"]
        function = piece.get("function") or {}
        call["function"]["name"] += function.get("name") or ""
        call["function"]["arguments"] += function.get("arguments") or ""

    def message(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.calls:
            message["tool_calls"] = [self.calls[index] for index in sorted(self.calls)]
        return message


class Agent:
    """Drives one session against one base URL. `messages` are the exact bytes of each message it ever sent."""

    def __init__(
        self, base_url: str, key: str, session: Session, *, model: str = "demo", streams: bool = True,
        max_tokens: int | None = None,
    ) -> None:  # fmt: skip
        self._session = session
        self._results = session.results()
        self._model = model
        self._streams = streams
        self._max_tokens = max_tokens
        headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
        self._client = httpx.Client(base_url=base_url.rstrip("/") + "/", headers=headers, timeout=120, trust_env=False)
        self.messages: list[bytes] = []
        if session.system:
            self._keep({"role": "system", "content": session.system})

    def close(self) -> None:
        self._client.close()

    def run(self) -> Iterator[CallReport]:
        """The whole session, one report a model call; it ends at the first refused call."""
        for number, turn in enumerate(self._session.turns, start=1):
            for report in self.run_turn(number, turn):
                yield report
                if report.error:
                    return

    def run_turn(self, number: int, turn: Turn) -> Iterator[CallReport]:
        """One user message: call the model, run its tools, call again, until it asks for no more."""
        self._keep({"role": "user", "content": turn.ask})
        while True:
            report, heard = self._ask_model(number)
            if not report.error:
                self._keep(heard.message())
            yield report
            if report.error or not heard.calls:
                return
            for _, call in sorted(heard.calls.items()):
                text = self._results.get(call["id"], "error: no such call")
                self._keep({"role": "tool", "tool_call_id": call["id"], "content": text})

    def _keep(self, message: dict[str, Any]) -> None:
        self.messages.append(json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode())

    def _body(self) -> bytes:
        options: dict[str, Any] = {"model": self._model}
        if self._streams:
            options |= {"stream": True, "stream_options": {"include_usage": True}}
        if self._max_tokens:
            options["max_tokens"] = self._max_tokens
        start = json.dumps(options, separators=(",", ":"))[:-1].encode()
        tools = b',"tools":' + self._session.tools.encode() if self._session.tools else b""
        return start + tools + b',"messages":[' + b",".join(self.messages) + b"]}"

    def _ask_model(self, turn: int) -> tuple[CallReport, _Heard]:
        body, heard = self._body(), _Heard()
        status, headers = 0, httpx.Headers()
        try:
            with self._client.stream("POST", "chat/completions", content=body) as response:
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
            heard.error = response.read().decode(errors="replace") or f"status {response.status_code}"
        elif "text/event-stream" in response.headers.get("content-type", ""):
            for line in response.iter_lines():
                if line.startswith("data:") and line[5:].strip() != "[DONE]":
                    heard.add(json.loads(line[5:]))
        else:
            heard.add(json.loads(response.read()))
