"""Batches on local disk: in order, whole, bounded, taken over from the dead."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from proxy.core.records import Batch
from proxy.store.spool import Spool
from tests.proxy.store.rows import make_items, small_batch

BATCHES = [small_batch(number) for number in range(30)]


def opened(folder: Path, most: int = 1 << 30) -> Spool:
    spool = Spool(folder, most)
    spool.open()
    return spool


def drained(spool: Spool, most_bytes: int = 10_000) -> list[Batch]:
    found: list[Batch] = []
    while batches := spool.first(most_bytes):
        found += batches
        spool.drop(len(batches))
    return found


def test_what_was_kept_comes_back_in_order_whatever_comes_between(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    assert spool.append(BATCHES[:10])
    first = spool.first(1)
    spool.drop(1)
    assert spool.append(BATCHES[10:])
    assert first + drained(spool) == BATCHES
    assert (spool.batches, spool.size) == (0, 0)
    spool.close()
    assert list(tmp_path.iterdir()) == []
    assert not spool.is_known
    spool.know()
    assert Spool(tmp_path, 1).is_known


def test_after_a_restart_all_of_it_is_there(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    spool.append(BATCHES)
    spool.close()
    again = opened(tmp_path)
    assert again.batches == len(BATCHES)
    assert drained(again) == BATCHES
    again.close()


@pytest.mark.parametrize("cut", [1, 5, 13, 400])
def test_a_torn_record_at_the_end_is_cut_off(tmp_path: Path, cut: int) -> None:
    spool = opened(tmp_path)
    spool.append(BATCHES[:3])
    spool.close()
    (path,) = tmp_path.iterdir()
    os.truncate(path, path.stat().st_size - cut)
    again = opened(tmp_path)
    again.append(BATCHES[5:6])
    assert drained(again) == [*BATCHES[:2], BATCHES[5]]
    again.close()


def test_a_damaged_record_ends_what_can_be_read(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    spool.append(BATCHES[:1])
    end = spool.size
    spool.append(BATCHES[1:2])
    spool.close()
    (path,) = tmp_path.iterdir()
    with path.open("r+b") as file:
        file.seek(end + 40)
        file.write(b"\xff\xff\xff")
    again = opened(tmp_path)
    assert drained(again) == BATCHES[:1]
    again.close()


def test_beyond_its_bound_nothing_is_kept_in_part(tmp_path: Path) -> None:
    spool = opened(tmp_path, 20_000)
    assert spool.append(BATCHES[:1])
    size = spool.size
    assert not spool.append(BATCHES)
    assert (spool.size, spool.batches) == (size, 1)
    spool.close()


def test_two_processes_have_a_file_each_and_a_dead_ones_is_taken_over(tmp_path: Path) -> None:
    one, other = opened(tmp_path), opened(tmp_path)
    one.append(BATCHES[:2])
    other.append(BATCHES[2:4])
    other.close()
    third = opened(tmp_path)
    third.append(BATCHES[4:5])
    assert drained(third) == BATCHES[2:5]
    third.close()
    assert drained(one) == BATCHES[:2]
    one.close()


def test_a_lone_surrogate_costs_only_itself(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    (item,) = make_items("1")
    spool.append([Batch(items=(replace(item, text="a \ud83d b", source="\ud83d"),))])
    (found,) = drained(spool)
    assert (found.items[0].text, found.items[0].source) == ("a ? b", "?")
    spool.close()
