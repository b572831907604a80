"""Requests that real clients sent, in several spellings: each comes back byte for byte. Skipped without recordings."""

import json
import pathlib
from typing import Any

import pytest

from proxy.core.canonical import chain
from proxy.wire.base import FrameEdits, Piece
from proxy.wire.registry import Registry

CAPTURES = pathlib.Path(__file__).resolve().parents[3] / ".." / "shared" / "data" / "captures"
SPELLINGS: list[dict[str, Any]] = [{}, {"indent": 1}, {"separators": (",", ":")}, {"ensure_ascii": False}]

pytestmark = pytest.mark.skipif(not CAPTURES.is_dir(), reason="no recordings on this machine")


def test_recorded_requests_come_back_byte_for_byte() -> None:
    registry = Registry()
    count = 0
    for path in sorted(CAPTURES.glob("*/*.json")):
        request = json.loads(path.read_text())
        wire = registry.find(request.get("method", ""), request.get("path", ""))
        if wire is None or not isinstance(request.get("body"), dict):
            continue
        headers = {name.lower(): value for name, value in request["headers"]}
        chains = []
        for spelling in SPELLINGS:
            body = json.dumps(request["body"], **spelling).encode()
            conversation = wire.decode(body, headers)
            pieces = [Piece(element.raw, index) for index, element in enumerate(conversation.elements)]
            assert wire.encode(conversation, pieces, FrameEdits()) == body, path
            chains.append([atom.hash for _, atom in chain(conversation.elements)])
            for element in conversation.elements:
                assert json.loads(wire.render(element, element.texts)) == json.loads(element.raw)
        assert all(found == chains[0] for found in chains), path
        count += 1
    assert count > 300
