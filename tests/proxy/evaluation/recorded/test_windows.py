"""Windows as they would be served: within the budget, valid, with excerpts and an index."""

from __future__ import annotations

import pytest

from policies.last_n import LastN
from policies.passthrough import Passthrough
from policies.selector import Selector, SelectorOptions
from proxy.evaluation.recorded.windows import Server
from proxy.tokenizer import Tokenizer
from tests.proxy.evaluation.recorded.made import run


@pytest.mark.parametrize("share", [0.5, 0.25])
def test_a_selector_stays_within_its_budget(share: float) -> None:
    made = run()
    windows = list(
        Server(made, Selector(), Tokenizer().count, index=SelectorOptions().index).windows(made.budget(share))
    )
    assert len(windows) == len(made.calls())
    assert all(window.is_valid and window.tokens <= made.budget(share) for window in windows)
    assert windows[-1].notes and any(window.stubs for window in windows)


def test_the_whole_list_is_the_whole_list() -> None:
    made = run()
    *_, last = Server(made, Passthrough(), Tokenizer().count, index=0.0).windows(10**6)
    assert last.full == frozenset(range(last.step)) and last.tokens == sum(c.tokens for c in made.items[: last.step])


def test_keep_last_keeps_the_newest() -> None:
    made = run()
    *_, last = Server(made, LastN(), Tokenizer().count, index=0.0).windows(made.budget(0.25))
    assert {0, 1, last.step - 1} <= last.full and 3 not in last.full
