"""Which files a call touches."""

from __future__ import annotations

import pytest

from proxy.core.touched import Touched, is_same_file, touched


@pytest.mark.parametrize(
    ("command", "reads", "writes"),
    [
        ("cat src/a.py", ("src/a.py",), ()),
        ("cd /repo && sed -n '10,40p' src/a.py | head -5", ("/repo/src/a.py",), ()),
        (
            "cd /repo && sed -i 's|old/x|new|g; s/a/b/' src/a.py && cat src/a.py",
            ("/repo/src/a.py",),
            ("/repo/src/a.py",),
        ),
        ("cat > src/b.py << 'EOF' import os.path; cat x.py > y.py EOF", (), ("src/b.py",)),
        ("echo x >> notes/log.txt 2>/dev/null", (), ("notes/log.txt",)),
        ("FOO=1 tee out.txt < in.txt", (), ("out.txt", "in.txt")),
        ("git checkout -- src/a.py; git diff src/b.py", (), ("src/a.py",)),
        ("ruff check --fix src/a.py", (), ("src/a.py",)),
        ("ruff check src/a.py", (), ()),
        ("rm -rf build/x.o", (), ("build/x.o",)),
        ("pytest -q tests/test_a.py", (), ()),
        ("head -20 'my notes.txt'", (), ()),
        ("python -c \"print('a/b.py')\"", (), ()),
    ],
)
def test_a_shell_command(command: str, reads: tuple[str, ...], writes: tuple[str, ...]) -> None:
    made = touched("bash", command)
    assert (made.reads, made.writes, made.is_shell) == (reads, writes, True)


@pytest.mark.parametrize(
    ("tool", "argument", "arguments", "expected"),
    [
        ("read_file", "src/a.py", "", Touched(("src/a.py",))),
        ("str_replace_editor", "view /r/src/a.py", "", Touched(("/r/src/a.py",))),
        ("str_replace_editor", "str_replace /r/src/a.py", "", Touched((), ("/r/src/a.py",))),
        ("write_file", "./src/a.py", "", Touched((), ("src/a.py",))),
        (
            "apply_patch",
            "",
            '{"input": "*** Begin Patch\\n*** Update File: src/a.py\\n@@\\n-x"}',
            Touched((), ("src/a.py",)),
        ),
        ("get_order", "#W77", "", Touched()),
        ("mcp__fs__read_file", "a.md", "", Touched(("a.md",))),
    ],
)
def test_a_tool(tool: str, argument: str, arguments: str, expected: Touched) -> None:
    assert touched(tool, argument, arguments) == expected


def test_one_file_under_two_names() -> None:
    assert is_same_file("/repo/src/a.py", "src/a.py")
    assert not is_same_file("/repo/src/aa.py", "a.py")


def test_any_command_ends() -> None:
    for text in ("'" * 5_000, "<<A " * 5_000, "> " * 5_000, "a/" * 9_000, "\\" * 5_000):
        touched("bash", text)
