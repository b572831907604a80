import time

import pytest

from proxy.core.failures import looks_failed

FAILED = [
    "Error: no such table",
    "error[E0308]: mismatched types",
    "ValueError: bad literal",
    "Traceback (most recent call last):\n  File x\nKeyError: 'a'",
    "some output\nTraceback (most recent call last):\n  File x\npkg.mod.CustomError: gone",
    "bash: foo: command not found",
    "cat: x.txt: No such file or directory\n",
    "Exit code: 1\nfoo",
    "Process exited with code 127",
    "line\nline\nexit status 2",
    '{"is_error": true, "content": "x"}',
    '{"output":"x","exit_code":1}',
    '{"error": "not found"}',
    "collected 3\n===== 1 failed, 2 passed in 0.1s =====",
    "gcc x\nmake: *** [all] Error 2",
    "unsupported call: ctx",
    "fatal: not a git repository",
]
FINE = [
    "",
    "all good",
    "Exit code: 0\nfine",
    "Process exited with code 0",
    "exit code: 1 then retried\nexit code: 0",
    "def f():\n    raise ValueError('x')\n",
    "class FooError(Exception):\n    pass\n",
    "The docs say: error: is printed on stderr in some cases.",
    '{"error": null, "rows": 3}',
    '{"success": true}',
    "===== 3 passed in 0.1s =====",
    "Traceback handling is described in chapter 3\nand more text",
]


@pytest.mark.parametrize("text", FAILED)
def test_failures_are_seen(text: str) -> None:
    assert looks_failed(text)


@pytest.mark.parametrize("text", FINE)
def test_other_output_is_no_failure(text: str) -> None:
    assert not looks_failed(text)


def test_files_that_quote_errors_in_the_middle_are_fine() -> None:
    assert not looks_failed("x = 1\n" * 1000 + "ValueError: quoted\nexit code 3\n" + "y = 2\n" * 1000)


@pytest.mark.parametrize("text", ["a" * 500_000, " " * 500_000, "-=" * 250_000, "a." * 250_000])
def test_long_runs_cost_nothing(text: str) -> None:
    started = time.process_time()
    looks_failed(text)
    assert time.process_time() - started < 0.2


@pytest.mark.parametrize(
    "text",
    [
        "ls: no: No such file or directory",
        "sh: quay: command not found",
        "2 failed, 3 passed in 0.1s",
        "done\nExit code: 2",
        "process exited with code 137",
    ],
)
def test_a_verdict_in_the_last_line_is_enough(text: str) -> None:
    assert looks_failed(text)


@pytest.mark.parametrize("text", ["exit status 0", "12 passed in 3s", "0 failed, 3 passed", "def on_error(): ...", ""])
def test_a_success_in_the_last_line_is_none(text: str) -> None:
    assert not looks_failed(text)
