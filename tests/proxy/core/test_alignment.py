"""Two lists laid over each other."""

from __future__ import annotations

import random
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.core.alignment import Alignment, align, common_prefix, is_edited, kind_of, without_known
from proxy.core.identity import Path, emitted, steps_of
from proxy.core.model import Element
from tests.support.talks import assistant, result, user


def turn(n: int) -> list[Element]:
    id = f"call_{n:04x}Zq9Kx7Bm"
    return [assistant(None, (id, "look", f'{{"n":{n}}}')), result(id, f"page {n} of the manual")]


def lay(old: list[Element], new: list[Element], reply: int = 0) -> Alignment:
    sent = len(old) - reply
    before = Path([*steps_of(old[:sent]), *emitted(old[sent:])])
    after = Path(steps_of(new))
    return align(before, after, common_prefix(before, after), sent)


TURNS = [element for n in range(40) for element in turn(n)]


def test_ids_that_disagree_end_the_common_prefix() -> None:
    one = Path(steps_of([user("Q"), assistant(None, ("call_7fK2pQ9xZ1aa", "look", "{}"))]))
    two = Path(steps_of([user("Q"), assistant(None, ("call_8Gh3rT5yW2bb", "look", "{}"))]))
    assert one.flat == two.flat
    assert common_prefix(one, two) == 16 and common_prefix(one, one) == 32


def test_counters_that_disagree_do_not() -> None:
    one = Path(steps_of([user("Q"), assistant(None, ("call_0", "look", "{}"))]))
    two = Path(steps_of([user("Q"), assistant(None, ("call_1", "look", "{}"))]))
    assert common_prefix(one, two) == 32


def test_an_edit_far_in_front_leaves_the_rest_pinned() -> None:
    found = lay([user("Old words"), *TURNS], [user("New words"), *TURNS, user("More")], reply=1)
    assert [j for j, _ in found.revised] == [0] and not found.pruned and not found.moving
    assert found.path.steps[-2].is_emitted  # the reply is known for what it is


def test_a_removed_middle_is_pruned() -> None:
    found = lay([user("Q"), *TURNS], [user("Q"), *TURNS[:10], *TURNS[30:], user("More")])
    assert [step.hash for step in found.pruned] == [element.hash for element in TURNS[10:30]]
    assert not found.revised and found.lcp == 11


def test_cleared_results_are_revisions_in_place() -> None:
    cleared = [
        result(e.atoms[0].anchor, "[cleared]") if e.kind == "tool_result" and i < 40 else e for i, e in enumerate(TURNS)
    ]
    found = lay([user("Q"), *TURNS], [user("Q"), *cleared, user("More")])
    assert [j for j, _ in found.revised] == list(range(2, 42, 2)) and not found.pruned


def test_results_in_another_order_move_nothing() -> None:
    (a, ra), (b, rb) = turn(1), turn(2)
    found = lay([user("Q"), a, b, rb, ra], [user("Q"), a, b, ra, rb, user("More")])
    assert not found.pruned and not found.moving and not found.revised


def test_a_moved_block_floats_and_its_kind_is_remembered() -> None:
    block, other = user("<files> one two three four five </files>"), user("<files> one two three four six </files>")
    found = lay([user("Q"), block, *turn(1), *turn(2)], [user("Q"), *turn(1), other, *turn(2), *turn(3)])
    assert found.moving == (3,) and not found.pruned
    assert set(found.kinds) == {kind_of(step) for step in steps_of([block])}


def test_a_block_rewritten_where_it_stood_is_a_revision_and_no_moving_block() -> None:
    one, two = user("The story so far: blade 14 was found."), user("The story so far: blade 15 was found too.")
    found = lay([one, *turn(1), *turn(2), *turn(3)], [two, *turn(2), *turn(3), *turn(4)])
    assert [j for j, _ in found.revised] == [0] and not found.moving and not found.kinds
    assert [step.hash for step in found.pruned] == [element.hash for element in turn(1)]


def test_what_vanished_teaches_only_when_its_request_was_answered() -> None:
    extra, reply = user("<context> for this call alone"), assistant("So be it, then.")
    answered = lay([user("Q"), extra, reply], [user("Q"), reply, user("Something else")], reply=1)
    unanswered = lay([user("Q"), extra], [user("Q"), user("Something else")])
    assert answered.kinds == (kind_of(steps_of([extra])[0]),) and unanswered.kinds == ()
    assert not answered.pruned and not unanswered.pruned


def test_known_kinds_are_left_out_of_a_path() -> None:
    block = user("<clock> 10:41 and all is well")
    path = Path(steps_of([user("Q"), block, *turn(1)]))
    kind = kind_of(path.steps[1])
    assert without_known(path, {kind: 1}) == (path, ())
    kept, dropped = without_known(path, {kind: 2})
    assert dropped == (1,) and len(kept) == 3
    later = Path(steps_of([user("<clock> 23:59 and all is well")]))
    assert without_known(later, {kind: 2})[1] == (0,)


def test_a_cut_or_extended_text_is_edited_and_another_is_not() -> None:
    whole, cut, other = steps_of(
        [assistant("Blade 14 fits the mower."), assistant("Blade 14 fits"), assistant("Blade 15 fits")]
    )
    assert is_edited(whole, cut) and is_edited(cut, whole) and not is_edited(other, whole)


words = st.sampled_from("abcdefgh")
element = st.one_of(
    words.map(lambda w: user(f"words {w}")),
    words.map(lambda w: assistant(f"a longer reply {w}")),
    st.integers(0, 9).map(lambda n: turn(n)[0]),
    st.integers(0, 9).map(lambda n: turn(n)[1]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(element, max_size=14), st.lists(element, max_size=14), st.integers(0, 4))
def test_the_path_is_always_the_clients_list(old: list[Element], new: list[Element], reply: int) -> None:
    found = lay(old, new, min(reply, len(old)))
    assert [step.hash for step in found.path.steps] == [element.hash for element in new]
    positions = [*found.moving, *(j for j, _ in found.revised)]
    assert len(positions) == len(set(positions)) and all(0 <= j < len(new) for j in positions)
    assert found.lcp <= len(new)


def test_work_grows_with_the_length_and_not_faster() -> None:
    def seconds(count: int) -> float:
        talk = [user("Q"), *(e for n in range(count // 2) for e in turn(n))]
        shuffled = [e for e in talk if random.Random(e.raw).random() < 0.7]
        old, new = Path(emitted(talk)), Path(steps_of([user("R"), *shuffled]))
        started = time.perf_counter()
        align(old, new, common_prefix(old, new), len(old))
        return time.perf_counter() - started

    small, large = min(seconds(1000) for _ in range(3)), min(seconds(10_000) for _ in range(3))
    assert large < 40 * small + 0.05
