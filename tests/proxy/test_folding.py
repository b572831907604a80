"""A fold: made once for what it covers, bounded in tokens, the same from the same originals."""

from __future__ import annotations

from pathlib import Path

from proxy.core.identity import item_ids
from proxy.folding import FoldMaker, FoldSource
from proxy.wire.chat import ChatFormat
from tests.support import builders
from tests.support.turns import bench

MESSAGES = [builders.system(), builders.user("read"), *builders.steps(12, 900), builders.user("so?")]


async def source_of(tmp_path: Path, room: int = 4_000) -> FoldSource:
    body = builders.body_bytes(builders.request(MESSAGES))
    conversation = ChatFormat().decode(body, {})
    ids = item_ids("c", conversation.elements)
    measured = await bench(tmp_path).builder.measure(conversation, "c", ids)
    return FoldSource("c", conversation.elements, measured.facts, room)


async def test_a_fold_is_made_once_for_what_it_covers(tmp_path: Path) -> None:
    tokenizer = bench(tmp_path).tokenizer
    maker, source = FoldMaker(tokenizer), await source_of(tmp_path)
    covers = tuple(fact.id for fact in source.facts[2:20])
    made = maker.make(source, None, covers, "guard")
    assert made is not None and made.fold.covers == covers and f"Its id is {made.fold.item}.]" in made.fold.text
    same = maker.make(source, made.fold, covers, "rent")
    assert same is not None and same.fold is made.fold
    assert FoldMaker(tokenizer).make(source, None, covers, "guard") == made
    assert maker.make(source, None, (), "rent") is None
    assert tokenizer.count(made.fold.text) <= 200 + 25 * 9 + 8
