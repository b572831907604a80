"""Outlines of code and diffs."""

from __future__ import annotations

from proxy.core.outline import code_outline, diff_outline, is_diff, outline_text

CODE = [
    "import os",
    "",
    "class Harbour:",
    '    """Where ships lie."""',
    *(line for n in range(20) for line in (f"    def berth_{n}(self):", f"        tide = {n}", "        return tide")),
    "",
    "def moor(ship):",
    "    return Harbour()",
]


def test_code_is_told_by_what_it_defines_outermost_first() -> None:
    chosen = code_outline(CODE, frozenset(), 200)
    kept = [CODE[index] for index in chosen]
    assert "class Harbour:" in kept and "def moor(ship):" in kept
    assert all("def " in line or "class " in line for line in kept)
    made = outline_text(CODE, chosen)
    assert made.startswith("… 2 lines omitted\nclass Harbour:\n… 1 line omitted\n    def berth_0(self):")


def test_numbered_code_is_code() -> None:
    numbered = [f"{number:6}\t{line}" for number, line in enumerate(CODE, 1)]
    assert next(CODE[index] for index in code_outline(numbered, frozenset(), 400)) == "class Harbour:"


def test_terms_bring_their_lines() -> None:
    assert CODE.index("        tide = 17") in code_outline([*CODE[:-1], "x = anchor_1"], {"tide"}, 2_000)


def test_prose_and_search_results_are_no_code() -> None:
    assert code_outline(["the class of ships def"] * 50, frozenset(), 500) == []
    assert code_outline([f"src/a.py:{n}:def f(x):" for n in range(50)], frozenset(), 500) == []


DIFF = """diff --git a/quay.py b/quay.py
index 1..2 100644
--- a/quay.py
+++ b/quay.py
@@ -1,4 +1,5 @@ class Quay:
 same
-old tide
+new tide
+more
@@ -40,2 +41,1 @@
-gone
 same
diff --git a/mole.py b/mole.py
--- a/mole.py
+++ b/mole.py
@@ -1 +1 @@
-x
+y
"""


def test_a_diff_is_told_by_files_and_hunks() -> None:
    assert is_diff(DIFF) and not is_diff("a diff --git in prose\n")
    assert diff_outline(DIFF, frozenset(), 2_000).split("\n") == [
        "diff --git a/quay.py b/quay.py  (+0 −0)", "@@ -1,4 +1,5 @@ class Quay:  (+2 −1)", "…",
        "@@ -40,2 +41,1 @@  (+0 −1)", "…", "diff --git a/mole.py b/mole.py  (+0 −0)", "@@ -1 +1 @@  (+1 −1)", "…",
    ]  # fmt: skip


def test_changed_lines_that_are_asked_for_stay() -> None:
    assert "-old tide\n+new tide\n…" in diff_outline(DIFF, {"tide"}, 2_000)


def test_what_does_not_fit_is_counted() -> None:
    assert diff_outline(DIFF, frozenset(), 60).endswith("… 4 more hunks omitted")


def test_a_patch_of_another_form_is_one_too() -> None:
    patch = "*** Begin Patch\n*** Update File: src/a.py\n@@ def f\n-a\n+b\n*** End Patch"
    assert is_diff(patch)
    assert diff_outline(patch, frozenset(), 500).startswith("*** Update File: src/a.py  (+0 −0)\n@@ def f  (+1 −1)")
