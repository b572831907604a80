"""Spans reach a real receiver over OTLP/HTTP (extra `otel`): one a call, with nothing of what was said."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support import builders, replies
from tests.support.serve import served
from tests.support.session import ok
from tests.support.upstream import ScriptedUpstream

pytest.importorskip("opentelemetry.exporter.otlp.proto.http.trace_exporter")


def test_spans_arrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[tuple[str, bytes]] = []
    arrived = threading.Event()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()
            arrived.set()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as receiver:
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{receiver.server_port}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        answer = lambda request: replies.json_reply(replies.completion("noted", prompt=100))  # noqa: E731
        with ScriptedUpstream(answer) as up, served(up.base_url, tmp_path / "x.db", log__otel=True) as proxy:
            ok(proxy, [builders.system(), builders.user("whispered words")])
            assert arrived.wait(30)
        receiver.shutdown()
    path, body = got[0]
    assert path == "/v1/traces" and b"gen_ai.request.model" in body and b"undercliff.verdict" in body
    assert b"whispered" not in body
