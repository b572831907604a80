"""Other numbers and names, the same everywhere; what holds the run together stays."""

from __future__ import annotations

import json

from proxy.evaluation.recorded.labels import derive
from proxy.evaluation.recorded.renaming import renamed
from proxy.evaluation.recorded.runs import run_of
from proxy.tokenizer import Tokenizer
from tests.proxy.evaluation.recorded.made import messages, run


def test_numbers_and_names_are_others_and_the_same_everywhere() -> None:
    old = messages()
    new = renamed(old, 7)
    assert renamed(old, 7) == new != renamed(old, 8)
    line = next(line for line in old[3]["content"].splitlines() if line.startswith("limit_100"))
    assert line not in json.dumps(new) and "limit_100" not in json.dumps(new).replace("limit_100_of", "")
    changed = [line for line in new[3]["content"].splitlines() if "checked by hand" in line]
    copies = sum(changed[0] in json.dumps(message) for message in new)
    assert copies == sum(line in json.dumps(message) for message in old)


def test_what_holds_the_run_together_stays() -> None:
    old = messages()
    new = renamed(old, 7)
    assert [m["role"] for m in new] == [m["role"] for m in old]
    assert [m.get("tool_call_id") for m in new] == [m.get("tool_call_id") for m in old]
    for message in new:
        for call in message.get("tool_calls") or ():
            assert set(json.loads(call["function"]["arguments"])) <= {"path", "new"}


def test_the_needs_are_the_same_under_other_names() -> None:
    new = renamed(messages(), 7)
    found = derive(run_of("made-1", new, Tokenizer()), new)
    assert [(s.index, [f.sources for f in s.facts]) for s in found.steps] == [
        (s.index, [f.sources for f in s.facts]) for s in run().steps
    ]


def test_parts_of_a_content() -> None:
    parts = [{"type": "text", "text": "order 48151623 of 48151623"}, {"type": "image_url"}]
    (found,) = renamed([{"role": "user", "content": parts}], 1)
    one, other = found["content"][0]["text"].removeprefix("order ").split(" of ")
    assert one == other != "48151623" and found["content"][1] == parts[1]
