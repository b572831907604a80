"""Rounds of a reply without a server: what is kept, its rows, and the turn that follows."""

from __future__ import annotations

from pathlib import Path

from proxy.config.sections import ExpandConfig
from proxy.expander import Expander
from proxy.rounds import Rounds
from proxy.store.null import NullStore
from tests.support import builders, replies
from tests.support.turns import bench

START = [builders.system(), builders.user("read the gauges"), *builders.steps(2, 1500)]


async def test_a_round_is_kept_with_its_result_and_the_next_turn_carries_both(tmp_path: Path) -> None:
    made = bench(tmp_path)
    turn = await made.begin(START)
    made.record(turn)
    turn.tool = "ctx_expand"
    rounds = Rounds("x1", Expander(NullStore(), made.tokenizer, ExpandConfig(rounds=1)), made.turns)
    reader = rounds.reader(turn.fmt, turn, is_stream=True)
    target = turn.measured.ids[3]
    call = replies.tool_call("call_1", "ctx_expand", {"id": target, "lines": "1"})
    reader.feed(b"".join(replies.chat_events("", calls=[call])))
    assert reader.wants_more
    kept = await rounds.answer(turn, reader.round())
    assert kept.targets == (target,) and [item.kind for item in kept.rows.items] == ["tool_call", "tool_result"]
    (link,) = kept.rows.links
    assert (link.a, link.b, link.type) == (kept.spoken.result_ids[0], target, "cites")
    after = await rounds.follow(turn, kept)
    assert after.exchange == rounds.id == "x1.2" and after.window == "x1.2-1"
    assert len(after.conversation.elements) == len(START) + 2 and after.own.conversation is turn.conversation
    assert after.conversation.hidden == {item for item, _ in kept.hidden}
    assert turn.live.state.importance == {target: 1.0}
    assert rounds.reader(turn.fmt, after, is_stream=True) is reader and not reader.wants_more
    reader.feed(b"".join(replies.chat_events("", calls=[call])))
    last = await rounds.answer(after, reader.round())
    assert "nothing more" in last.spoken.results[0].text
    assert (await rounds.follow(after, last)).edits.forbid_calls
