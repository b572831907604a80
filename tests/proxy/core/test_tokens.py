from __future__ import annotations

import pytest

from proxy.core.thresholds import thresholds
from proxy.core.tokens import (
    IMAGE_TOKENS,
    MAX_RATIO,
    MIN_RATIO,
    Calibration,
    calibrate,
    estimate_next,
    fast_estimate,
    message_tokens,
    request_tokens,
)


def test_tokn_06_tools_system_and_every_message_count() -> None:
    """TOKN-06: 29k tokens of tools and 2k of messages are a 31k request, before any usage is known."""
    estimate = request_tokens([message_tokens(500)] * 4, tools=29_000, instructions=300)
    assert 31_300 < estimate < 31_400
    assert request_tokens([message_tokens(2_000)]) - 2_000 < 10


def test_tokn_01_an_image_is_flat_whatever_its_base64_weighs() -> None:
    """TOKN-01: a 4 MB picture on the first turn calls for nothing."""
    text_chars = 200
    for megabytes in (1.5, 4):
        assert len("A" * int(megabytes * 1_000_000)) // 5 > thresholds(128_000).compact_at
        estimate = fast_estimate(text_chars, flat=IMAGE_TOKENS)
        assert estimate == 40 + IMAGE_TOKENS
        assert estimate < thresholds(128_000).compact_at


def test_the_fast_estimate_leans_low() -> None:
    text = "The quick brown fox jumps over the lazy dog and runs away. " * 100  # 1,300 tokens and more
    assert fast_estimate(len(text)) < 1_300


def test_the_first_bill_sets_the_ratio_and_later_ones_move_it() -> None:
    first = Calibration().updated(billed=12_000, counted=10_000)
    assert first == Calibration(1.2, 1)
    second = calibrate(first, billed=10_000, counted=10_000)
    assert 1.0 < second.ratio < 1.2
    for _ in range(20):
        second = second.updated(billed=10_000, counted=10_000)
    assert second.ratio == pytest.approx(1.0, abs=0.001)


@pytest.mark.parametrize(("billed", "counted"), [(0, 10_000), (100, 100), (-5, 10_000), (10, 0)])
def test_a_bill_that_tells_nothing_changes_nothing(billed: int, counted: int) -> None:
    calibration = Calibration(1.3, 2)
    assert calibration.updated(billed=billed, counted=counted) is calibration


def test_the_ratio_is_bounded() -> None:
    assert Calibration().updated(billed=1_000_000, counted=1_000).ratio == MAX_RATIO
    assert Calibration().updated(billed=1, counted=1_000).ratio == MIN_RATIO


def test_there_and_back() -> None:
    calibration = Calibration(1.25, 1)
    assert calibration.billed(1_000) == 1_250
    assert calibration.counted(1_250) == 1_000
    assert calibration.billed(calibration.counted(1_001)) <= 1_001


def test_the_next_bill_is_the_last_one_its_reply_and_what_is_new() -> None:
    assert estimate_next(10_000, 500, 200) == 10_700
    assert estimate_next(10_000, 500, 200, Calibration(1.5, 1)) == 10_800
    assert estimate_next(10_000, 500, 200, last_reasoning=400) == 10_300
    assert estimate_next(10_000, 100, 0, last_reasoning=400) == 10_000
