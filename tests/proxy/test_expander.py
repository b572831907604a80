"""Answers of the tool from a turn alone: originals, summaries, what was shown, and what is not of this path."""

from __future__ import annotations

import json
from pathlib import Path

from proxy.config.sections import ExpandConfig
from proxy.expander import LIMIT_REACHED, Expander
from proxy.store.null import NullStore
from proxy.wire.base import HiddenCall
from tests.support import builders
from tests.support.turns import bench

START = [builders.system(), builders.user("read the gauges"), *builders.steps(2, 1500)]


async def ask(
    tmp_path: Path, *asks: dict[str, object], is_last: bool = False, tokens: int = 4000
) -> list[tuple[str, str]]:
    made = bench(tmp_path)
    turn = await made.begin(START)
    ids = dict(zip("suARBS", turn.measured.ids, strict=True))
    expander = Expander(NullStore(), made.tokenizer, ExpandConfig(max_tokens=tokens))
    calls = [
        HiddenCall(f"c{n}", json.dumps({**each, "id": ids.get(str(each["id"]), each["id"])}))
        for n, each in enumerate(asks)
    ]
    return [(answer.text, answer.item) for answer in await expander.answer(turn, calls, is_last=is_last)]


async def test_originals_by_id_with_what_they_were(tmp_path: Path) -> None:
    ((text, item),) = await ask(tmp_path, {"id": "R", "lines": "1-2"})
    assert item and text.splitlines()[1] == builders.long_text(0, 1500).splitlines()[0]
    assert "look thing 0" in text.splitlines()[0]
    ((text, _),) = await ask(tmp_path, {"id": "u"})
    assert text.endswith("read the gauges")


async def test_bounded_by_the_setting_and_by_the_call(tmp_path: Path) -> None:
    (one, two) = await ask(tmp_path, {"id": "R"}, {"id": "S", "max_tokens": 30}, tokens=100)
    assert len(one[0]) < 900 and len(two[0]) < len(one[0]) and "left out" in one[0]


async def test_the_same_twice_and_the_limit(tmp_path: Path) -> None:
    first, again, other = await ask(tmp_path, {"id": "R"}, {"id": "R"}, {"id": "R", "lines": "1"})
    assert first[1] and not again[1] and "already shown" in again[0] and other[1]
    assert await ask(tmp_path, {"id": "R"}, is_last=True) == [(LIMIT_REACHED, "")]


async def test_what_is_not_of_this_path_is_not_there(tmp_path: Path) -> None:
    ((text, item),) = await ask(tmp_path, {"id": "aaaaaaaaaaaa"})
    assert text == "error: no id 'aaaaaaaaaaaa' in this conversation" and not item
