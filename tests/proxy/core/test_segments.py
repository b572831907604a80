"""Seams of a history: at user turns and finished work, never inside a group, never moved by what comes later."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy.core.segments import Passage, Segment, segments


def step(group: int, chars: int = 500) -> list[Passage]:
    return [Passage(group, calls=1, chars=20), Passage(group, chars=chars)]


def test_a_user_turn_ends_a_segment_of_some_size() -> None:
    history = [Passage(0, is_user=True, chars=50), *step(1), Passage(2, is_user=True, chars=50), *step(3)]
    assert segments(history, least_chars=500) == [Segment(0, 3, True), Segment(3, 6, False)]
    assert segments(history, least_chars=5_000) == [Segment(0, 6, False)]


def test_a_finished_subtask_ends_one_too() -> None:
    history = [*step(0), Passage(1, calls=1), Passage(1, chars=9_000, ends_subtask=True), *step(2)]
    assert segments(history) == [Segment(0, 4, True), Segment(4, 6, False)]
    # Also where the result that ends it is not the last of its group.
    beside = [*history[:4], Passage(1, chars=10), *step(2)]
    assert segments(beside) == [Segment(0, 5, True), Segment(5, 7, False)]


def test_endless_work_is_cut_by_size() -> None:
    history = [passage for group in range(100) for passage in step(group)]
    assert [len(one.span) for one in segments(history)] == [80, 80, 40]
    assert [len(one.span) for one in segments(history, most_chars=5_200)] == [20] * 10


def test_waiting_user_messages_stay_together() -> None:
    history = [Passage(number, is_user=True, chars=9_000) for number in range(3)]
    assert segments(history) == [Segment(0, 3, False)]
    assert segments([]) == []


HISTORY = st.lists(
    st.builds(
        Passage,
        group=st.just(0),
        is_user=st.booleans(),
        calls=st.integers(0, 3),
        chars=st.integers(0, 20_000),
        ends_subtask=st.booleans(),
    ),
    max_size=60,
)


@given(HISTORY, st.lists(st.booleans(), min_size=60, max_size=60), st.integers(0, 60))
def test_nothing_lost_no_group_split_no_seam_moved(history: list[Passage], breaks: list[bool], length: int) -> None:
    groups = [sum(breaks[: index + 1]) for index in range(len(history))]
    history = [
        Passage(group, one.is_user, one.calls, one.chars, one.ends_subtask)
        for group, one in zip(groups, history, strict=True)
    ]
    found = segments(history)
    assert [index for one in found for index in one.span] == list(range(len(history)))
    for one in found[1:]:
        assert history[one.start].group != history[one.start - 1].group
    closed = [one for one in segments(history[:length]) if one.is_closed]
    assert found[: len(closed)] == closed
