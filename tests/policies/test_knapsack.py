"""The greedy knapsack keeps its budget, never gets worse with more room, and stays near the exact optimum."""

from __future__ import annotations

import random
import statistics
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from policies.knapsack import Option, hull, solve

Ladders = list[list[Option]]
INSTANCES = 400

ladders = st.lists(
    st.lists(st.tuples(st.integers(1, 60), st.floats(0.0, 50.0)), max_size=5).map(
        lambda pairs: [Option(0, 0.0, 0), *(Option(cost, value, n + 1) for n, (cost, value) in enumerate(pairs))]
    ),
    max_size=12,
)


def cost_of(chosen: list[Option | None]) -> int:
    return sum(option.cost for option in chosen if option)


def value_of(chosen: list[Option | None]) -> float:
    return sum(option.value for option in chosen if option)


def exact(ladders: Ladders, room: int) -> float:
    """The optimum, by dynamic programming over the room."""
    best = [0.0] * (room + 1)
    for options in ladders:
        best = [
            max(best[left - option.cost] + option.value for option in options if option.cost <= left)
            for left in range(room + 1)
        ]
    return best[room]


def random_ladders(chance: random.Random) -> Ladders:
    """Items as windows have them: nothing, a stub, an excerpt, the whole; worth grows with diminishing returns."""
    made: Ladders = []
    for _ in range(chance.randint(8, 40)):
        full = int(chance.lognormvariate(4.0, 0.8)) + 8
        worth = chance.expovariate(1.0) * full**0.5
        options = [Option(0, 0.0, 0)]
        for label, share in enumerate((0.08, chance.uniform(0.2, 0.6), 1.0), 1):
            value = worth * share ** chance.uniform(0.3, 1.1)
            options.append(Option(max(1, int(full * share)), value, label))
        made.append(options)
    return made


@settings(deadline=None)
@given(ladders, st.integers(0, 300))
def test_the_budget_is_kept(made: Ladders, room: int) -> None:
    assert cost_of(solve(made, room)) <= room


@settings(deadline=None)
@given(ladders, st.integers(0, 300), st.integers(0, 100))
def test_more_room_never_lowers_the_score(made: Ladders, room: int, more: int) -> None:
    assert value_of(solve(made, room + more)) >= value_of(solve(made, room)) - 1e-9


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 400), st.integers(0, 10_000), st.integers(0, 200))
def test_more_room_never_lowers_the_score_of_many_items(seed: int, room: int, more: int) -> None:
    chance = random.Random(seed)
    made = [options for _ in range(6) for options in random_ladders(chance)]
    one, other = solve(made, room), solve(made, room + more)
    assert cost_of(one) <= room
    assert value_of(other) >= value_of(one) - 1e-9


def test_a_large_item_of_even_lines_gives_as_many_as_fit() -> None:
    lines = [Option(0, 0.0, 0), *(Option(12 + 7 * n, 0.1 * n, n) for n in range(1, 500))]
    (chosen,) = solve([lines], 300)
    assert chosen is not None and 39 <= chosen.label <= 41


@settings(deadline=None)
@given(ladders)
def test_steps_of_a_ladder_are_worth_less_and_less(made: Ladders) -> None:
    for options in made:
        climbed = hull(options)
        rates = [(b.value - a.value) / (b.cost - a.cost) for a, b in pairwise(climbed)]
        assert rates == sorted(rates, reverse=True)


def test_a_first_option_that_costs_is_paid_first() -> None:
    made = [[Option(5, 1.0, 1), Option(9, 2.0, 2)], [Option(5, 0.0, 1), Option(8, 9.0, 2)]]
    assert [option.label for option in solve(made, 13) if option] == [1, 2]
    assert solve(made, 7)[1] is None


def shares(seed: int, tightness: tuple[float, float]) -> list[float]:
    chance = random.Random(seed)
    found: list[float] = []
    for _ in range(INSTANCES):
        made = random_ladders(chance)
        room = int(chance.uniform(*tightness) * sum(options[-1].cost for options in made))
        found.append(value_of(solve(made, room)) / exact(made, room))
    return found


def test_greedy_is_near_the_exact_optimum() -> None:
    found = shares(11, (0.15, 0.7))
    print(f"greedy / exact over {INSTANCES}: median {statistics.median(found):.4f}, worst {min(found):.4f}")
    assert statistics.median(found) >= 0.98
    assert min(found) >= 0.9
