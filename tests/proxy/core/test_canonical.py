import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.canonical import anchor, call_atom, chain, digest, element_hash, make_atom, normalise_text, printable
from proxy.core.model import Atom, Element


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("a\r\nb", "a\nb"),
        ("a  \nb\t\n c \n", "a\nb\n c"),
        ("\n  a\n\n\nb  ", "a\n\n\nb"),
        ("   ", ""),
    ],
)
def test_text_is_normalised(given_text: str, expected: str) -> None:
    assert normalise_text(given_text) == expected


@given(st.text(alphabet=" \t\n\rab"))
def test_normalising_twice_changes_nothing(text: str) -> None:
    assert normalise_text(normalise_text(text)) == normalise_text(text)


@pytest.mark.parametrize("text", [" " * 500_000 + "x", ("\t" * 1000 + "\n") * 500, "a \n" * 200_000])
def test_normalising_is_linear(text: str) -> None:
    started = time.process_time()
    normalise_text(text)
    assert time.process_time() - started < 1


def test_anchor_keeps_letters_and_digits_only() -> None:
    assert anchor("call_ab-1") == anchor("callab1") == "callab1"
    assert anchor("functions.x:0é") == "functionsx0"
    assert anchor("") == ""


def test_lone_surrogates_become_printable_and_the_rest_stays() -> None:
    assert printable("ok 🙂") == "ok 🙂"
    assert printable("a\ud800b").encode() == "a�b".encode()


def test_hashes_are_sixteen_bytes_over_kind_and_content_not_ids() -> None:
    one = make_atom("result", "text", call_id="call_1")
    two = make_atom("result", "text", call_id="call_2")
    assert one.hash == two.hash
    assert len(one.hash) == len(digest(b"")) == 16
    assert one.hash != make_atom("user", "text").hash
    assert make_atom("user", "\ud800").hash != make_atom("user", "\ud801").hash


def test_call_atoms_tell_name_from_arguments() -> None:
    assert call_atom("1", "a", "b").hash != call_atom("1", "ab", "").hash


def test_element_hash_reads_strong_atoms_only() -> None:
    weak = make_atom("asst", "said", is_weak=True)
    call = call_atom("c", "f", "{}")
    assert element_hash([weak, call]) == element_hash([call])
    assert element_hash([weak]) != element_hash([make_atom("asst", "other", is_weak=True)])


def element(*atoms: Atom) -> Element:
    return Element(b"", "message", "assistant", "", atoms)


def test_text_directly_before_a_call_is_not_in_the_chain() -> None:
    user, said, call, result = (
        make_atom("user", "u"),
        make_atom("asst", "a"),
        call_atom("1", "f", "{}"),
        make_atom("result", "r"),
    )
    thought = make_atom("reasoning", "t", is_weak=True)
    found = chain([element(user), element(said), element(thought), element(call), element(result), element(said)])
    assert found == [(0, user), (3, call), (4, result), (5, said)]
