"""A fold: made once for what it covers, bounded in tokens, the same from the same originals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from proxy.core.identity import item_ids
from proxy.folding import FoldMaker, FoldSource, beginnings, history_segments
from proxy.readers import MAKERS
from proxy.windows import Prior
from proxy.wire.chat import ChatFormat
from tests.support import builders
from tests.support.listed import shell
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


async def test_what_the_provider_sealed_stands_for_the_beginning_and_the_rest_is_told(tmp_path: Path) -> None:
    tokenizer = bench(tmp_path).tokenizer
    messages = [builders.system(), builders.user("read")]
    for number in range(40):
        messages += [builders.assistant("noted"), builders.user(f"never open gate {number}. " + "tide " * 300)]
    conversation = ChatFormat().decode(builders.body_bytes(builders.request(messages)), {})
    ids = item_ids("c", conversation.elements)
    measured = await bench(tmp_path).builder.measure(conversation, "c", ids)
    source = FoldSource("c", conversation.elements, measured.facts, 40_000, sealed_for="m")
    maker = FoldMaker(tokenizer)
    made = maker.make(source, None, tuple(ids[2:70]), "guard")
    assert made is not None
    closed = beginnings(source, made.parts)
    assert len(closed) > 1 and [len(start.parts) for start in closed] == list(range(len(closed), 0, -1))
    assert not beginnings(replace(source, sealed_for=""), made.parts)
    start = closed[1]
    raw = '{"type":"compaction","encrypted_content":"gAAA"}'
    sealed = maker.retell(made, {start.segment: raw, closed[-1].segment: "{}"})
    own = sealed.fold.compaction
    assert own is not None and (own.raw, own.item, own.model) == (raw.encode(), start.item, "m")
    assert sealed.told == len(start.parts) and sealed.fold.item != made.fold.item
    assert f"Its id is {sealed.fold.item}.]" in own.text and f"Its id is {sealed.fold.item}.]" in sealed.fold.text
    assert "never open gate 3." in own.text and sealed.fold.covers == made.fold.covers
    assert [slot.raw for slot in sealed.fold.stand_ins("m")] == [raw.encode(), b""]
    assert [slot.note for slot in sealed.fold.stand_ins("other")] == [sealed.fold.text]


async def test_finished_work_is_a_seam_whether_read_at_once_or_bit_by_bit(tmp_path: Path) -> None:
    """Green tests end a segment behind the red ones; a list that grew and one read anew, as after a restart, agree."""
    suite = "collecting the cases of the harbour suite\n" * 220
    messages = [
        builders.system(), builders.user("make it green"),
        *shell(1, "pytest -q tests/", suite + "3 failed, 2 passed in 1s\n"),
        *shell(2, "sed -i s/a/b/ a.py"),
        *shell(3, "pytest -q", suite + "5 passed in 1s\n"),
        *shell(4, "git commit -am green"),
        *shell(5, "ls -R", suite),
    ]  # fmt: skip
    builder = bench(tmp_path, makers=MAKERS).builder
    prior: Prior | None = None
    cuts = []
    for count in (4, 6, 8, 9, len(messages)):
        for known in (prior, None):
            conversation = ChatFormat().decode(builders.body_bytes(builders.request(messages[:count])), {})
            ids = item_ids("c", conversation.elements)
            measured = await builder.measure(conversation, "c", ids, known)
            source = FoldSource("c", conversation.elements, measured.facts, 4_000)
            cuts.append([(one.start, one.stop) for one in history_segments(source) if one.is_closed])
            prior = Prior(measured) if known is prior else prior
    assert cuts[::2] == cuts[1::2]
    assert cuts[-1] == [(0, 8)] and not cuts[0]
