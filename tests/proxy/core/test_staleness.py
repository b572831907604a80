"""Reads that no longer show the file."""

from __future__ import annotations

from proxy.core.staleness import StaleReader
from tests.support.listed import call, notes, shell, user


def stale(*parts: list[dict[str, object]]) -> dict[str, tuple[str, ...]]:
    messages = [user("go"), *(message for part in parts for message in part)]
    return {item: note.stale for item, note in notes(StaleReader(), messages).items()}


def test_an_edit_makes_every_earlier_read_of_the_file_stale() -> None:
    assert stale(
        shell(1, "cat src/a.py", "one"),
        shell(2, "sed -n '1,9p' /repo/src/a.py", "one"),
        shell(3, "cat src/b.py", "two"),
        shell(4, "cd /repo && sed -i 's/one/1/' src/a.py"),
        shell(5, "cat src/a.py", "1"),
    ) == {"m8": ("m2", "m4")}


def test_a_read_with_another_content_makes_the_same_read_stale() -> None:
    assert stale(
        shell(1, "cat a.log", "one"),
        shell(2, "cat a.log", "one"),
        shell(3, "cat a.log", "two"),
        shell(4, "cat a.log", "two"),
    ) == {"m6": ("m2", "m4")}


def test_another_part_of_the_file_says_nothing() -> None:
    assert stale(shell(1, "sed -n 1,9p a.py", "one"), shell(2, "sed -n 10,19p a.py", "two")) == {}


def test_edit_tools_count_when_they_worked() -> None:
    read = call(1, "read_file", "one", path="src/a.py")
    patch = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-one\n+1\n*** End Patch"
    assert stale(read, call(2, "apply_patch", "Done!", input=patch)) == {"m4": ("m2",)}
    assert stale(read, call(2, "write_file", "ok", path="src/a.py", content="1")) == {"m4": ("m2",)}
    assert stale(read, call(2, "write_file", "Error: no such folder", path="src/a.py", content="1")) == {}


def test_a_read_after_the_edit_is_fresh_until_the_next_one() -> None:
    assert stale(
        shell(1, "cat a.py", "one"),
        shell(2, "cat > a.py <<'EOF'\ntwo\nEOF"),
        shell(3, "cat a.py", "two"),
        shell(4, "rm a.py"),
    ) == {"m4": ("m2",), "m8": ("m6",)}


def test_a_failed_read_is_no_read() -> None:
    assert stale(shell(1, "cat a.py", "cat: a.py: No such file or directory"), shell(2, "echo x > a.py")) == {}
