"""Whose call it is, told from pieces."""

from __future__ import annotations

from typing import Any

from proxy.wire.deltas import DeltaMessage
from proxy.wire.expand_sorter import CallSorter


def sort(*deltas: dict[str, Any]) -> tuple[CallSorter, DeltaMessage, list[Any]]:
    sorter, message = CallSorter("ctx_expand"), DeltaMessage()
    shown = [entry for delta in deltas for entry in sorter.take(message, [delta])]
    return sorter, message, shown + sorter.close()


def piece(index: int | None, call_id: str | None = None, **function: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"function": function}
    if index is not None:
        entry["index"] = index
    return entry | ({"id": call_id} if call_id else {})


def test_the_clients_calls_pass_untouched_until_one_of_ours_comes() -> None:
    deltas = [piece(3, "A", name="read", arguments=""), piece(3, arguments="{}")]
    sorter, _, shown = sort(*deltas)
    assert shown == [{**deltas[0], "index": 0}, {**deltas[1], "index": 0}] and not sorter.is_shifted
    assert sorter.has_visible and not sorter.has_hidden


def test_numbers_close_up_behind_a_hidden_call() -> None:
    sorter, message, shown = sort(
        piece(0, "A", name="ctx_expand", arguments="{}"),
        piece(1, "B", name="read", arguments=""),
        piece(0, arguments=" "),
        piece(1, arguments="{}"),
    )
    assert [(entry["index"], entry["function"].get("arguments")) for entry in shown] == [(0, ""), (0, "{}")]
    assert [sorter.is_hidden(slot) for slot in message.calls] == [True, False]


def test_without_numbers_the_client_gets_some_once_ours_is_out() -> None:
    _, _, shown = sort(piece(None, "A", name="ctx_expand", arguments="{}"), piece(None, "B", name="f", arguments="{}"))
    assert [(entry["id"], entry["index"]) for entry in shown] == [("B", 0)]


def test_a_custom_tool_is_never_ours() -> None:
    sorter, _, shown = sort({"index": 0, "id": "A", "type": "custom", "custom": {"name": "ctx_expand", "input": "x"}})
    assert len(shown) == 1 and not sorter.has_hidden


def test_what_never_got_a_name_is_the_clients() -> None:
    sorter, _, shown = sort(piece(0, "A", arguments="{}"))
    assert shown[0]["id"] == "A" and sorter.has_visible and not sorter.has_hidden
