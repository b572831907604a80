"""The scripted model: it acts on what it can read, fetches what a stub leads it to, and is wrong otherwise."""

from __future__ import annotations

import json
from typing import Any

from proxy.evaluation.scripted.reader import TOOL, UNKNOWN, Reader, is_in_sight, stubs
from proxy.evaluation.scripted.spec import Story, tell

TRADE = {"trade": "harbour", "system": "You watch.", "names": {"gauge": "number", "place": "word"}}
MOVES: list[dict[str, Any]] = [
    {"say": "Look at the log of {place}."},
    {"do": "read_log place={place}", "gives": "log 20", "plant": "the gauge said {gauge} twice"},
    {"rule": "Never open the sluice."},
    {"heed": "Never open the sluice.", "act": "note gauge={?gauge}", "otherwise": "open_sluice now=yes"},
]
STUB = "[left out: read_log place {place} · id abcdefghijk2 · 1,200 chars]"


def made() -> tuple[Story, dict[str, str], list[dict[str, Any]]]:
    story = tell({"name": "tide", "moves": MOVES}, TRADE, 1)
    right = {"gauge": story.moves[3].needs[0].value, "place": story.moves[1].calls[0].arguments["place"]}
    said = [{"role": "user", "content": story.moves[0].said}]
    return story, right, said


def ready(story: Story, said: list[dict[str, Any]]) -> Reader:
    """Asked once: the log is called for."""
    reader = Reader(story)
    answer = reader(said)
    assert [call.name for call in answer.calls] == ["read_log"]
    return reader


RULE = {"role": "user", "content": "Never open the sluice."}


def test_what_stands_there_is_used() -> None:
    story, right, said = made()
    reader = ready(story, said)
    answer = reader([*said, {"role": "tool", "content": f"x\nthe gauge said {right['gauge']} twice\ny"}, RULE])
    assert json.loads(answer.calls[0].arguments) == {"gauge": right["gauge"]}
    assert not reader.seen[0].unmet and reader.fetching == [False, False]


def test_a_stub_is_followed_and_paid_for() -> None:
    story, right, said = made()
    reader = ready(story, said)
    window = [*said, {"role": "tool", "content": STUB.format(**right)}, RULE]
    fetch = reader(window).calls[0]
    assert fetch.name == TOOL and json.loads(fetch.arguments) == {"id": "abcdefghijk2"}
    answer = reader([*window, {"role": "tool", "content": f"the gauge said {right['gauge']} twice"}])
    assert json.loads(answer.calls[0].arguments)["gauge"] == right["gauge"]
    (seen,) = reader.seen
    assert seen.unmet and not seen.unmet_expanded and reader.fetching == [False, True, False]


def test_a_stub_that_says_nothing_of_it_is_not_followed() -> None:
    story, _, said = made()
    reader = ready(story, said)
    answer = reader([*said, {"role": "tool", "content": "[left out · id abcdefghijk2 · 900 chars]"}, RULE])
    assert json.loads(answer.calls[0].arguments) == {"gauge": UNKNOWN}


def test_no_more_than_two_fetches_a_move() -> None:
    story, right, said = made()
    reader = ready(story, said)
    lines = "\n".join(STUB.format(**right).replace("ijk2", f"ij{n}a") for n in (2, 3, 4))
    window = [*said, {"role": "tool", "content": lines}, RULE]
    assert [reader(window).calls[0].name for _ in range(3)] == [TOOL, TOOL, "note"]


def test_a_rule_out_of_sight_is_broken() -> None:
    story, right, said = made()
    reader = ready(story, said)
    answer = reader([*said, {"role": "tool", "content": f"the gauge said {right['gauge']} twice"}])
    assert answer.calls[0].name == "open_sluice" and not reader.seen[0].has_rule
    assert is_in_sight("Never open", [RULE]) and not is_in_sight("Never open", said)


def test_ids_with_their_lines() -> None:
    text = "- abcdefghijk2 read_log place x · 9 chars\nnothing\n[id bcdefghijk23 · excerpt]"
    assert stubs([{"role": "user", "content": text}]) == [
        ("abcdefghijk2", "- abcdefghijk2 read_log place x · 9 chars"),
        ("bcdefghijk23", "[id bcdefghijk23 · excerpt]"),
    ]


def test_what_is_done_otherwise_may_name_what_the_right_thing_does_not() -> None:
    moves = [*MOVES[:3], {"heed": MOVES[2]["rule"], "act": "wait now=yes", "otherwise": "open_sluice place={?place}"}]
    story = tell({"name": "tide", "moves": moves}, TRADE, 1)
    said = [{"role": "user", "content": story.moves[0].said}]
    answer = ready(story, said)([*said, {"role": "tool", "content": "nothing"}])
    assert [call.name for call in answer.calls] == ["open_sluice"]
    assert json.loads(answer.calls[0].arguments) == {"place": story.moves[1].calls[0].arguments["place"]}
