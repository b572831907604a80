"""A listing that grew is the listing of the whole list, however it was cut; and it is found again while it is kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy.core.grouping import call_ordinals, groups, pair_results
from proxy.core.identity import Path, steps_of
from proxy.core.kinds import kind_of
from proxy.core.listing import Listing, Listings, listing_of
from proxy.core.model import Call, Element
from tests.support import talks

CALL_ID = st.sampled_from(["", "c1", "c2", "call_0"])


def opaque(raw: str) -> Element:
    return Element(raw.encode(), "opaque", "", "", ())


def two_calls(first: str, second: str) -> Element:
    calls = (Call(first, "read", "{}"), Call(second, "read", "{}"))
    return Element(b"{}", "tool_call", "assistant", "", (), calls=calls)


ELEMENT = st.one_of(
    st.sampled_from(["go", "on"]).map(talks.user),
    st.sampled_from(["noted, and now the next thing", "ok"]).map(talks.assistant),
    CALL_ID.map(lambda call_id: talks.assistant("let me see", (call_id, "read", "{}"))),
    CALL_ID.map(talks.call),
    st.tuples(CALL_ID, CALL_ID).map(lambda ids: two_calls(*ids)),
    CALL_ID.map(lambda call_id: talks.result(call_id, "out")),
    st.just("hm").map(talks.reasoning),
    st.sampled_from(['{"id":"x1y2"}', '{"ref":"x1y2"}', "{}"]).map(opaque),
    st.just("rules").map(talks.system),
)


def as_values(listing: Listing) -> tuple[object, ...]:
    path = listing.path
    return (
        listing.kinds, listing.groups, listing.calls, listing.first_user, listing.joined, dict(listing.sites),
        listing.head_steps, path.steps, path.flat, path.ends, path.strong, path.texts, path.has_calls,
    )  # fmt: skip


@given(st.lists(ELEMENT, max_size=14), st.lists(st.integers(0, 14), max_size=3), st.integers(0, 2))
def test_growing_gives_what_reading_the_whole_gives(elements: list[Element], cuts: list[int], head: int) -> None:
    whole = tuple(elements)
    head = min(head, len(whole))
    listing = listing_of(whole[:head], head)
    for cut in sorted(cuts):
        if cut > len(listing.elements):
            listing = listing.extended(whole[:cut])
    listing = listing.extended(whole) if len(listing.elements) < len(whole) else listing
    plain = listing_of(whole, head)
    assert as_values(listing) == as_values(plain)
    assert list(plain.kinds) == [kind_of(element) for element in whole]
    assert list(plain.groups) == groups(whole)
    assert list(plain.calls) == call_ordinals(whole)
    assert plain.sites == pair_results(whole)
    assert plain.path.steps == Path(steps_of(whole[head:])).steps
    assert list(plain.steps) == [plain.step(index) for index in range(len(whole))]


def test_a_longer_list_finds_the_listing_it_extends() -> None:
    listings = Listings()
    elements = (talks.system("rules"), talks.user("one"), talks.assistant("two"), talks.user("three"))
    first = listings.of(elements[:2], 1)
    assert listings.of(elements[:2], 1) is first
    assert listings.base(elements, 1) is first
    grown = listings.of(elements, 1)
    assert grown.elements == elements and listings.base(elements, 1) is grown
    assert listings.base(elements[:2], 0) is None, "another head is another body"
    assert listings.base((*elements[:1], talks.user("one"), *elements[2:]), 1) is None, "equal is not the same"


def test_nobody_keeps_what_nobody_needs() -> None:
    listings = Listings()
    elements = (talks.user("one"), talks.user("two"))
    listings.of(elements, 0)
    assert listings.base(elements, 0) is None
