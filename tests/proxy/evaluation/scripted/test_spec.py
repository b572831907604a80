"""Stories are told from their specifications: seeded, complete, with every fact said before it is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from proxy.errors import ConfigError
from proxy.evaluation.scripted.reader import read
from proxy.evaluation.scripted.spec import Story, tell, trades, words
from proxy.evaluation.scripted.world import whole
from tests.support.serve import ROOT

PLOTS = [(trade, plot) for trade in trades() for plot in trade["plot"]]
NAMES = [f"{trade['trade']}-{plot['name']}" for trade, plot in PLOTS]


def story(seed: int = 1, **plot: Any) -> Story:
    trade = {"trade": "harbour", "system": "You watch.", "names": {"gauge": "number", "place": "word"}}
    return tell({"name": "tide", **plot}, trade, seed)


def test_there_are_six_trades() -> None:
    assert len({trade["trade"] for trade, _ in PLOTS}) == 6 and len(PLOTS) >= 18


@pytest.mark.parametrize(("trade", "plot"), PLOTS, ids=NAMES)
def test_every_story_can_be_told_and_read(trade: dict[str, Any], plot: dict[str, Any]) -> None:
    """With all of it in sight, every value that must be read is the right one: no distractor stands in its way."""
    for seed in range(1, 6):
        told = tell(plot, trade, seed)
        lists = whole(told)
        checked = [move for move in told.moves if move.is_checked]
        assert len(checked) >= 2 and any(move.needs for move in checked)
        for move in checked:
            for need in move.needs:
                assert read(need, lists[-1]) == need.value, (told.name, need.name)
            assert not move.rule or any(move.rule == other.said for other in told.moves)


def test_another_seed_is_another_story() -> None:
    trade, plot = PLOTS[0]
    one, other = tell(plot, trade, 1), tell(plot, trade, 2)
    assert one.digest != other.digest and one.moves[0].said != other.moves[0].said
    values = [{need.value for move in told.moves for need in move.needs} for told in (one, other)]
    assert len(values[0] & values[1]) < len(values[0]) / 2


def test_the_same_in_every_process() -> None:
    code = "from proxy.evaluation.scripted.spec import *; t = trades()[0]; print(tell(t['plot'][0], t, 1).digest)"
    found = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, cwd=ROOT, text=True,
            capture_output=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(found) == 1


def test_a_new_value_counts_from_where_it_is_said() -> None:
    told = story(
        moves=[
            {"say": "At {place} it is {gauge} now."},
            {"say": "At {place} it is {gauge!} now."},
            {"act": "note at={?gauge}"},
        ]
    )
    old, new = (move.said.split()[-2] for move in told.moves[:2])
    (need,) = told.moves[2].needs
    assert old != new == need.value == told.moves[2].calls[0].arguments["at"]
    assert read(need, [{"role": "user", "content": told.moves[0].said}]) == old  # who sees the old one believes it


def test_what_nothing_says_cannot_be_needed() -> None:
    with pytest.raises(ConfigError, match="before anything said it"):
        story(moves=[{"act": "note at={?gauge}"}])


def test_parallel_calls_and_noise() -> None:
    told = story(
        moves=[
            {"both": ["look at=east", "look at=west"], "gives": "log 20", "plant": "gauge of {place} is {gauge}"},
            {"wander": "look at={place}", "times": 3, "gives": "log 20", "noise": "gauge of {place} is {gauge}"},
            {"act": "note at={?place} is={?gauge}"},
        ]
    )
    assert [call.arguments["at"] for call in told.moves[0].calls] == ["east", "west"]
    assert len(told.moves) == 5 and told.tools == {"look": ("at",), "note": ("at", "is")}
    assert all(need.value not in move.calls[0].result for move in told.moves[1:4] for need in told.moves[4].needs)


def test_words_to_look_by() -> None:
    assert words("Lease of Barford was lost at 09:41, in log-7") == {"lease", "barford", "lost", "09:41", "log-7"}
