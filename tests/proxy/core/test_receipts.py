"""Keys: few, and enough to find the branch again."""

from __future__ import annotations

from proxy.core.identity import Path, emitted, probe
from proxy.core.model import Element, Hints
from proxy.core.receipts import keys, new_keys, scope_key
from tests.support.talks import assistant, conversation, result, system, user

ID = "call_7fK2pQ9xZ1aa"


def long_talk(turns: int) -> list[Element]:
    found = [system("S"), user("Start")]
    for n in range(turns):
        id = f"call_{n:06x}Zq9Kx7Bm"
        found += [assistant(f"I look at page {n}.", (id, "look", f'{{"page":{n}}}')), result(id, f"page {n}")]
    return found


def test_a_long_list_asks_for_a_bounded_number_of_keys() -> None:
    few, many = (len(keys(probe(conversation(long_talk(n)), "t"))) for n in (300, 3000))
    assert few <= 900 and many <= 900


def test_the_newest_call_and_the_end_of_the_stored_path_are_asked_for() -> None:
    talk = long_talk(2000)
    stored = set(new_keys(Path(emitted(talk[1:-1])), 3990))
    asked = set(keys(probe(conversation(talk), "t")))
    assert {kind for kind, _ in stored & asked} >= {"call", "node"}


def test_every_kind_of_key_is_found_again() -> None:
    hints = Hints(scope="session:1", previous_response="resp_1")
    reply = emitted([assistant("Blade 14 fits the mower."), assistant(None, (ID, "look", "{}"))], "resp_1")
    stored = set(new_keys(Path(reply), 0, "session:1"))
    body = [assistant("Blade 14 fits the mower."), assistant(None, (ID, "look", "{}"))]
    asked = set(keys(probe(conversation(body, hints=hints), "t")))
    assert {kind for kind, _ in stored & asked} == {"call", "node", "text", "response", "scope"}
    assert scope_key("session:1") in asked


def test_a_counter_like_id_needs_its_call_and_what_stood_before() -> None:
    def stored(question: str, arguments: str) -> set[tuple[str, bytes]]:
        talk = [user(question), assistant(None, ("call_0", "look", arguments))]
        return {key for key in keys(probe(conversation(talk), "t")) if key[0] == "call"}

    assert stored("a", "{}") == stored("a", "{}") != set()
    assert not stored("a", "{}") & stored("b", "{}") and not stored("a", "{}") & stored("a", '{"x":1}')


def test_a_strong_id_is_found_wherever_it_stands() -> None:
    made = new_keys(Path(emitted([assistant(None, (ID, "look", "{}"))])), 0)
    answered = keys(probe(conversation([user("Else"), result(ID.replace("_", ""), "x")]), "t"))
    assert {key for key in made if key[0] == "call"} <= set(answered)


def test_quoted_lines_are_found_without_speaker_and_markup() -> None:
    stored = {key for key in new_keys(Path(emitted([assistant("Blade 14 fits the mower.")])), 0) if key[0] == "text"}
    for quoting in (
        "ASSISTANT: Blade 14 fits the mower.",
        "  <content>Blade 14 fits the mower.</content>",
        "[Assistant]: Blade 14 fits the mower.",
        "Title this: <chat>Blade 14 fits the mower.</chat>",
    ):
        asked = keys(probe(conversation([user(f"The talk:\n{quoting}\nEnd.")]), "t"))
        assert stored & set(asked), quoting


def test_the_keys_of_a_branch_are_those_of_its_new_steps() -> None:
    talk = emitted(long_talk(50))
    assert len(new_keys(Path(talk), 0)) > len(new_keys(Path(talk), len(talk) - 2)) > 1
    assert new_keys(Path(talk), len(talk))  # its end, so that a twin is found too
    assert new_keys(Path(), 0) == ()
