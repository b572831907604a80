"""How the knapsack grows with the number of items, and how fast it is beside a plain loop on this machine.

Run it with `python -m tests.bench.selector_growth`.
"""

from __future__ import annotations

import random
import time

from policies.knapsack import Option, Problem

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
LOOP = 1_000_000


def ladders(count: int, seed: int = 7) -> list[list[Option]]:
    """Items that can be absent, a stub, an excerpt or whole."""
    chance = random.Random(seed)
    made: list[list[Option]] = []
    for _ in range(count):
        full = int(chance.lognormvariate(5.0, 1.0)) + 30
        worth = chance.random()
        made.append(
            [
                Option(0, 0.0, 0),
                Option(25, 0.1 * worth, 1),
                Option(25 + full // 4, worth * chance.uniform(0.3, 0.7), 2),
                Option(full + 26, worth, 3),
            ]
        )
    return made


def reference_s() -> float:
    """CPU seconds of a loop of a million additions and products."""
    start = time.process_time()
    total = 0
    for number in range(LOOP):
        total += number * number
    return time.process_time() - start


def measured(count: int, rounds: int = 5) -> tuple[float, float]:
    """CPU seconds of preparing the ladders, and of one solution of them: the best of some rounds."""
    made = ladders(count)
    room = sum(options[-1].cost for options in made) // 4
    prepared: list[float] = []
    solved: list[float] = []
    for _ in range(rounds):
        start = time.process_time()
        problem = Problem(made)
        middle = time.process_time()
        problem.solve(room)
        prepared.append(middle - start)
        solved.append(time.process_time() - middle)
    return min(prepared), min(solved)


def main() -> None:
    reference = min(reference_s() for _ in range(3))
    print(f"reference: {LOOP:,} rounds of a loop with one product and one sum, {1e3 * reference:.0f} ms CPU")
    print(f"{'items':>9} {'prepare ms':>11} {'re-solve ms':>12} {'us an item':>11} {'re-solve / reference':>21}")
    for count in SIZES:
        prepared, solved = measured(count, rounds=5 if count <= 10_000 else 2)
        each = 1e6 * solved / count
        print(f"{count:>9,} {1e3 * prepared:>11.1f} {1e3 * solved:>12.1f} {each:>11.2f} {solved / reference:>21.2f}")


if __name__ == "__main__":
    main()
