from __future__ import annotations

import pytest

from proxy.evaluation.recorded.atoms import atoms_of, values
from tests.proxy.evaluation.recorded.made import call, said


@pytest.mark.parametrize(
    ("text", "atom", "kind"),
    [
        ("cat src/app/main.py", "src/app/main.py", "path"),
        ("look at main_window.py now", "main_window.py", "file"),
        ("order 8812345 of it", "8812345", "id"),
        ("call read_stock_level here", "read_stock_level", "ident"),
        ("see https://example.org/a?b=1 for it", "https://example.org/a?b=1", "url"),
        ("write to ann@example.org", "ann@example.org", "email"),
    ],
)
def test_names_in_arguments_are_found_with_their_class(text: str, atom: str, kind: str) -> None:
    assert atoms_of(call("c", "bash", command=text))[atom] == kind


def test_what_is_said_gives_no_identifiers() -> None:
    found = atoms_of(said("assistant", "I read stock_level of K123456."))
    assert "K123456" in found and "stock_level" not in found


def test_lines_of_longer_arguments_are_atoms() -> None:
    line = "total = sum(boxes) - reserved"
    assert atoms_of(call("c", "write", text=f"x\n    {line}\n"))[line] == "line"


def test_arguments_are_read_at_any_depth() -> None:
    assert values('{"a": [{"b": "deep"}], "n": 5}') == ["deep", "5"]
    assert values("no json") == ["no json"]
