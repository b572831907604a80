"""What is read of one item: segments with their share of its tokens, words, objects and kinds."""

from __future__ import annotations

import json
from dataclasses import replace

from policies.reading import Readings, objects_of, read
from policies.testing import make_candidate


def test_an_assistant_turn_has_prose_arguments_and_edits() -> None:
    write = json.dumps({"command": "cat > tide.py <<'EOF'\nlevel = 1\nEOF"})
    look = json.dumps({"path": "gauge/north.py"})
    text = f"Two things at once.\nbash({write})\nread_file({look})"
    reading = read(make_candidate(0, "assistant", 60, text=text))
    assert [line.kind for line in reading.lines] == ["think", "eargs", "eargs", "eargs", "args"]
    assert reading.objects == {"tide.py", "north.py"}
    assert reading.kind == "edit"


def test_tokens_of_segments_are_shares_of_the_items_own_count() -> None:
    text = "\n".join(f"line {n} says something about gauge_{n}" for n in range(50))
    few, many = (read(make_candidate(0, "tool_result", tokens, text=text)) for tokens in (500, 600))
    assert abs(sum(line.tokens for line in few.lines) - 500) <= 50
    assert sum(line.tokens for line in many.lines) > sum(line.tokens for line in few.lines)


def test_marks_are_lines_long_enough_to_be_known_again() -> None:
    reading = read(make_candidate(0, "tool_result", 20, text="    return level_of(north)\n}\n"))
    assert [line.mark for line in reading.lines] == ["return level_of(north)", ""]
    assert [line.is_punct for line in reading.lines] == [False, True]


def test_objects_are_files_without_folders_and_ids() -> None:
    assert objects_of("src/app/views.py and #W2378156, sofia_li_9219, HAT276 np.array") == [
        "views.py", "W2378156", "sofia_li_9219", "HAT276",
    ]  # fmt: skip


def test_an_item_is_read_once() -> None:
    readings = Readings()
    candidate = make_candidate(0, "tool_result", 9, text="one line of text")
    assert readings.of(candidate) is readings.of(replace(candidate, is_seen=False))
    assert readings.made == 1
    readings.of(replace(candidate, text="another text"))
    assert readings.made == 2
