"""The kind of a call, by tool name and, for shells, by command."""

from __future__ import annotations

import pytest

from policies.kinds import kind_of_call


@pytest.mark.parametrize(
    ("tool", "argument", "kind"),
    [
        ("bash", "cd /app && grep -rn total src", "search"),
        ("bash", "cat a.py | grep total", "search"),
        ("bash", "cd /app; sed -n 1,80p a.py", "read"),
        ("bash", "sed -i 's/a/b/' a.py", "edit"),
        ("bash", "cat > a.py <<'EOF'\nx = 1\nEOF", "edit"),
        ("bash", "cat <<EOF > a.py\nx\nEOF", "edit"),
        ("shell", "PYTHONPATH=. python -m pytest -q", "run"),
        ("execute_bash", "git diff", "git"),
        ("bash", "echo done", "other"),
        ("bash", "", "other"),
        ("read_file", "a.py", "read"),
        ("mcp__files__read_file", "a.py", "read"),
        ("str_replace_editor", "view /app/a.py", "read"),
        ("str_replace_editor", "str_replace /app/a.py", "edit"),
        ("apply_patch", "*** Begin Patch", "edit"),
        ("grep", "total", "search"),
        ("get_order_details", "#W1", "api"),
        ("cancel_reservation", "AB12CD", "api"),
    ],
)
def test_kinds(tool: str, argument: str, kind: str) -> None:
    assert kind_of_call(tool, argument) == kind
