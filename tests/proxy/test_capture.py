"""Redaction at capture: what looks like a secret is not kept, is marked as such, and the store still verifies."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from proxy.audit.restore import restore
from proxy.audit.verify import verify_store
from proxy.capture import MARK, redacted
from proxy.core.records import Batch, PlanRow
from proxy.store.archive import Archive
from tests.proxy.audit.test_verify import exported, verified
from tests.proxy.store.rows import make_body, make_fold, make_item
from tests.support import builders
from tests.support.serve import served
from tests.support.session import ok, strict
from tests.support.upstream import ScriptedUpstream

SECRET = "sk-live-0123456789abcdefghij"


def test_rows_keep_their_names_and_lose_the_secret() -> None:
    body = make_body(json.dumps({"role": "user", "content": f"use {SECRET}, please", "n": 1.50}))
    plain = make_body('{"role":"user","content":"nothing to hide"}')
    frame = make_body(f'{{"model":"gpt-x","user":"{SECRET}","messages":[')
    plan = PlanRow("p", "b", msgspec.msgpack.encode([1, f"digest of {SECRET}", {"a": b"\xff"}]))
    batch = Batch(bodies=(body, plain, frame), items=(make_item("1", text=SECRET),), plans=(plan,),
                  folds=(make_fold("C", ["1"]),))  # fmt: skip
    found = redacted(batch)
    assert SECRET not in repr(found) and SECRET.encode() not in found.bodies[0].data + found.bodies[2].data
    assert json.loads(found.bodies[0].data)["content"] == f"use {MARK}, please"
    assert found.bodies[0].hash == body.hash and found.bodies[0].redacted and found.bodies[1] == plain
    assert msgspec.msgpack.decode(found.plans[0].data)[1] == f"digest of {MARK}"
    assert redacted(Batch(plans=(PlanRow("p", "b", b"\xc1"),))).plans[0].data == b"\xc1"


def test_a_store_that_redacts(tmp_path: Path) -> None:
    db = tmp_path / "ctx.db"
    with ScriptedUpstream(strict) as up, served(up.base_url, db, store__redact=True) as proxy:
        messages = [
            builders.system(),
            builders.user(f"my key is {SECRET}; keep it"),
            *builders.step(1, f"token={SECRET}"),
        ]
        ok(proxy, messages)
        assert SECRET.encode() in up.requests[-1].body  # what goes out is the client's own
        ok(proxy, [*messages, builders.assistant("noted"), builders.user("go on")])
        assert SECRET.encode() in up.requests[-1].body
    for file in tmp_path.iterdir():
        assert SECRET.encode() not in file.read_bytes()
    found = verified(db)
    assert found.holds and "redacted at capture" in found.notes[0]
    lines = exported(db)
    assert SECRET not in b"".join(lines).decode() and MARK in b"".join(lines).decode()
    restore(lines, tmp_path / "new.db")
    with Archive(tmp_path / "new.db") as archive:
        assert verify_store(archive, secret=None).holds
