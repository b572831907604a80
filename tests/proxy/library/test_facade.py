"""The library as its users see it: the sketch, the budget's promise, the store that the proxy shares, clear errors."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proxy import ContextStore, open_store
from proxy.errors import BudgetError, ConfigError, InputError, NotFoundError, StoreError, UndercliffError
from tests.support.provider_count import provider_count
from tests.support.strict_lists import chat_fault

RULE = "never touch db/migrations"
GREP = "\n".join(f"src/mod_{n % 37}/file_{n}.py:{n}: tide_gauge = read({n})" for n in range(1_040))


def code(number: int) -> str:
    return "\n".join(f"def quay_{number}_{n}(ship): return ship + {n}" for n in range(60))


def fill(store: ContextStore, steps: int, start: int = 1) -> dict[int, str]:
    """So many tool calls of an agent at work; the twelfth is a 52 KB grep."""
    ids = {}
    for step in range(start, start + steps):
        if step == 12:
            ids[step] = store.add("tool_result", GREP, source="grep -rn tide_gauge .", tool="bash")
        elif step % 3 == 0:
            ids[step] = store.add("file_read", code(step), source=f"src/quay_{step}.py")
        else:
            ids[step] = store.add("tool_result", f"step {step} is done\n" * 30, source=f"make step-{step}", tool="bash")
    return ids


def test_the_story_that_it_is_for(tmp_path: Path) -> None:
    """A rule at step 1, a 52 KB grep at step 12, 90 calls, 12,000 tokens."""
    assert len(GREP.encode()) > 52_000
    with open_store(tmp_path / "run-4411.db") as store:
        store.add("user", f"Move the harbour to the new tide API. Please {RULE}, whatever happens. Small steps.")
        ids = fill(store, 90)
        window = store.context_get(12_000, model="gpt-5")
        said = [str(item.get("content") or "") for item in window.items]
        assert any(RULE in text for text in said)
        assert provider_count(window.items) <= window.manifest.used <= 12_000
        assert chat_fault(list(window.items)) is None
        (entry,) = [entry for entry in window.manifest.entries if entry.id == ids[12]]
        lines = [line for text in said for line in text.split("\n") if ids[12] in line]
        assert len(lines) == 1 and "grep -rn tide_gauge ." in lines[0] and len(lines[0]) < 200
        assert entry.place == "stub" and entry.tokens == 0 and entry.full_tokens > 15_000
        assert not any("file_777.py" in text for text in said)
        assert store.expand(ids[12]) == GREP
        assert store.expand(ids[12], lines="500-502") == "\n".join(GREP.split("\n")[499:502])
        assert store.expand(ids[12], lines=(1, 1)) == GREP.split("\n")[0]
        assert store.expand(ids[12], query="FILE_777.py", context=0) == GREP.split("\n")[777]


def test_a_window_goes_on_from_the_one_before(tmp_path: Path) -> None:
    """Identical calls, identical windows; what is new stands behind what was there; a restart changes nothing."""
    path = tmp_path / "x.db"
    with open_store(path) as store:
        store.add("user", f"Go. {RULE}")
        fill(store, 60)
        first = store.context_get(9_000, model="gpt-5")
        again = store.context_get(9_000, model="gpt-5")
        assert again.items == first.items and again.manifest.used == first.manifest.used
        fill(store, 2, start=61)
        second = store.context_get(9_000, model="gpt-5")
        assert second.items[: len(first.items)] == first.items and len(second.items) == len(first.items) + 4
        assert first.manifest.reason and not second.manifest.reason
    with open_store(path) as store:
        assert store.context_get(9_000, model="gpt-5").items == second.items
        fill(store, 1, start=64)
        assert store.context_get(9_000, model="gpt-5").items[: len(second.items)] == second.items


@pytest.mark.parametrize("policy", ["selector", "greedy", "sticky", "last_n"])
@pytest.mark.parametrize("budget", [1_500, 3_000, 20_000, 100_000])
def test_the_budget_is_a_promise(tmp_path: Path, policy: str, budget: int) -> None:
    """Never exceeded by the provider's own count, whatever texts there are; the list stays valid."""
    chance = random.Random(budget)
    texts: list[Callable[[], str]] = [
        lambda: " ".join(
            chance.choice(["tide", "quay", "{}", "=>", "0x1f", "naïve", "港口", "🚢"]) for _ in range(300)
        ),
        lambda: "".join(chr(chance.randrange(0x4E00, 0x9000)) for _ in range(400)),
        lambda: code(chance.randrange(99)),
        lambda: "-" * 2_000,
        lambda: "".join(chance.choice("ab \n\t,;") for _ in range(900)),
    ]
    with open_store(tmp_path / "x.db", policy=policy) as store:
        store.add("system", "You are at sea.")
        store.add("user", "Sort the harbour.")
        for step in range(40):
            store.add("tool_result", chance.choice(texts)(), source=f"look {step}", tool="bash")
            if step % 9 == 5:
                store.add("assistant", "So far so good. " * chance.randrange(1, 20))
                store.add("user", f"Go on with {step}. You must not touch quay {step}.")
        window = store.context_get(budget, model="gpt-5", remember=False)
        assert provider_count(window.items) <= window.manifest.used <= budget
        assert chat_fault(list(window.items)) is None
        said = "\n".join(str(item.get("content")) for item in window.items)
        assert all(f"You must not touch quay {step}." in said for step in range(5, 40, 9))


def test_an_item_larger_than_the_budget_becomes_smaller(tmp_path: Path) -> None:
    with open_store(tmp_path / "x.db") as store:
        store.add("user", "Look at it.")
        big = store.add("tool_result", GREP, source="grep -rn tide .", tool="bash")
        window = store.context_get(2_000, model="gpt-5")
        assert provider_count(window.items) <= 2_000
        (entry,) = [entry for entry in window.manifest.entries if entry.id == big]
        assert entry.form in ("stub", "excerpt") and "larger than the budget allows" in entry.reason
        assert store.context_get(200_000, model="gpt-5").items[-1]["content"] == GREP


def test_pins_links_and_importance(tmp_path: Path) -> None:
    with open_store(tmp_path / "x.db") as store:
        store.add("user", "Go.")
        pinned = store.add("tool_result", "The berth plan: " + "quay " * 50, source="plan", tool="bash", pin=True)
        later = store.add("tool_result", "A note that is pinned afterwards. " * 9, source="note", tool="bash")
        dear = store.add("tool_result", "buoy lamp colour\n" * 3, source="dear", tool="bash", links=[(pinned, "cites")])
        fill(store, 60)

        def entry(id: str) -> Any:
            manifest = store.context_get(4_000, model="gpt-5", remember=False).manifest
            return next(entry for entry in manifest.entries if entry.id == id)

        assert entry(pinned).place == "pinned" and entry(pinned).tokens > 50
        assert entry(later).place != "pinned"
        store.pin(later)
        assert entry(later).place == "pinned"
        store.unpin(later)
        assert entry(later).place != "pinned"
        before = entry(dear).score
        store.importance(dear, 3)
        assert entry(dear).score > before
        store.link(later, pinned, "derived_from")
    with open_store(tmp_path / "x.db") as store:
        assert store.expand(dear) == "buoy lamp colour\n" * 3


def test_a_query_brings_up_what_it_names_and_is_no_syntax(tmp_path: Path) -> None:
    with open_store(tmp_path / "x.db") as store:
        store.add("user", "Go.")
        notes = [f"entry {n} of the pilot book, about quay {n * 7}" for n in range(80)]
        notes[41] = "entry 41: the zeppelin_mast stands behind the chandlery"
        hidden = store.add("tool_result", "\n".join(notes), source="cat pilot.txt", tool="bash")
        fill(store, 60)

        def kept(query: str | None) -> str:
            window = store.context_get(4_000, model="gpt-5", query=query, remember=False)
            return "\n".join(str(item.get("content")) for item in window.items)

        assert "behind the chandlery" in kept("zeppelin_mast")
        assert "behind the chandlery" not in kept("re-index AND \"unbalanced ' OR NEAR( C++ * ^")
        assert store.search("zeppelin_mast")[0][0] == hidden
        assert store.search('"unbalanced ns::name') == []


def test_a_budget_below_what_must_stay_says_how_much_that_is(tmp_path: Path) -> None:
    with open_store(tmp_path / "x.db") as store:
        store.add("user", "tide " * 600)
        with pytest.raises(BudgetError, match="the budget is 100") as caught:
            store.context_get(100, model="gpt-5")
        needed = caught.value.needed
        assert 600 < needed < 640
        assert provider_count(store.context_get(needed, model="gpt-5").items) <= needed


def test_whole_messages_and_several_conversations(tmp_path: Path) -> None:
    calls = [{"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}]
    with open_store(tmp_path / "x.db") as store:
        store.add("message", {"role": "user", "content": "List."}, conversation="one")
        store.add("message", {"role": "assistant", "content": None, "tool_calls": calls}, conversation="one")
        store.add("message", {"role": "tool", "tool_call_id": "c1", "content": "a b"}, conversation="one")
        store.add("user", "Something else.", conversation="two")
        assert [item["role"] for item in store.context_get(500, model="m", conversation="one").items] == [
            "user", "assistant", "tool",
        ]  # fmt: skip
        two = store.context_get(500, model="m", conversation="two")
        assert [item["content"] for item in two.items] == ["Something else."]
        by_id = store.context_get(500, model="m", conversation=two.manifest.conversation[:8])
        assert by_id.items == two.items


def test_a_file_read_keeps_path_and_hash_and_goes_stale(tmp_path: Path) -> None:
    with open_store(tmp_path / "x.db") as store:
        store.add("user", "Go.")
        old = store.add("file_read", code(1), source="src/quay.py")
        new = store.add("file_read", code(2), source="src/quay.py")
        rows = store._run(store._store.find_item(old)), store._run(store._store.find_item(new))
        assert rows[0][0].kind == rows[1][0].kind == "file_read"
        path, first = rows[0][0].source.split(" ")
        assert path == "src/quay.py" and len(first) == 32 and rows[1][0].source != rows[0][0].source
        fill(store, 60)
        scores = {e.id: e.score for e in store.context_get(4_000, model="gpt-5", remember=False).manifest.entries}
        assert scores[old] < scores[new]


@pytest.mark.parametrize(
    ("use", "error", "words"),
    [
        (lambda s: s.add("tool", "x"), InputError, "kind must be one of"),
        (lambda s: s.add("user", 7), InputError, "is a text, not int"),
        (lambda s: s.add("message", "x"), InputError, "is a mapping"),
        (lambda s: s.add("message", {"content": "x"}), InputError, "needs a role"),
        (lambda s: s.add("file_read", "x"), InputError, "needs its source"),
        (lambda s: s.add("user", "x", importance=float("nan")), InputError, "must be a number"),
        (lambda s: s.add("user", "x", links=[("aaaaaaaaaaaa", "likes")]), InputError, "a link's type"),
        (lambda s: s.add("user", "x", links=[("aaaaaaaaaaaa", "cites")]), NotFoundError, "no item"),
        (lambda s: s.context_get(0, model="m"), InputError, "budget"),
        (lambda s: s.context_get(True, model="m"), InputError, "budget"),
        (lambda s: s.context_get(1000, model=""), InputError, "model"),
        (lambda s: s.context_get(1000, model="m", query=3), InputError, "query"),
        (lambda s: s.context_get(1000, model="m", conversation="nope"), NotFoundError, "no conversation 'nope'"),
        (lambda s: s.expand("aaaaaaaaaaaa"), NotFoundError, "no item"),
        (lambda s: s.expand("aaaaaaaaaaaa", lines="x-y"), InputError, "lines must be"),
        (lambda s: s.expand("aaaaaaaaaaaa", lines="1-2", query="x"), InputError, "not both"),
        (lambda s: s.pin("aaaaaaaaaaaa"), NotFoundError, "no item"),
        (lambda s: s.link("aaaaaaaaaaaa", "b", "cites"), NotFoundError, "no item"),
    ],
)
def test_errors_name_what_is_wrong(
    tmp_path: Path, use: Callable[[Any], object], error: type[UndercliffError], words: str
) -> None:
    with open_store(tmp_path / "x.db") as store:
        store.add("user", "There is something.")
        with pytest.raises(error, match=words):
            use(store)
        assert len(store.context_get(500, model="m").items) == 1


def test_opening_fails_with_words(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="selectr"):
        open_store(tmp_path / "x.db", policy="selectr")
    with pytest.raises(ConfigError, match="tial"):
        open_store(tmp_path / "x.db", options={"tial": 0.3})
    (tmp_path / "text.db").write_text("no database at all, but a text of some length\n" * 50)
    with pytest.raises(StoreError):
        open_store(tmp_path / "text.db")
    store = open_store(tmp_path / "x.db")
    with pytest.raises(NotFoundError, match="no conversation"):
        store.context_get(500, model="m")
    store.close()
    store.close()
    with pytest.raises(InputError, match="closed"):
        store.add("user", "x")


def test_the_package_is_light_until_it_is_used() -> None:
    told = "import proxy, sys; assert not {'proxy.library', 'tiktoken'} & set(sys.modules); proxy.open_store"
    served = "; assert not {'uvicorn', 'starlette', 'httpx', 'aiohttp', 'typer'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", told + served], check=True, timeout=60)
