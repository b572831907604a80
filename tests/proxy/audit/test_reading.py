"""An export that anybody may have written: whatever stands in it, it is refused by name and nothing is left behind."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from proxy.audit import reading
from proxy.audit.reading import lines_of
from proxy.audit.restore import restore
from proxy.audit.verify import verify_export
from proxy.errors import StoreError
from tests.proxy.audit.test_verify import exported, told

Line = dict[str, Any]


def rewritten(lines: list[bytes], change: Callable[[Line], None]) -> list[bytes]:
    """Every line changed, and the sums put right."""
    import orjson

    sum, out = sha256(), []
    for line in lines:
        value = orjson.loads(line)
        change(value)
        if "sha256" in value:
            value["sha256"] = sum.hexdigest()
        out.append(orjson.dumps(value) + b"\n")
        sum.update(out[-1])
    return out


def setting(type: str, **values: Any) -> Callable[[Line], None]:
    return lambda line: line.update(values) if line["type"] == type else None


def in_row(name: str, value: Any, table: str = "messages") -> Callable[[Line], None]:
    return lambda line: line["row"].update({name: value}) if line.get("table") == table else None


@pytest.mark.parametrize(
    "change",
    [
        setting("chain", length="9"), setting("chain", length=True), setting("chain", head=7),
        setting("chain", id=None),
        setting("chain", id={"a": 1}), setting("chain", tenant=["t"]), setting("chain", number=1e9),
        setting("row", place="1"), setting("row", place=None), setting("row", seq=[]), setting("row", seal="zz"),
        setting("row", table="sqlite_master"), setting("row", table=["messages"]), setting("row", row=[]),
        setting("row", row=7), setting("body", data=7), setting("body", data={"base64": "§"}),
        setting("body", hash=None),
        setting("state", table="../../etc/passwd"), setting("state", row=7), setting("state", row={"x": [1]}),
        setting("export", filters=7), setting("export", filters={"tenant; DROP": 1}), setting("export", format="../1"),
        setting("close", rows="many"),
        in_row("role", 7), in_row("is_pinned", "yes"), in_row("importance", "1"), in_row("body", 5),
        in_row("text", {"base64": 1}), in_row("tail", [{"item": 1}], "windows"), in_row("gaps", "x", "windows"),
        in_row("tokens_in", 2**70, "windows"), in_row("tokens_in", None, "windows"),
        in_row("version", "x", "branches"), in_row("id", 7, "branches"), in_row("fold", [1], "working"),
        in_row('id") VALUES (1); --', "x", "branches"),
    ],
)  # fmt: skip
def test_wrong_types_and_names_are_refused(db: Path, tmp_path: Path, change: Callable[[Line], None]) -> None:
    lines = rewritten(exported(db), change) if not _breaks(exported(db), change) else []
    before = set(tmp_path.iterdir())
    with pytest.raises(StoreError):
        restore(lines, tmp_path / "new.db")
    verify_export(lines)  # tells, and does not fail itself
    assert set(tmp_path.iterdir()) == before


def _breaks(lines: list[bytes], change: Callable[[Line], None]) -> bool:
    """A number that no JSON writer of ours can write."""
    try:
        rewritten(lines, change)
    except TypeError:
        return True
    return False


@pytest.mark.parametrize(
    "text",
    [b"", b"\n", b"{}\n", b"[]\n", b"7\n", b"null\n", b'"x"\n', b"\xff\xfe\n", b'{"type":"export"}\n',
     b"[" * 100_000 + b"\n",
     b'{"type":"row","table":"messages","place":1,"seq":1,"seal":"","row":null}\n', b'{"type":"state"}\n',
     b'{"type":"end","sha256":"x"}\n', b'{"type":["export"]}\n'],
)  # fmt: skip
def test_what_is_no_export(text: bytes, tmp_path: Path) -> None:
    assert not verify_export(lines_of(io.BytesIO(text))).holds
    with pytest.raises(StoreError):
        restore(lines_of(io.BytesIO(text)), tmp_path / "new.db")
    assert not list(tmp_path.iterdir())


def test_a_line_without_end_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_LINE_BYTES", 1000)
    file = io.BytesIO(json.dumps({"type": "export", "x": "y" * 5000}).encode() + b"\n")
    assert max(map(len, lines_of(file))) == 1000
    file.seek(0)
    assert "breaks off" in told(verify_export(lines_of(file)))


def test_an_import_with_the_key_keeps_it_and_checks_it(db: Path, tmp_path: Path) -> None:
    key, lines = db.with_suffix(".secret").read_bytes(), exported(db)
    with pytest.raises(StoreError, match="signed"):
        restore(lines, tmp_path / "a.db", secret=b"k" * 32)
    assert not list(tmp_path.glob("a.*"))
    restore(lines, tmp_path / "a.db", secret=key)
    assert (tmp_path / "a.secret").read_bytes() == key
    (tmp_path / "b.secret").write_bytes(b"o" * 32)
    with pytest.raises(StoreError, match="another key"):
        restore(lines, tmp_path / "b.db", secret=key)
