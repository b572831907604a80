"""From a name and options to a policy: built in, an installed entry point, or `module:attribute`. Fails at start."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import entry_points
from typing import Any, cast, get_type_hints

from policies.contract import Policy
from policies.last_n import LastN
from policies.passthrough import Passthrough
from policies.selector import Greedy, Selector
from policies.sticky import Sticky

ENTRY_POINT_GROUP = "undercliff.policies"
DEFAULT = Sticky.name

_BUILT_IN: dict[str, type[Policy]] = {policy.name: policy for policy in (Sticky, Selector, Greedy, LastN, Passthrough)}


class PolicyError(ValueError):
    """A policy's name or an option that cannot work; the message says what to do."""


def names() -> list[str]:
    """Every name that `build` knows without an import string."""
    return sorted({*_BUILT_IN, *(point.name for point in entry_points(group=ENTRY_POINT_GROUP))})


def build(name: str, options: Mapping[str, object] | None = None) -> Policy:
    """The policy of that name, with its options checked.

    A factory may carry `options_type`, a frozen dataclass: it is then called with one instance of
    it. Without one it is called with nothing, and takes no options.
    """
    factory = _find(name)
    given = dict(options or {})
    options_type = getattr(factory, "options_type", None)
    if options_type is None:
        if given:
            raise PolicyError(f"Policy {name!r} takes no options, but {_listing(given)} given.")
        made = factory() if not hasattr(factory, "select") or isinstance(factory, type) else factory
    else:
        made = factory(_checked(name, options_type, given))
    if not callable(getattr(made, "select", None)) or not isinstance(getattr(made, "name", None), str):
        raise PolicyError(f"{name!r} is not a policy: it needs a `name` and a method `select(situation)`.")
    return cast(Policy, made)


def import_from_string(path: str) -> object:
    """The attribute that `module:attribute` names."""
    module_name, _, attribute = path.partition(":")
    if not module_name or not attribute:
        raise PolicyError(f"Import string {path!r} must be in format '<module>:<attribute>'.")
    try:
        found: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # An import that fails inside the module is its author's error and must be seen as it is.
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise
        raise PolicyError(f"Could not import module {module_name!r}.") from error
    try:
        for part in attribute.split("."):
            found = getattr(found, part)
    except AttributeError as error:
        raise PolicyError(f"Attribute {attribute!r} not found in module {module_name!r}.") from error
    return found


def _find(name: str) -> Callable[..., object]:
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    for point in entry_points(group=ENTRY_POINT_GROUP):
        if point.name == name:
            return cast(Callable[..., object], point.load())
    if ":" in name:
        return cast(Callable[..., object], import_from_string(name))
    raise PolicyError(f"Unknown policy {name!r}.{_did_you_mean(name, names())}")


def _checked(name: str, options_type: Any, given: Mapping[str, object]) -> object:
    fields = {field.name: field for field in dataclasses.fields(options_type)}
    hints = get_type_hints(options_type)
    values: dict[str, object] = {}
    for key, value in given.items():
        if key not in fields:
            raise PolicyError(f"Policy {name!r} has no option {key!r}.{_did_you_mean(key, fields)}")
        values[key] = _typed(name, key, value, hints[key])
    try:
        return options_type(**values)
    except ValueError as error:
        raise PolicyError(f"Policy {name!r}: {error}.") from error


def _typed(name: str, key: str, value: object, wanted: Any) -> object:
    """A whole number serves as a float; a bool never as a number."""
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(wanted, type) and (not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool)):
        raise PolicyError(f"Option {key!r} of policy {name!r} must be {_word(wanted)}, not {value!r}.")
    return value


def _word(wanted: type) -> str:
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}.get(wanted, wanted.__name__)


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    known = sorted(known)
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f" Did you mean {near[0]!r}?" if near else f" Known: {', '.join(known) or 'none'}."


def _listing(given: Mapping[str, object]) -> str:
    listed = ", ".join(repr(key) for key in given)
    return f"{listed} {'was' if len(given) == 1 else 'were'}"
