"""Export formats: complete, safe, the same conversations as the list, whole files, and going on after a break."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from proxy.audit import chat, flat_files, jsonl, tables, transcript
from proxy.audit.exporting import stream, write_files
from proxy.audit.reading import Reader
from proxy.audit.verify import verify_export
from proxy.core.filters import Filters
from proxy.errors import ConfigError, NotFoundError
from proxy.store.archive import Archive
from proxy.store.listing import listed, totals
from tests.support.audited import FORMULAS, IMAGE, LONG_ARGUMENT, SECRET_KEY, WINDOW

ROOT = Path(__file__).resolve().parents[3]


def text_of(db: Path, format: Any, filters: Filters | None = None, **options: Any) -> str:
    with Archive(db) as archive:
        pieces = list(stream(archive, format, filters or Filters(), version="1", **options))
    return b"".join(pieces).decode()


def rows_of(db: Path, kind: tables.Kind) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text_of(db, "csv", kind=kind), newline="")))


def lines_of(db: Path, filters: Filters | None = None) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text_of(db, "jsonl", filters).splitlines()]


def rows_in(lines: list[dict[str, Any]], table: str) -> list[dict[str, Any]]:
    return [line["row"] for line in lines if line["type"] == "row" and line["table"] == table]


def test_audt_01_no_cell_is_a_formula_and_jsonl_keeps_it_raw(db: Path) -> None:
    csv.field_size_limit(1 << 24)
    texts = [row["text"] for row in rows_of(db, "items")]
    for formula in FORMULAS:
        assert "'" + formula in texts and formula not in texts
    for row in (row for kind in tables.KINDS for row in rows_of(db, kind)):
        assert not any(
            value.startswith(("=", "+", "-", "@", "\t", "\r")) and not is_number(value) for value in row.values()
        )
    originals = [json.loads(line["original"]) for line in lines_of(db) if "original" in line]
    assert [o["content"] for o in originals if o["content"] in FORMULAS] == FORMULAS
    assert any(o.get("tool_calls", [{}])[0].get("function", {}).get("name") == "=cmd" for o in originals)


def is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", text) is not None


def test_audt_02_everything_in_full(db: Path) -> None:
    lines = lines_of(db)
    originals = "".join(line["original"] for line in lines if "original" in line)
    assert LONG_ARGUMENT[:-1] in originals and IMAGE in originals and "row 4: gauge" in originals
    assert "failed: no such file" in originals
    forms = {entry["form"] for row in rows_in(lines, "windows") for entry in row["tail"]}
    assert len(forms) >= 3  # full, stub, folded
    assert {row["outcome"] for row in rows_in(lines, "outcomes")} >= {"ok", "error"}
    assert any("on strike" in row["error"] for row in rows_in(lines, "outcomes"))
    assert all(row["input"] > 0 for row in rows_in(lines, "outcomes") if row["outcome"] == "ok")
    assert rows_in(lines, "summaries") and {line["table"] for line in lines if line["type"] == "state"} >= {
        "links", "folds", "working", "branches",
    }  # fmt: skip
    given = {line["hash"] for line in lines if line["type"] == "body"}
    given |= {line["row"]["body"] for line in lines if "original" in line}
    for row in rows_in(lines, "windows"):
        assert {row["prefix"], row["suffix"], *(entry["body"] for entry in row["tail"])} <= given
    assert SECRET_KEY.split()[1] not in "".join(map(str, lines))


@pytest.mark.parametrize(
    "change",
    [
        *({"model": "other-2"}, {"model": "scripted*"}, {"outcome": "error"}, {"tenant": "?"}, {}),
        *({"since": "2999-01-01"}, {"until": "2999-01-01"}),
    ],
)
def test_audt_02_the_same_rows_as_the_filtered_view(db: Path, change: dict[str, str]) -> None:
    with Archive(db) as archive:
        chains = list(archive.all_chains(Filters()))
        change = {key: chains[0].tenant if value == "?" else value for key, value in change.items()}
        filters = Filters(**change).in_utc()
        shown = archive.read(lambda connection: listed(connection, filters, 100))
        sums = archive.read(lambda connection: totals(connection, filters))
    lines = lines_of(db, filters)
    chosen = [line["id"] for line in lines if line["type"] == "chain" and not line["id"].startswith("~")]
    assert sorted(one.id for one in shown) == sorted(chosen)
    assert bool(chosen) == ("since" not in change)
    assert sums["conversations"] == len(chosen)
    messages = rows_in(lines, "messages")
    assert sum(one.items for one in shown) == len(messages)
    assert sum(one.exchanges for one in shown) == len([e for e in rows_in(lines, "exchanges") if e["conversation"]])


def test_audt_04_times_are_utc_and_the_order_is_arrival(tmp_path: Path) -> None:
    """A clock that jumps back and a zone that changes its own: neither moves a row."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[2]); from pathlib import Path; import proxy.recording as r;"
        "from datetime import datetime as D, timedelta as T; import itertools; real = D;"
        "ticks = itertools.cycle([0, 0, -3600, 5, 5]);\n"
        "class Jumping(D):\n"
        "    @classmethod\n"
        "    def now(cls, tz=None): return real.now(tz) + T(seconds=next(ticks))\n"
        "r.datetime = Jumping\n"
        "from tests.support.audited import fill; fill(Path(sys.argv[1]))\n"
    )
    db = tmp_path / "ctx.db"
    environment = {**os.environ, "TZ": "America/Sao_Paulo"}
    subprocess.run([sys.executable, "-c", script, str(db), str(ROOT)], check=True, env=environment, capture_output=True)
    lines = lines_of(db)
    stamps = [row[name] for line in lines if line["type"] == "row" for row in [line["row"]]
              for name in ("created_at", "ended_at") if name in row]  # fmt: skip
    assert stamps and all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", stamp) for stamp in stamps)
    assert stamps != sorted(stamps)  # the clock did step back
    for chain in {line["id"] for line in lines if line["type"] == "chain"}:
        start = next(i for i, line in enumerate(lines) if line["type"] == "chain" and line["id"] == chain)
        end = next(i for i in range(start, len(lines)) if lines[i]["type"] == "end")
        rows = [line for line in lines[start:end] if line["type"] == "row"]
        assert [row["place"] for row in rows] == list(range(1, len(rows) + 1))
        arrived = [json.loads(row["original"]).get("content") for row in rows if row["table"] == "messages"]
        texts = [text for text in arrived if isinstance(text, str) and text.startswith("now compact")]
        assert [text.split()[2] for text in texts] == sorted(text.split()[2] for text in texts)


def test_audt_06_every_request_has_its_manifest_and_the_export_joins_them(db: Path) -> None:
    exchanges = [row for row in rows_of(db, "exchanges") if row["verdict"] != "bypass"]
    assert len(exchanges) > 8 and all(row["window"] and row["out_hash"] and row["out_bytes"] for row in exchanges)
    forms = rows_of(db, "forms")
    assert {row["window"] for row in forms} >= {row["window"] for row in exchanges if row["tokens_out"] != "0"} - {""}
    stubs = [row for row in forms if row["form"] == "stub"]
    assert stubs and all(row["reason"] and int(row["bytes_after"]) < int(row["bytes_before"]) for row in stubs)
    assert any(row["form"] == "folded" and int(row["bytes_after"]) > 0 for row in forms)
    assert all(len(row["body_hash"]) == 32 and len(row["out_hash"]) == 64 for row in forms)


def test_chat_lines_are_the_clients_own_messages(db: Path) -> None:
    lines = [json.loads(line) for line in text_of(db, "chat").splitlines()]
    assert len(lines) == 2
    first = next(line for line in lines if line["messages"][1]["content"] == "survey the harbour")
    assert [m["role"] for m in first["messages"]][:4] == ["system", "user", "assistant", "tool"]
    assert "omitted" not in json.dumps(first) and first["tools"][0]["function"]["name"] == "look"
    assert IMAGE in json.dumps(first)
    calls = {c["id"] for m in first["messages"] for c in m.get("tool_calls") or ()}
    assert {m["tool_call_id"] for m in first["messages"] if m["role"] == "tool"} == calls


def test_responses_items_become_chat_messages() -> None:
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "2", "name": "g", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "x"},
        {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]},
        {"type": "custom_tool_call", "call_id": "3", "name": "h", "input": "i"},
    ]
    found = [json.loads(raw) for raw in chat.as_chat([json.dumps(item).encode() for item in items] + [b"[", b"1"])]
    assert [m["role"] for m in found] == ["user", "assistant", "tool", "user", "assistant"]
    assert found[0]["content"] == "a" and [c["id"] for c in found[1]["tool_calls"]] == ["1", "2"]
    assert found[3]["content"] == [{"type": "image_url", "image_url": {"url": "data:,"}}]


def test_a_transcript_shows_words_and_runs_none(db: Path) -> None:
    page = text_of(db, "html")
    assert "survey the harbour" in page and "default-src &#x27;none&#x27;" not in page
    assert "<script" not in page.replace("&lt;script", "") and "default-src 'none'" in page
    assert page.endswith("</body></html>\n")
    with Archive(db) as archive:
        assert list(transcript.write(archive, Filters(), exported_at="<b>"))[1].count(b"&lt;b&gt;") == 1


def test_parquet_opens_with_the_same_rows(db: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    with Archive(db) as archive:
        written = write_files(archive, "parquet", Filters(), tmp_path / "out.parquet", version="1")
    assert [path.name for path in written] == ["out.parquet", "out.exchanges.parquet", "out.forms.parquet"]
    for path, kind in zip(written, tables.KINDS, strict=True):
        found = parquet.read_table(path).to_pylist()
        assert len(found) == len(rows_of(db, kind)) > 10
        assert list(found[0]) == list(tables.COLUMNS[kind])
    items = parquet.read_table(written[0]).to_pylist()
    assert [i["text"] for i in items if i["text"] in FORMULAS] == FORMULAS
    assert not list(tmp_path.glob("*.part"))


def test_parquet_needs_a_file_and_the_extra(db: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be streamed"):
        text_of(db, "parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match="needs pyarrow"):
        flat_files.write_parquet([], "items", tmp_path / "x")


def test_csv_files_stand_beside_each_other(db: Path, tmp_path: Path) -> None:
    with Archive(db) as archive:
        written = write_files(archive, "csv", Filters(), tmp_path / "out.csv", version="1")
        write_files(archive, "html", Filters(), tmp_path / "out.html", version="1")
    assert {path.name for path in tmp_path.glob("out*")} == {path.name for path in written} | {"out.html"}


class BrokenOffError(RuntimeError):
    pass


@pytest.mark.parametrize("rows", [1, 40, 95, 107])
def test_a_complete_export_goes_on_where_it_stopped(db: Path, tmp_path: Path, rows: int, monkeypatch: Any) -> None:
    monkeypatch.setattr("proxy.store.archive.PAGE_ROWS", 7)
    done = 0

    def stop(count: int) -> None:
        nonlocal done
        done += count
        if done >= rows:
            raise BrokenOffError

    out, part = tmp_path / "out.jsonl", tmp_path / "out.jsonl.part"
    with Archive(db) as archive:
        with pytest.raises(BrokenOffError):
            write_files(archive, "jsonl", Filters(), out, version="1", on_rows=stop)
        assert part.exists() and not out.exists()
        part.write_bytes(part.read_bytes()[:-11])  # the last line was not whole
        write_files(archive, "jsonl", Filters(), out, version="1", is_resumed=True)
        stamp = json.loads(out.read_bytes().splitlines()[0])["exported_at"]
        whole = b"".join(jsonl.write(archive, Filters(), exported_at=stamp, version="1"))
    assert out.read_bytes() == whole and not part.exists()
    assert verify_export(out.read_bytes().splitlines(keepends=True)).holds


def test_going_on_needs_the_part_and_the_same_filters(db: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with Archive(db) as archive:
        with pytest.raises(NotFoundError, match=r"no .*part"):
            write_files(archive, "jsonl", Filters(), out, version="1", is_resumed=True)
        lines = list(stream(archive, "jsonl", Filters(model="other-2"), version="1"))
        (tmp_path / "out.jsonl.part").write_bytes(b"".join(lines[:4]))
        with pytest.raises(ConfigError, match="other filters"):
            write_files(archive, "jsonl", Filters(), out, version="1", is_resumed=True)


def test_what_is_written_meanwhile_waits_for_the_next_export(db: Path) -> None:
    """A chain is exported up to the length that its line names."""
    reader = Reader()
    with Archive(db) as archive:
        lines = stream(archive, "jsonl", Filters(), version="1")
        for event in reader.read(lines):
            if event.chain is not None:
                assert event.chain.length <= WINDOW
    assert not reader.finish()
