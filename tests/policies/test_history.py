"""What a run's history remembers, and that it reads only what is new."""

from __future__ import annotations

from policies.history import RARE, Histories
from tests.policies import runs


def test_growing_reads_only_what_is_new() -> None:
    histories = Histories()
    long = runs.run(12)
    histories.of(long[:14])
    made = histories.readings.made
    grown = histories.of(long)
    assert histories.readings.made - made == len(long) - 14
    assert histories.of(long) is grown
    assert histories.readings.made == len(long)


def test_a_grown_history_is_the_one_made_at_once() -> None:
    long = runs.run(12)
    histories = Histories()
    for end in range(4, len(long) + 1, 3):
        histories.of(long[:end])
    grown, fresh = histories.of(long), Histories().of(long)
    for name in ("held_by", "first", "last", "last_said", "last_line", "named", "edited", "ends", "calls", "exchanges"):
        assert getattr(grown, name) == getattr(fresh, name), name


def test_a_changed_item_begins_a_history_of_its_own() -> None:
    one, other = runs.run(6, seed=1), runs.run(6, seed=2)
    histories = Histories()
    first = histories.of(one)
    assert histories.of(other) is not first
    assert histories.of(one) is first
    assert histories.of(one[:5]) is not first


def test_what_it_remembers() -> None:
    made = list(runs.run(0))
    for call, text in ((1, "level_of_north is read"), (2, "now level_of_north again"), (3, "else")):
        runs.add(made, "assistant", text, call=call)
        runs.add(made, "tool_result", "a line that comes back\nx", call=call, group=made[-1].group)
    history = Histories().of(made)
    assert history.first["level_of_north"] == 2
    assert history.last_said["level_of_north"] == 4
    assert history.last_line["a line that comes back"] == 7
    assert history.newest == 3
    assert history.held_by["level_of_north"] == 2 <= RARE
