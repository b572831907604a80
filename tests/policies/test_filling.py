"""What of an old region stays: within its room, better with more room, the same for the same question."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from policies.filling import Filler, header_tokens
from policies.model import Candidate
from policies.scoring import Weights
from policies.segments import split
from policies.testing import make_situation
from tests.policies import runs

RUN = runs.run(30)
OLD = range(2, 50)
FILLER = Filler(Weights.make())


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 9_000), st.integers(0, 3_000))
def test_the_room_is_kept_and_more_room_is_never_worth_less(room: int, more: int) -> None:
    situation = make_situation(RUN)
    one, other = FILLER.fill(situation, OLD, room), FILLER.fill(situation, OLD, room + more)
    assert one.tokens <= room
    assert other.worth >= one.worth - 1e-9
    for index, keep in one.keep.items():
        assert list(keep) == sorted(set(keep))
        assert keep[-1] < len(split(RUN[index].text))


def test_with_room_for_all_all_of_it_stays() -> None:
    filling = FILLER.fill(make_situation(RUN), OLD, 1_000_000)
    assert all(filling.keep[i] == tuple(range(len(split(RUN[i].text)))) for i in OLD if RUN[i].text)


def test_a_warm_filler_answers_as_a_fresh_one() -> None:
    warm = Filler(Weights.make())
    for end in range(20, len(RUN), 6):
        warm.fill(make_situation(RUN[:end]), range(2, end - 6), 2_000)
    situation = make_situation(RUN)
    assert warm.fill(situation, OLD, 3_000) == Filler(Weights.make()).fill(situation, OLD, 3_000)


def test_an_item_larger_than_the_room_gives_its_best_lines() -> None:
    made: list[Candidate] = list(RUN[:2])
    body = "\n".join(f"line {n} tells of gauge_{n}" for n in range(3_000))
    runs.add(made, "assistant", 'bash({"command": "cat big.log"})', call=1)
    runs.add(made, "tool_result", body, call=1, tool="bash", source="cat big.log", group=made[-1].group)
    runs.add(made, "assistant", "gauge_1234 was the one.", call=2)
    filling = FILLER.fill(make_situation(made), [2, 3], 500)
    assert 10 < len(filling.keep[3]) < 300
    assert filling.tokens <= 500


def test_a_header_says_the_call_and_is_paid_for() -> None:
    assert header_tokens(RUN[3]) > header_tokens(RUN[2])
