"""What the readers of a list, all together, make of a session: every form on offer, each shorter than the next."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from policies.model import NOT_OFFERED
from proxy.core.forms import kept_segments
from proxy.core.identity import item_ids
from proxy.core.model import Conversation
from proxy.core.situation import Facts
from proxy.measuring import Measured, Measurer
from proxy.readers import MAKERS, RENDER_KEEP
from proxy.tokenizer import Tokenizer
from proxy.turn_rows import request_rows
from proxy.wire.chat import ChatFormat
from tests.support import builders
from tests.support.listed import call, shell, user
from tests.support.turns import bench

TRACES = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "traces"
LOG = "\n".join(f"2026-03-01 INFO berth {n} is quiet" for n in range(300)) + "\nERROR pump 7 stalled\n"
CODE = "\n".join(f"def quay_{n}(ship):\n    tide = read_tide(ship)\n    return tide\n" for n in range(60))
ROWS = json.dumps([{"berth": n, "ship": f"ship_{n}", "note": "x" * (n % 50)} for n in range(300)])
SESSION = [
    user("look at pump_7"), *shell(1, "make all", LOG),
    *shell(2, "cat src/quay.py", CODE), *call(3, "list_ships", ROWS, port="a"),
    *shell(4, "sed -i s/a/b/ src/quay.py"), *shell(5, "cat src/quay.py", CODE + "\n# more"),
    {"role": "assistant", "content": "quay_17 in src/quay.py is the one"},
]  # fmt: skip


async def measured(messages: list[dict[str, object]]) -> tuple[Conversation, Measured]:
    conversation = ChatFormat().decode(builders.body_bytes({"model": "m", "messages": messages}), {})
    measurer = Measurer(Tokenizer(), mask_chars=500, makers=MAKERS)
    return conversation, await measurer.measure(conversation, "c", item_ids("c", conversation.elements))


def ladder(fact: Facts) -> list[int]:
    return [cost for cost in (0, fact.stub_tokens, fact.excerpt_tokens, fact.tokens) if cost != NOT_OFFERED]


async def test_every_form_is_shorter_than_the_next() -> None:
    _, made = await measured(SESSION)
    assert [fact.excerpt for fact in made.facts if fact.excerpt] == ["lines", "outline", "shape", "delta"]
    for fact in made.facts:
        assert ladder(fact) == sorted(set(ladder(fact))), fact
    assert RENDER_KEEP is kept_segments
    assert made.ids[4] in made.stale and made.ids[10] not in made.stale
    assert made.ids[10] in made.facts[-1].cites or made.ids[4] in made.facts[-1].cites


async def test_forms_of_random_texts_keep_their_order() -> None:
    chance = random.Random(7)
    lines = [
        "ERROR pump",
        "def f(x):",
        '{"a": 1}',
        "",
        "港" * 9,
        "x" * 900,
        "- a",
        "+ b",
        "@@ -1 +1 @@",
        "\t\t",
        "😀 " * 30,
    ]
    messages: list[dict[str, object]] = [user("go")]
    for number in range(120):
        text = "\n".join(chance.choice(lines) for _ in range(chance.randrange(1, 200)))
        messages += shell(number, f"step {number}", text)
    _, made = await measured(messages)
    assert sum(bool(fact.excerpt) for fact in made.facts) > 40
    for fact in made.facts:
        assert ladder(fact) == sorted(set(ladder(fact))), fact


@pytest.mark.skipif(not TRACES.is_dir(), reason="no recorded runs here")
@pytest.mark.parametrize("name", ["mini-chat-*.jsonl", "intercode-*.jsonl", "tau-*.jsonl"])
async def test_forms_of_recorded_runs_keep_their_order(name: str) -> None:
    for path in sorted(TRACES.glob(name))[:2]:
        _, made = await measured([json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()])
        for fact in made.facts:
            assert ladder(fact) == sorted(set(ladder(fact))), fact


async def test_links_are_stored_with_the_items(tmp_path: Path) -> None:
    made = bench(tmp_path, makers=MAKERS)
    rows = request_rows(await made.begin(SESSION))
    assert [link.type for link in rows.links].count("replies_to") == 5
    drawn = [link for link in rows.links if link.type in ("cites", "derived_from")]
    ids = [item.id for item in rows.items]
    assert (ids[-1], "cites") in [(link.a, link.type) for link in drawn]
    assert "derived_from" in {link.type for link in drawn}
    assert all(ids.index(link.a) > ids.index(link.b) for link in drawn)
