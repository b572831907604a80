"""The sequences that real clients send, reduced to a few short messages, and where each must be placed."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.core.branches import Placement
from proxy.core.identity import probe
from proxy.core.model import Element, Hints
from proxy.core.placement import place
from proxy.core.receipts import keys
from tests.support.talks import TOOLS, Desk, assistant, call, conversation, reasoning, result, system, user

S = system("You mend garden tools and know every spare part.")
S2 = system("Write a recap of what was said, nothing else.")
U = user("Which blade fits the old mower?")
U2 = user("And for the hedge trimmer?")
ID1, ID2, ID3, ID4 = "call_7fK2pQ9xZ1aa", "call_8Gh3rT5yW2bb", "call_9Jm4sV6uX3cc", "call_1Lp5tY7oC4dd"
C1 = assistant("I look it up.", (ID1, "look", '{"part":"blade"}'))
R1 = result(ID1, "blade 14, in stock")
C2 = assistant("Once more.", (ID2, "look", '{"part":"bolt"}'))
R2 = result(ID2, "bolt 3, sold out")
C3 = assistant(None, (ID3, "look", '{"part":"nut"}'))
R3 = result(ID3, "nut 9, in stock")
A = assistant("Blade 14 fits the old mower.")
A2 = assistant("The trimmer needs blade 22.")
OTHER_TOOLS = b'[{"type":"function","function":{"name":"other"}}]'


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_row_1_second_turn_continues_and_stores_the_result_once(desk: Desk) -> None:
    first = desk.ask([S, U], [C1])
    second = desk.ask([S, U, C1, R1], [A])
    third = desk.ask([S, U, C1, R1, A, U2], [A2])
    assert (first.verdict, second.verdict, third.verdict) == ("new", "continue", "continue")
    assert first.branch == second.branch == third.branch
    assert first.conversation == second.conversation
    assert second.lcp == 2 and third.lcp == 4
    assert len(desk.items) == 7  # S U C1 R1 A U2 A2
    assert first.is_new_branch and not second.is_new_branch


@pytest.mark.parametrize(
    "echo",
    [
        assistant("I look it up.", (ID1, "look", '{"part":"blade"}')),
        assistant(None, (ID1, "look", '{"part":"blade"}')),
        assistant("I look it up.", (ID1.replace("_", ""), "look", '{"part":"blade"}')),
    ],
    ids=["2_and_3_reencoded", "4_text_nulled", "5_id_stripped"],
)
def test_rows_2_to_5_a_reencoded_echo_is_no_difference(desk: Desk, echo: Element) -> None:
    first = desk.ask([S, U], [C1])
    second = desk.ask([S, U, echo, R1], [A])
    assert second.verdict == "continue" and second.branch == first.branch
    assert second.lcp == 2 and not second.revised
    assert len(desk.items) == 5


def test_row_6_reasoning_dropped_or_kept(desk: Desk) -> None:
    desk.ask([S, U], [reasoning("hm"), C1])
    assert desk.ask([S, U, C1, R1], [reasoning("so"), C2]).verdict == "continue"
    third = desk.ask([S, U, C1, R1, reasoning("so"), C2, R2], [A])
    assert third.verdict == "continue" and not third.pruned and not third.revised


def test_row_8_a_failed_request_is_retried_on_its_branch(desk: Desk) -> None:
    first = desk.ask([S, U], outcome="failed")
    second = desk.ask([S, U], [C1], hints=Hints(retry_count=1))
    assert second.verdict == "retry" and second.branch == first.branch
    assert second.path.flat == first.path.flat
    assert desk.ask([S, U, C1, R1], [A]).branch == first.branch


def test_row_9_a_cut_reply_is_not_part_of_the_path(desk: Desk) -> None:
    first = desk.ask([S, U], [C1], outcome="cancelled")
    second = desk.ask([S, U], [C2])
    assert second.verdict == "retry" and second.branch == first.branch
    assert [step.made for step in second.path.steps] == [()]


def test_row_10_a_partial_reply_sent_back_continues(desk: Desk) -> None:
    first = desk.ask([S, U], [assistant("Blade 14 fits the old")], outcome="cancelled")
    second = desk.ask([S, U, assistant("Blade 14 fits the old"), U2], [A2])
    assert second.verdict == "continue" and second.branch == first.branch


def test_row_11_two_equal_requests_in_flight_part_at_their_receipts(desk: Desk) -> None:
    one, two = desk.ask([S, U]), desk.ask([S, U])
    assert two.verdict == "twin" and two.conversation == one.conversation and two.branch != one.branch
    desk.end(one, [assistant("I look.", (ID1, "look", "{}"))])
    desk.end(two, [assistant("I look.", (ID2, "look", "{}"))])
    second = desk.ask([S, U, assistant("I look.", (ID2, "look", "{}")), result(ID2, "x")], [A])
    first = desk.ask([S, U, assistant("I look.", (ID1, "look", "{}")), result(ID1, "x")], [A])
    assert (first.branch, second.branch) == (one.branch, two.branch)
    assert first.verdict == second.verdict == "continue"


def test_row_12_equal_replies_stay_merged_until_they_differ(desk: Desk) -> None:
    started = [desk.ask([S, U], tools=b"") for _ in range(3)]
    for placed in started:
        desk.end(placed, [A])
    left = desk.ask([S, U, A, user("left")], [A2], tools=b"")
    right = desk.ask([S, U, A, user("right")], [A2], tools=b"")
    assert left.branch != right.branch and left.conversation == right.conversation
    assert left.path.flat[: left.path.end(2)] == right.path.flat[: right.path.end(2)]


def test_row_13_the_last_reply_left_out_is_a_regeneration(desk: Desk) -> None:
    desk.ask([S, U], [C1])
    main = desk.ask([S, U, C1, R1], [A])
    again = desk.ask([S, U, C1, R1], [A2])
    assert again.verdict == "regenerate" and again.is_new_branch
    assert again.conversation == main.conversation and again.parent == main.branch
    assert again.lcp == 3
    assert desk.ask([S, U, C1, R1, A, U2], [A2]).branch == main.branch
    assert desk.ask([S, U, C1, R1, A2, U2], [A]).branch == again.branch


def test_row_14_going_back_is_a_fork(desk: Desk) -> None:
    desk.ask([S, U], [C1])
    main = desk.ask([S, U, C1, R1], [A])
    fork = desk.ask([S, U, C1, R1, user("Only the price.")], [C2])
    assert fork.verdict == "fork" and fork.parent == main.branch and fork.parent_kind == "fork"
    assert fork.conversation == main.conversation and fork.lcp == 3
    assert desk.ask([S, U, C1, R1, A, U2], [A2]).branch == main.branch


def test_row_15_another_first_message_is_another_conversation(desk: Desk) -> None:
    first = desk.ask([S, U], [C1])
    edited = desk.ask([S, user("Which blade fits the new mower?")], [C2])
    assert edited.verdict == "new" and edited.conversation != first.conversation


def test_row_16_an_edit_in_place_is_a_revision(desk: Desk) -> None:
    desk.ask([S, U], [C1])
    main = desk.ask([S, U, C1, R1], [A])
    edited = desk.ask([S, user("Which blade fits my old mower?"), C1, R1, A, U2], [A2])
    assert edited.verdict == "continue" and edited.branch == main.branch
    assert edited.revised == ((1, U.hash),)


def test_row_17_a_clock_in_the_head_makes_no_difference(desk: Desk) -> None:
    first = desk.ask([system("You mend tools. It is 10:41:07."), U], [A])
    second = desk.ask([system("You mend tools. It is 10:43:59."), U, A, U2], [A2])
    third = desk.ask([system("You mend tools. It is 11:03:00."), U, A, U2, A2, U], [A])
    assert first.branch == second.branch == third.branch
    assert second.verdict == third.verdict == "continue"


def test_row_18_a_summariser_over_the_same_history_is_a_side_call(desk: Desk) -> None:
    desk.ask([S, U], [C1])
    main = desk.ask([S, U, C1, R1], [A])
    leaf = desk.view(main).path.flat
    side = desk.ask([S2, U, C1, R1, A, user("Now the recap.")], [assistant("They talked.")], tools=OTHER_TOOLS)
    assert side.verdict == "side" and side.kind == "side" and side.parent == main.branch
    assert side.conversation == main.conversation
    assert desk.view(main).path.flat == leaf
    onward = desk.ask([S, U, C1, R1, A, U2], [A2])
    assert onward.verdict == "continue" and onward.branch == main.branch


def test_row_18_with_the_same_head_the_instruction_and_the_missing_tools_tell(desk: Desk) -> None:
    main = desk.ask([S, U], [C1])
    side = desk.ask([S, U, C1, R1, user("Write a summary for another model.")], [A], tools=b"")
    assert side.verdict == "side" and side.parent == main.branch
    assert desk.ask([S, U, C1, R1], [A]).branch == main.branch


def test_row_19_a_title_call_first_shares_scope_and_conversation(desk: Desk) -> None:
    hints = Hints(scope="session:1")
    titles = system("You are a title generator.")
    side = desk.ask([titles, user("A title for this:"), U], [assistant("Mower blades")], hints=hints, tools=b"")
    main = desk.ask([S, U], [C1], hints=hints)
    assert (side.verdict, main.verdict) == ("side", "new")
    assert side.conversation == main.conversation and side.branch != main.branch
    assert desk.ask([S, U, C1, R1], [A], hints=hints).branch == main.branch


@pytest.mark.parametrize("scope", ["", "session:1"])
def test_row_20_a_title_call_later_that_quotes_the_first_message(desk: Desk, scope: str) -> None:
    hints = Hints(scope=scope)
    main = desk.ask([S, U], [C1], hints=hints)
    quoting = user("Give a title to: <chat>Which blade fits the old mower?</chat>")
    side = desk.ask([system("Titles only."), quoting], [assistant("Mower")], hints=hints, tools=b"")
    assert side.verdict == "side" and side.parent == main.branch and side.conversation == main.conversation


def test_row_21_a_commit_message_call_quotes_two_texts(desk: Desk) -> None:
    main = desk.ask([S, U], [A], tools=b"")
    quoting = user("USER: Which blade fits the old mower?\n\nASSISTANT: Blade 14 fits the old mower.\n")
    side = desk.ask([system("One line for the log."), quoting], [assistant("fit blade")], tools=b"")
    assert side.verdict == "side" and side.parent == main.branch


def test_row_22_a_trailing_block_replaced_each_call(desk: Desk) -> None:
    def block(n: int) -> Element:
        return user(f"<<<BEGIN_INTERNAL_CONTEXT>>> turn {n} of many, memory {n * 7}")

    desk.ask([S, U, block(1)], [C1])
    placed = [
        desk.ask([S, U, C1, R1, block(2)], [C2]),
        desk.ask([S, U, C1, R1, C2, R2, block(3)], [C3]),
        desk.ask([S, U, C1, R1, C2, R2, C3, R3, block(4)], [A]),
        desk.ask([S, U, C1, R1, C2, R2, C3, R3, A, U2, block(5)], [A2]),
    ]
    assert [p.verdict for p in placed] == ["continue"] * 4
    assert len({p.branch for p in placed}) == 1
    assert [p.ephemeral for p in placed] == [(4,), (6,), (8,), (10,)]
    # Known by now: out of the path, so that the next list has the whole path as its beginning.
    assert all("INTERNAL" not in step.text for step in placed[-1].path.steps)
    assert placed[-1].lcp == 8


def test_row_23_a_block_before_the_last_reply(desk: Desk) -> None:
    def block(n: int) -> Element:
        return user(f"<info-msg> It is 10:{n}. Working directory: /home/dev/garden")

    desk.ask([S, U], [C1])
    placed = [
        desk.ask([S, U, block(1), C1, R1], [C2]),
        desk.ask([S, U, C1, R1, block(2), C2, R2], [C3]),
        desk.ask([S, U, C1, R1, C2, R2, block(3), C3, R3], [A]),
        desk.ask([S, U, C1, R1, C2, R2, C3, R3, block(4), A, U2], [A2]),
    ]
    assert [p.verdict for p in placed] == ["continue"] * 4 and len({p.branch for p in placed}) == 1
    assert [p.floating for p in placed[1:]] == [(4,), (6,), (8,)]
    assert not any(p.pruned for p in placed)
    assert placed[-1].lcp == 8


def test_row_24_a_file_block_moves_behind_the_history_and_changes(desk: Desk) -> None:
    def files(text: str) -> list[Element]:
        return [user(f"I have added these files to the talk.\n{text}"), assistant("Fine, I change only those.")]

    rules = system("Answer with edit blocks only.")
    first = desk.ask([S, *files("a = 1"), U, rules], [A], tools=b"")
    second = desk.ask([S, U, A, *files("a = 2"), U2, rules], [A2], tools=b"")
    third = desk.ask([S, U, A, U2, A2, *files("a = 3"), user("More?"), rules], [A], tools=b"")
    assert first.branch == second.branch == third.branch
    assert second.verdict == third.verdict == "continue"
    assert set(second.floating) | set(second.ephemeral) == {3, 4, 6}
    assert set(third.floating) | set(third.ephemeral) == {5, 6, 8}


def test_row_25_the_first_message_loses_a_part_after_a_resume(desk: Desk) -> None:
    opening = user("Which blade fits the old mower?\n<reminder> Monday </reminder>")
    desk.ask([S, opening], [C1])
    main = desk.ask([S, opening, C1, R1], [A])
    resumed = desk.ask([S, U, C1, R1, A, U2], [A2])
    assert resumed.verdict == "continue" and resumed.branch == main.branch
    assert resumed.revised == ((1, opening.hash),) and not resumed.pruned


def test_row_26_an_output_cleared_in_place_is_a_revision(desk: Desk) -> None:
    desk.ask([S, U], [C1])
    main = desk.ask([S, U, C1, R1], [C2])
    cleared = desk.ask([S, U, C1, result(ID1, "[cleared]"), C2, R2], [A])
    assert cleared.verdict == "continue" and cleared.branch == main.branch
    assert cleared.revised == ((3, R1.hash),)
    assert desk.ask([S, U, C1, result(ID1, "[cleared]"), C2, R2, A, U2], [A2]).lcp == 6


def test_row_27_the_oldest_turns_removed(desk: Desk) -> None:
    desk.ask([S, U], [C1])
    desk.ask([S, U, C1, R1], [A])
    desk.ask([S, U, C1, R1, A, U2], [C2])
    main = desk.ask([S, U, C1, R1, A, U2, C2, R2], [C3])
    pruned = desk.ask([S, U2, C2, R2, C3, R3], [A2])
    assert pruned.verdict == "continue" and pruned.branch == main.branch
    assert pruned.pruned == (U.hash, C1.hash, R1.hash, A.hash)
    assert desk.ask([S, U2, C2, R2, C3, R3, A2, U], [A]).branch == main.branch


SUMMARY = "The user asked for mower parts; blade 14 was found and is in stock, the bolt is sold out."


def _compact(desk: Desk, hints: Hints, history: list[Element], summary: str = SUMMARY) -> Placement:
    asked = [*history, user("Make a handoff summary for the next model.")]
    side = desk.ask(asked, [assistant(summary)], hints=hints, tools=b"")
    assert side.verdict == "side"
    return side


@pytest.mark.parametrize("scope", ["", "thread:1"])
def test_rows_28_and_30_compactions_open_epochs_in_a_chain(desk: Desk, scope: str) -> None:
    hints = Hints(scope=scope)
    main = desk.ask([S, U], [C1], hints=hints)
    _compact(desk, hints, [S, U, C1, R1])
    started = [S, U, user(f"Another model began this. Its summary:\n{SUMMARY}")]
    one = desk.ask(started, [C2], hints=hints)
    assert (one.verdict, one.epoch, one.parent, one.parent_kind) == ("epoch", 1, main.branch, "epoch")
    assert one.conversation == main.conversation and one.branch != main.branch
    assert desk.ask([*started, C2, R2], [C3], hints=hints).branch == one.branch
    # The second compaction says the very same, so that the new list equals the first epoch's start.
    _compact(desk, hints, [*started, C2, R2, C3, R3])
    two = desk.ask(started, [A], hints=hints)
    assert (two.verdict, two.epoch, two.parent) == ("epoch", 2, one.branch)
    assert desk.ask([*started, A, U2], [A2], hints=hints).branch == two.branch


def test_row_28_an_epoch_right_after_an_epoch_with_the_same_summary(desk: Desk) -> None:
    hints = Hints(scope="thread:1")
    desk.ask([S, U], [C1], hints=hints)
    _compact(desk, hints, [S, U, C1, R1])
    started = [S, U, user(f"Its summary:\n{SUMMARY}")]
    one = desk.ask(started, [C2], hints=hints)
    _compact(desk, hints, [*started, C2, R2])
    two = desk.ask(started, outcome="failed", hints=hints)
    assert (two.verdict, two.epoch, two.parent) == ("epoch", 2, one.branch)
    again = desk.ask(started, [C3], hints=hints)
    assert again.verdict == "retry" and again.branch == two.branch


def test_row_29_a_summary_as_the_assistants_own_words(desk: Desk) -> None:
    hints = Hints(scope="session:1")
    main = desk.ask([S, U], [C1], hints=hints)
    desk.ask([S, U, C1, R1], outcome="failed", hints=hints)
    quoting = user("<talk>\n[User]: Which blade fits the old mower?\n[Tool]: blade 14, in stock\n</talk>")
    side = desk.ask([S2, quoting], [assistant(SUMMARY)], hints=hints, tools=b"")
    assert side.verdict == "side" and side.parent == main.branch
    epoch = desk.ask([S, user("What did we do so far?"), assistant(SUMMARY), user("Go on.")], [C2], hints=hints)
    assert (epoch.verdict, epoch.epoch, epoch.parent) == ("epoch", 1, main.branch)


def test_row_31_parallel_subagents_with_their_own_sessions(desk: Desk) -> None:
    main = desk.ask([S, U], [C1], hints=Hints(scope="session:1"))
    tasks = [Hints(scope=f"session:{n}", parent_scope="session:1", label="subagent") for n in (2, 3)]
    one = desk.ask([S, user("Count the lines.")], [C2], hints=tasks[0], tools=OTHER_TOOLS)
    two = desk.ask([S, user("Count the words.")], [C3], hints=tasks[1], tools=OTHER_TOOLS)
    for placed in (one, two):
        assert placed.verdict == placed.kind == "subagent" and placed.parent == main.branch
        assert placed.conversation == main.conversation
    assert len({main.branch, one.branch, two.branch}) == 3
    onward = desk.ask([S, user("Count the words."), C3, R3], [A], hints=tasks[1], tools=OTHER_TOOLS)
    assert onward.verdict == "continue" and onward.branch == two.branch and onward.kind == "subagent"
    assert desk.ask([S, U, C1, R1], [A], hints=Hints(scope="session:1")).branch == main.branch


def test_row_32_a_subagent_with_the_parents_history(desk: Desk) -> None:
    main = desk.ask([S, U], [C1], hints=Hints(scope="thread:1", cache_key="k"))
    child = Hints(scope="thread:2", parent_scope="thread:1", label="subagent", cache_key="k")
    sub = desk.ask([S, U, C1, R1, user("You count the bolts.")], [C2], hints=child)
    assert sub.verdict == "subagent" and sub.parent == main.branch and sub.branch != main.branch
    assert desk.ask([S, U, C1, R1], [A], hints=Hints(scope="thread:1", cache_key="k")).branch == main.branch
    onward = desk.ask([S, U, C1, R1, user("You count the bolts."), C2, R2], [A2], hints=child)
    assert onward.verdict == "continue" and onward.branch == sub.branch


def test_row_33_an_unlabelled_agent_called_twice_with_equal_input(desk: Desk) -> None:
    main = desk.ask([S, U], [C1])
    checker = system("You check prices.")
    one = desk.ask([checker, user("Check part 14.")], [C2], tools=OTHER_TOOLS)
    two = desk.ask([checker, user("Check part 14.")], [C3], tools=OTHER_TOOLS)
    assert one.branch != two.branch and main.branch not in (one.branch, two.branch)
    assert desk.ask([S, U, C1, R1], [A]).branch == main.branch
    assert desk.ask([checker, user("Check part 14."), C3, R3], [A], tools=OTHER_TOOLS).branch == two.branch


def test_row_34_a_chain_of_previous_responses(desk: Desk) -> None:
    first = desk.ask([U], [call(ID1)], response_id="resp_1", wire="responses")
    second = desk.ask([R1], [call(ID2)], response_id="resp_2", hints=Hints(previous_response="resp_1"))
    third = desk.ask([R2], [A], response_id="resp_3", hints=Hints(previous_response="resp_2"))
    assert first.branch == second.branch == third.branch
    assert second.verdict == third.verdict == "continue"
    assert third.inherited == 4 and [step.hash for step in third.path.steps][-1] == R2.hash
    assert len(third.path) == 5


def test_row_35_two_requests_behind_one_response(desk: Desk) -> None:
    desk.ask([U], [A], response_id="resp_1")
    after = Hints(previous_response="resp_1")
    one = desk.ask([U2], [A2], response_id="resp_2", hints=after)
    two = desk.ask([user("Other way.")], [A2], response_id="resp_3", hints=after)
    same = desk.ask([U2], [A2], response_id="resp_4", hints=after)
    assert len({one.branch, two.branch, same.branch}) == 3
    assert (one.verdict, two.verdict) == ("continue", "fork")
    assert {p.conversation for p in (one, two, same)} == {one.conversation}
    assert desk.ask([U], [A], hints=Hints(previous_response="resp_3")).branch == two.branch


def test_row_35_a_failed_request_behind_a_response_is_retried(desk: Desk) -> None:
    desk.ask([U], [A], response_id="resp_1")
    after = Hints(previous_response="resp_1")
    one = desk.ask([U2], outcome="failed", hints=after)
    again = desk.ask([U2], [A2], hints=after)
    assert again.branch == one.branch and again.path.flat == one.path.flat


def test_row_36_an_unknown_previous_response_is_left_alone(desk: Desk) -> None:
    desk.ask([U], [A], response_id="resp_1")
    placed = desk.ask([U2], [A2], hints=Hints(previous_response="resp_of_others"))
    assert placed.is_unresolved and placed.is_new_branch and placed.inherited == 0


def test_row_37_new_instructions_behind_a_response_change_the_head_alone(desk: Desk) -> None:
    first = desk.ask([U], [A], response_id="resp_1", instructions="Be kind.")
    kind = desk.view(first).head_hash
    second = desk.ask([U2], [A2], hints=Hints(previous_response="resp_1"), instructions="Be short.")
    assert second.branch == first.branch
    assert desk.view(second).head_hash != kind


def test_row_38_the_same_history_through_the_other_wire_format(desk: Desk) -> None:
    desk.ask([S, U], [C1])
    main = desk.ask([S, U, C1, R1], [A])
    split = [assistant("I look it up."), call(ID1, "look", '{"part":"blade"}')]
    moved = desk.ask(
        [U, *split, R1, A, U2], [A2], wire="responses", instructions="You mend garden tools and know every spare part."
    )
    assert moved.verdict == "continue" and moved.branch == main.branch and moved.conversation == main.conversation
    assert moved.lcp == 5 and not moved.pruned and not moved.revised


def test_row_38_works_without_call_ids(desk: Desk) -> None:
    main = desk.ask([S, U], [A], tools=b"")
    instructions = "You mend garden tools and know every spare part."
    moved = desk.ask([U, A, U2], [A2], wire="responses", tools=b"", instructions=instructions)
    assert moved.branch == main.branch and moved.lcp == 2


def test_row_39_parallel_results_in_another_order(desk: Desk) -> None:
    both = assistant(None, (ID1, "look", '{"n":1}'), (ID2, "look", '{"n":2}'))
    desk.ask([S, U], [both])
    swapped = desk.ask([S, U, both, R2, R1], [C3])
    straight = desk.ask([S, U, both, R1, R2, C3, R3], [A])
    assert swapped.verdict == straight.verdict == "continue" and swapped.branch == straight.branch
    assert not straight.pruned and not straight.revised and not straight.floating


def test_row_40_tenants_never_meet(desk: Desk) -> None:
    ours = desk.ask([S, U], [C1], tenant="ours")
    theirs = desk.ask([S, U], [C2], tenant="theirs")
    stolen = desk.ask([S, U, C1, R1], [A], tenant="theirs")
    assert theirs.verdict == "new" and theirs.conversation != ours.conversation
    assert stolen.branch != ours.branch and stolen.conversation != ours.conversation
    assert desk.ask([S, U, C1, R1], [A], tenant="ours").branch == ours.branch


def test_row_40_branches_of_another_tenant_are_not_looked_at(desk: Desk) -> None:
    main = desk.ask([S, U], [C1], tenant="ours", response_id="resp_1")
    ours = desk.view(main, "ours")
    for asked in ([S, U, C1, R1], [S, U]):
        assert place(probe(conversation(asked), "theirs"), [ours]).verdict == "new"
        assert place(probe(conversation(asked), "ours"), [ours]).verdict != "new"
    behind = conversation([R1], hints=Hints(previous_response="resp_1"))
    assert place(probe(behind, "theirs"), [ours]).is_unresolved
    assert not place(probe(behind, "ours"), [ours]).is_unresolved


def test_row_40_another_tenants_forced_name_is_another_conversation(desk: Desk) -> None:
    ours = desk.ask([S, U], [C1], tenant="ours", hints=Hints(forced="mine"))
    theirs = desk.ask([S, U, C1, R1], [A], tenant="theirs", hints=Hints(forced="mine"))
    assert theirs.verdict == "new" and theirs.conversation != ours.conversation


def test_row_41_a_resume_under_another_session(desk: Desk) -> None:
    first = desk.ask([S, U], [C1], hints=Hints(scope="session:a"))
    resumed = desk.ask([S, U, C1, R1], [A], hints=Hints(scope="session:b"))
    assert resumed.conversation == first.conversation
    assert (resumed.parent, resumed.parent_kind) == (first.branch, "resumed_from")
    onward = desk.ask([S, U, C1, R1, A, U2], [A2], hints=Hints(scope="session:b"))
    assert onward.branch == resumed.branch


def test_row_42_an_equal_cache_key_joins_nothing(desk: Desk) -> None:
    one = desk.ask([S, U], [C1], hints=Hints(cache_key="same"))
    two = desk.ask([S, U2], [C2], hints=Hints(cache_key="same"))
    assert one.conversation != two.conversation and two.verdict == "new"


def test_row_43_counters_as_ids_are_no_receipts(desk: Desk) -> None:
    def asked(part: str) -> list[Element]:
        return [S, user(f"Look for {part}"), assistant(None, ("call_0", "look", f'{{"p":"{part}"}}'))]

    one = desk.ask(asked("a")[:2], [asked("a")[2]])
    two = desk.ask(asked("b")[:2], [asked("b")[2]])
    second = desk.ask([*asked("b"), result("call_0", "yes")], [A])
    first = desk.ask([*asked("a"), result("call_0", "yes")], [A])
    assert first.branch == one.branch and second.branch == two.branch
    foreign = desk.ask([*asked("c"), result("call_0", "yes")], [A])
    assert foreign.verdict == "new"


def test_row_49_two_racing_continuations(desk: Desk) -> None:
    desk.ask([S, U], [C1])
    main = desk.ask([S, U, C1, R1], [A])
    one = desk.ask([S, U, C1, R1, A, U2])
    two = desk.ask([S, U, C1, R1, A, user("Or the saw?")])
    assert one.branch == main.branch and two.branch != main.branch
    assert two.conversation == main.conversation and two.parent == main.branch
    desk.end(two, [A2])
    desk.end(one, [C2])
    assert desk.ask([S, U, C1, R1, A, user("Or the saw?"), A2, U], [A]).branch == two.branch
    assert desk.ask([S, U, C1, R1, A, U2, C2, R2], [A]).branch == one.branch


@pytest.mark.parametrize(
    "echo", ["Thought: I look for the blade.\n<code>\nlook()\n</code>", "Thought: I look for the blade."]
)
def test_row_50_a_text_agent_extends_or_strips_the_reply(desk: Desk, echo: str) -> None:
    first = desk.ask([S, U], [assistant("Thought: I look for the blade.\n<code>\nlook()\n")], tools=b"")
    second = desk.ask([S, U, assistant(echo), user("Observation: blade 14")], [A], tools=b"")
    assert second.verdict == "continue" and second.branch == first.branch
    third = desk.ask([S, U, assistant(echo), user("Observation: blade 14"), A, U2], [A2], tools=b"")
    assert third.branch == first.branch and third.lcp == 4


def test_row_50_calls_turned_into_text_still_show_their_ids(desk: Desk) -> None:
    one, two = desk.ask([S, U], [C1]), desk.ask([S, U], [C2])
    echo = assistant(f"I look it up.\nCalling tools:\n[{{'id': '{ID1}', 'name': 'look'}}]")
    placed = desk.ask([S, U, echo, user("Observation: blade 14")], [C3])
    assert placed.branch == one.branch != two.branch and placed.verdict == "continue"
    planning = desk.ask([S2, U, echo, user("Write the facts.")], [A], tools=b"")
    assert planning.verdict == "side" and planning.parent == one.branch


def test_row_51_an_old_transcript_replayed_is_a_fork(desk: Desk) -> None:
    desk.ask([S, U], [C1])
    desk.ask([S, U, C1, R1], [A])
    main = desk.ask([S, U, C1, R1, A, U2], [A2])
    leaf = desk.view(main).path.flat
    replay = desk.ask([S, U, C1, R1, A, user("Anything else?")], [C3])
    assert replay.verdict == "fork" and replay.conversation == main.conversation and replay.lcp == 4
    assert desk.view(main).path.flat == leaf


def test_a_forced_conversation_wins_over_receipts(desk: Desk) -> None:
    main = desk.ask([S, U], [C1])
    forced = desk.ask([S, U, C1, R1], [A], hints=Hints(forced="mine"))
    other = desk.ask([S, U2], [A2], hints=Hints(forced="mine"))
    assert forced.conversation == other.conversation != main.conversation
    assert forced.branch != other.branch
    assert desk.ask([S, U, C1, R1, A, U2], [A2], hints=Hints(forced="mine")).branch == forced.branch


def test_a_side_call_that_goes_on_was_an_agent(desk: Desk) -> None:
    desk.ask([S, U], [C1])
    handed_over = [S2, U, C1, R1]
    side = desk.ask(handed_over, [C2], tools=OTHER_TOOLS)
    onward = desk.ask([*handed_over, C2, R2], [A], tools=OTHER_TOOLS)
    assert side.kind == "side" and onward.branch == side.branch and onward.kind == "main"


def test_a_client_that_drops_the_middle_and_changes_the_head(desk: Desk) -> None:
    desk.ask([S, U], [C1])
    desk.ask([S, U, C1, R1], [C2])
    main = desk.ask([S, U, C1, R1, C2, R2], [C3])
    placed = desk.ask([system("Be brief."), U, C3, R3], [A])
    assert placed.verdict == "continue" and placed.branch == main.branch
    assert placed.pruned == (C1.hash, R1.hash, C2.hash, R2.hash)
    assert [step.hash for step in placed.path.steps] == [U.hash, C3.hash, R3.hash]


def test_few_shot_replies_are_no_receipts(desk: Desk) -> None:
    shots = [user("Example: which blade?"), assistant("Blade 11 is the example."), user("Next one.")]
    one = desk.ask([S, *shots, user("Mower?")], [A], tools=b"")
    two = desk.ask([S, *shots, user("Trimmer?")], [A2], tools=b"")
    assert one.branch != two.branch and two.verdict == "new"


def test_the_same_sequence_gives_the_same_ids() -> None:
    def run() -> list[tuple[str, str]]:
        desk = Desk()
        placed = [desk.ask([S, U], [C1]), desk.ask([S, U, C1, R1], [A]), desk.ask([S, U, C1, R1, U2], [A2])]
        return [(p.conversation, p.branch) for p in placed]

    assert run() == run()
    assert all(len(id) == 12 and id.islower() for pair in run() for id in pair)


EXTRA = [user("Which blade?"), user("Go on."), user("<clock> 10:41 at the desk"), assistant("Blade 14 it is, then.")]
IDS = [ID1, ID2, ID3, "call_0"]


@st.composite
def exchange(draw: st.DrawFn) -> tuple[list[str], int, str, str]:
    edits = draw(st.lists(st.sampled_from(["cut", "drop", "add", "swap", "edit"]), max_size=2))
    outcome = draw(st.sampled_from(["ok", "ok", "ok", "failed", "cancelled", "streaming"]))
    return edits, draw(st.integers(0, 10**6)), outcome, draw(st.sampled_from(["", "", "session:1", "session:2"]))


@settings(max_examples=200, deadline=None)
@given(st.lists(exchange(), max_size=12))
def test_whatever_a_client_does_its_list_is_the_truth(exchanges: list[tuple[list[str], int, str, str]]) -> None:
    ours, other = Desk(), Desk()
    history: list[Element] = [S, U]
    for edits, seed, outcome, scope in exchanges:
        chooser = random.Random(seed)
        for edit in edits:
            _edit(history, edit, chooser)
        id = chooser.choice(IDS)
        made = assistant("I look.", (id, "look", f'{{"n":{seed % 3}}}'))
        reply = [made] if seed % 2 else [chooser.choice([A, A2])]
        hints, tools = Hints(scope=scope, retry_count=seed % 7 == 0), TOOLS if seed % 5 else b""
        placed = [
            desk.ask(history, None if outcome == "streaming" else reply, outcome=outcome, hints=hints, tools=tools)  # type: ignore[arg-type]
            for desk in (ours, other)
        ]
        assert [(p.verdict, p.branch, p.conversation) for p in placed[:1]] == [
            (p.verdict, p.branch, p.conversation) for p in placed[1:]
        ]
        body = [element for element in history if element.role != "system"]
        left_out = len(body) - len(placed[0].path)
        assert 0 <= left_out <= len({*placed[0].ephemeral, *placed[0].floating})
        kept = iter(step.hash for step in body)
        assert all(step.hash in kept for step in placed[0].path.steps)  # a subsequence, in the client's order
        assert placed[0].lcp <= len(placed[0].path)
        history += [*reply, result(id, f"found {seed % 4}")] if seed % 2 else [*reply, U2]


def _edit(history: list[Element], edit: str, chooser: random.Random) -> None:
    at = chooser.randrange(1, len(history) + 1)
    if edit == "cut" and at > 1:
        del history[at:]
    elif edit == "drop" and 1 < at < len(history):
        del history[at]
    elif edit == "add":
        history.insert(at, chooser.choice(EXTRA))
    elif edit == "swap" and 1 < at < len(history):
        history[at - 1], history[at] = history[at], history[at - 1]
    elif edit == "edit" and at < len(history):
        history[at] = chooser.choice(EXTRA)


def test_ten_thousand_messages_are_placed_at_once(desk: Desk) -> None:
    talk: list[Element] = [S, U]
    for n in range(5000):
        id = f"call_{n:06x}Zq9Kx7Bm"
        talk += [assistant(None, (id, "look", f'{{"n":{n}}}')), result(id, f"page {n}")]
    first = desk.ask(talk, [C1])
    asked = probe(conversation([*talk, C1, R1]), "t")
    known = desk.index.candidates("t", keys(asked))
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        placed = place(asked, known)
        seconds.append(time.perf_counter() - started)
    print(f"placed {len(talk)} elements in {min(seconds) * 1000:.1f} ms")
    assert placed.branch == first.branch and placed.lcp == len(talk)
    assert min(seconds) < 0.05


def test_requests_without_tools_are_told_apart_by_their_conversation() -> None:
    assert conversation([S, U], tools=b"").has_tools is False and conversation([S, U], tools=TOOLS).has_tools
