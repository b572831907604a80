"""The tools' side: the same answer to the same call, and a verdict by what was done."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from proxy.evaluation.scripted.spec import tell
from proxy.evaluation.scripted.world import World, where, whole
from tests.proxy.evaluation.scripted.test_reader import TRADE, made


def test_calls_are_answered_by_what_they_say() -> None:
    story, right, _ = made()
    world = World(story)
    log = world.run("read_log", json.dumps({"place": right["place"]}))
    assert f"the gauge said {right['gauge']} twice" in log
    assert world.run("read_log", json.dumps({"place": right["place"]})) == log
    assert world.run("read_log", '{"place": "elsewhere"}') == "nothing found"
    assert world.run("note", '{"gauge": "1"}') == "recorded"  # it believes what it is told
    assert world.run("fly", "{}").startswith("error") and world.run("note", "[").startswith("error")


@pytest.mark.parametrize(
    ("calls", "passed"),
    [
        ([("note", True)], True),
        ([("note", False)], False),
        ([], False),
        ([("note", True), ("open_sluice", True)], False),
    ],
)
def test_the_verdict(calls: list[tuple[str, bool]], passed: bool) -> None:
    story, right, _ = made()
    world = World(story)
    for tool, is_right in calls:
        arguments = {"gauge": right["gauge"] if is_right else "7"} if tool == "note" else {"now": "yes"}
        world.run(tool, json.dumps(arguments))
    (check,) = world.checks()
    assert check.passed is passed and "heeding" in check.name


def test_the_list_of_a_direct_run() -> None:
    story, _, _ = made()
    lists = whole(story)
    assert [len(one) for one in lists] == [2, 4, 6, 8] and [m["role"] for m in lists[0]] == ["system", "user"]
    assert all(longer[: len(shorter)] == shorter for shorter, longer in pairwise(lists))
    assert where("gauge said", lists[-1]) == 3 and where("no such words", lists[-1]) == -1


def test_what_only_some_calls_have_is_not_required_and_nothing_is_no_argument() -> None:
    moves = [{"say": "Read."}, {"do": "read path=a"}, {"do": "read path=a rev=2", "plant": "it is {gauge}"}]
    world = World(tell({"name": "twice", "moves": moves}, TRADE, 1))
    (tool,) = world.tools()
    assert tool["function"]["parameters"]["required"] == ["path"]
    assert world.run("read", '{"path": "a", "rev": null}') == world.run("read", '{"path": "a", "rev": ""}') == "ok"
    assert world.run("read", '{"path": "a", "rev": 2}').startswith("it is ")
