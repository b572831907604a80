"""Names, import strings and options: what is wrong is said at start, with the nearest right word."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from policies import registry
from policies.model import Selection, Situation
from policies.passthrough import Passthrough
from policies.registry import PolicyError, build, names
from policies.sticky import Sticky


@dataclass(frozen=True)
class OwnOptions:
    ratio: float = 0.5
    is_loud: bool = False
    label: str = "x"

    def __post_init__(self) -> None:
        if self.ratio > 1:
            raise ValueError("ratio must be 1 or less")


class Own(Passthrough):
    name = "own"
    options_type = OwnOptions  # type: ignore[assignment]

    def __init__(self, options: OwnOptions) -> None:  # type: ignore[override]
        self.own = options


class Bare:
    name = "bare"

    def select(self, situation: Situation) -> Selection:
        return Selection(())


INSTANCE = Bare()
NOT_A_POLICY = dict
HERE = __name__


def test_built_in_names() -> None:
    assert {"sticky", "last_n", "passthrough"} <= set(names())
    assert all(build(name).name == name for name in ("sticky", "last_n", "passthrough"))
    assert registry.DEFAULT == "sticky"


def test_options_reach_the_policy() -> None:
    policy = build("sticky", {"mask_at": 30_000, "keep": 8})
    assert isinstance(policy, Sticky)
    assert (policy.options.mask_at, policy.options.keep) == (30_000, 8)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("stiky", {}, "Unknown policy 'stiky'. Did you mean 'sticky'?"),
        ("zzz", {}, "Unknown policy 'zzz'. Known: greedy, last_n, passthrough, selector, sticky."),
        ("sticky", {"mask_att": 1}, "Policy 'sticky' has no option 'mask_att'. Did you mean 'mask_at'?"),
        ("sticky", {"mask_at": "many"}, "Option 'mask_at' of policy 'sticky' must be a whole number, not 'many'."),
        ("sticky", {"keep": True}, "Option 'keep' of policy 'sticky' must be a whole number, not True."),
        ("sticky", {"keep": -1}, "Policy 'sticky': keep must be 0 or more."),
        ("passthrough", {"x": 1}, "Policy 'passthrough' has no option 'x'. Known: none."),
        (f"{HERE}:Own", {"ratio": 2}, f"Policy '{HERE}:Own': ratio must be 1 or less."),
        (f"{HERE}:Own", {"is_loud": 1}, f"Option 'is_loud' of policy '{HERE}:Own' must be true or false, not 1."),
        (f"{HERE}:Bare", {"a": 1}, f"Policy '{HERE}:Bare' takes no options, but 'a' was given."),
        (":Own", {}, "Import string ':Own' must be in format '<module>:<attribute>'."),
        ("nowhere_at_all:X", {}, "Could not import module 'nowhere_at_all'."),
        (f"{HERE}:Missing", {}, f"Attribute 'Missing' not found in module '{HERE}'."),
        (
            f"{HERE}:NOT_A_POLICY",
            {},
            f"'{HERE}:NOT_A_POLICY' is not a policy: it needs a `name` and a method `select(situation)`.",
        ),
    ],
)
def test_errors_say_what_to_do(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        build(name, options)
    assert str(caught.value) == message


def test_import_strings() -> None:
    own = build(f"{HERE}:Own", {"ratio": 1, "is_loud": True})
    assert isinstance(own, Own)
    assert own.own == OwnOptions(ratio=1.0, is_loud=True)
    assert isinstance(build(f"{HERE}:Bare"), Bare)
    assert build(f"{HERE}:INSTANCE") is INSTANCE


def test_an_import_error_inside_the_module_is_shown_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_policy.py").write_text("import not_installed_anywhere\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        build("broken_policy:X")
    sys.modules.pop("broken_policy", None)


def test_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint(name="mine", value=f"{HERE}:Bare", group=registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == point.group else [])
    assert "mine" in names()
    assert isinstance(build("mine"), Bare)
