"""Conversations as one HTML file that needs nothing else and runs nothing: every word of them is shown as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from typing import Any

from proxy.audit.tables import form_name
from proxy.core.display import visible
from proxy.core.filters import Filters
from proxy.store.archive import Archive, ChainLine, SealedRow
from proxy.wire.readable import readable_text

_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>undercliff transcript</title>
<style>
:root { color-scheme: light dark; --line: #8886; --soft: #8882; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
article { border-left: 3px solid var(--line); padding: .2rem .8rem; margin: .8rem 0; }
article.user { border-color: #3b82f6; } article.assistant { border-color: #10b981; }
article.tool { border-color: #f59e0b; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .2rem 0; font: 13px/1.5 ui-monospace, monospace;
  unicode-bidi: plaintext; }
.meta { color: #777; font-size: 12px; } .call { background: var(--soft); padding: .3rem .8rem; font-size: 13px; }
h2 { border-bottom: 1px solid var(--line); }
</style></head><body>
"""


def write(
    archive: Archive, filters: Filters, *, exported_at: str, on_rows: Callable[[int], None] = lambda rows: None
) -> Iterator[bytes]:
    """The page, piece by piece."""
    yield _HEAD.encode()
    yield f'<h1>Transcript</h1><p class="meta">exported {_text(exported_at)}; times are UTC</p>\n'.encode()
    for chain in archive.all_chains(filters):
        yield _title(chain)
        for row in archive.all_rows(chain.number, upto=chain.length):
            on_rows(1)
            if row.values is not None:
                yield _piece(archive, row).encode("utf-8", "replace")
    yield b"</body></html>\n"


def _title(chain: ChainLine) -> bytes:
    facts = f"team {chain.tenant} · {chain.model} · {chain.created_at} to {chain.updated_at}"
    facts += f" · {chain.length} rows, head {chain.head.hex()}"
    return f'<h2>{_text(chain.id)}</h2><p class="meta">{_text(facts)}</p>\n'.encode()


def _piece(archive: Archive, row: SealedRow) -> str:
    values = dict(zip(row.table.names, row.values or (), strict=True))
    name = row.table.name
    if name == "messages":
        return _message(archive, row, values)
    if name == "exchanges":
        facts = f"{values['created_at']} · call {values['id']} · {values['model']} · {values['verdict']}"
        return _call(facts, values["note"])
    if name == "windows":
        changed = [
            (entry[0], form_name(entry[1]), entry[4]) for entry in values["tail"] if form_name(entry[1]) != "full"
        ]
        facts = f"window {values['id']} · {values['tokens_out']} of {values['tokens_in']} tokens · {values['reason']}"
        listed = "".join(f"<li>{_text(item)}: {_text(form)} ({_text(why)})</li>" for item, form, why in changed)
        return _call(facts, "", f"<details><summary>{len(changed)} changed forms</summary><ul>{listed}</ul></details>")
    if name == "outcomes":
        cost = "" if values["cost"] is None else f" · ${values['cost']:.4f}"
        facts = f"{values['outcome']} {values['status']} · {values['input']} in, {values['cached']} cached"
        return _call(f"{facts}, {values['output']} out{cost}", values["error"])
    return ""


def _message(archive: Archive, row: SealedRow, values: dict[str, Any]) -> str:
    data = archive.body(values["body"])
    text = readable_text(data) if data is not None else "(its bytes are missing)"
    facts = f"{values['created_at']} · {values['role']} · {values['kind']} · {values['id']} · place {row.place}"
    role = values["role"] if values["role"].isalpha() else ""
    return f'<article class="{escape(role)}"><div class="meta">{_text(facts)}</div><pre>{_text(text)}</pre></article>\n'


def _call(facts: str, note: str, more: str = "") -> str:
    said = f"<pre>{_text(note)}</pre>" if note else ""
    return f'<div class="call"><span class="meta">{_text(facts)}</span>{said}{more}</div>\n'


def _text(text: str) -> str:
    return escape(visible(text))
