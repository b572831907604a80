from __future__ import annotations

import pytest

from proxy.core.model import Usage
from proxy.demo.bill import PromptCache, Rates, Segment, common_tokens, cost


def segment(letter: str, tokens: int) -> Segment:
    return Segment(letter * tokens * 4, tokens)


def test_cached_tokens_are_part_of_the_input() -> None:
    rates = Rates(input=10, output=100, cached_share=0.1)
    assert cost(rates, Usage(1000, 50, cached=800)) == pytest.approx((200 * 10 + 800 * 1 + 50 * 100) / 1e6)


def test_the_whole_request_costs_more_beyond_the_cliff() -> None:
    rates = Rates(input=2, output=10, cliff=1000)
    at, above = Usage(1000, 100, cached=900), Usage(1001, 100, cached=901)
    assert cost(rates, at) == pytest.approx((100 * 2 + 900 * 0.2 + 100 * 10) / 1e6)
    assert cost(rates, above) == pytest.approx((100 * 4 + 901 * 0.4 + 100 * 15) / 1e6)


def test_a_write_premium_is_paid_on_what_was_not_cached() -> None:
    assert cost(Rates(input=1, output=0, write_share=1.25), Usage(100, 0, cached=60)) == pytest.approx(
        (40 * 1.25 + 60 * 0.1) / 1e6
    )


def test_common_prefix_stops_inside_a_segment() -> None:
    one = [segment("a", 10), Segment("x" * 50 + "y" * 50, 25)]
    other = [segment("a", 10), Segment("x" * 50 + "z" * 50, 25)]
    assert common_tokens(one, other) == 10 + 12
    assert common_tokens(one, one) == 35
    assert common_tokens([], one) == 0


def test_the_cache_needs_1024_tokens_and_goes_in_steps_of_128() -> None:
    cache = PromptCache()
    assert cache.match([segment("a", 1000)]).cached == 0
    assert cache.match([segment("a", 1000), segment("b", 500)]).cached == 0  # 1000 shared: too few
    match = cache.match([segment("a", 1000), segment("b", 500), segment("c", 9)])
    assert match.cached == 1500 // 128 * 128 and not match.is_break


def test_what_was_written_once_and_never_read_is_no_break() -> None:
    cache = PromptCache()
    start = [segment("a", 2000)]
    cache.match(start)
    grown = cache.match([*start, segment("long", 900)])
    shortened = cache.match([*start, segment("cut", 100), segment("new", 50)])
    again = cache.match([*start, segment("other", 100), segment("new", 50)])
    assert not grown.is_break and not grown.is_tail_change
    assert shortened.is_tail_change and not shortened.is_break
    assert again.is_tail_change, "the cut text was sent once as well"
    cache.match([*start, segment("other", 100), segment("new", 50), segment("newer", 50)])
    assert cache.match([*start, segment("cut", 100)]).is_break


def test_a_break_is_seen_and_older_prompts_are_forgotten() -> None:
    cache = PromptCache(memory=2)
    first = [segment("a", 2000)]
    cache.match(first)
    cache.match(first)
    broken = cache.match([segment("b", 2000)])
    assert broken.is_break and broken.cached == 0
    assert cache.match(first).cached == 1920  # still remembered, though not the newest
    cache.match([segment("c", 2000)])
    assert cache.match([segment("b", 2000)]).cached == 0
