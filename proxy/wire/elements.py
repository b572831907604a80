"""Building elements from what a wire format read. Shared by the formats; knows no key of theirs."""

from __future__ import annotations

from collections.abc import Sequence

from proxy.core.canonical import call_atom, digest, element_hash, printable
from proxy.core.model import Atom, Call, Element, ItemKind
from proxy.wire import jsonbytes

HEAD_ROLES = ("system", "developer")


def build_element(
    raw: bytes,
    kind: ItemKind,
    role: str,
    text: str,
    atoms: Sequence[Atom],
    *,
    flat_tokens: int = 0,
    texts: tuple[str, ...] = (),
    calls: tuple[Call, ...] = (),
    answers: str | None = None,
    is_failed: bool = False,
) -> Element:
    """An element with its hashes."""
    return Element(
        raw=raw,
        kind=kind,
        role=role,
        text=text,
        atoms=tuple(atoms),
        texts=texts,
        calls=calls,
        answers=answers,
        is_failed=is_failed,
        flat_tokens=flat_tokens,
        hash=element_hash(atoms),
        body_hash=digest(raw),
    )


def build_call(call_id: object, name: object, arguments: object) -> Call:
    """A call from values of any type: what is no text counts as none, an object as its JSON."""
    if arguments is not None and not isinstance(arguments, str):
        arguments = jsonbytes.canonical_value(arguments)
    return Call(_text(call_id), _text(name), _text(arguments))


def atom_of_call(call: Call, *, has_id: bool = True) -> Atom:
    """The call's atom; `has_id` when its id was issued by a provider and so says who it is."""
    return call_atom(call.id if has_id else "", call.name, jsonbytes.canonical(call.arguments))


def describe_call(call: Call) -> str:
    """A call as readable text."""
    return f"{call.name}({call.arguments})"


def join_lines(*lines: str) -> str:
    return "\n".join(line for line in lines if line)


def count_head(elements: Sequence[Element]) -> int:
    """How many leading elements are system or developer messages."""
    for index, element in enumerate(elements):
        if element.role not in HEAD_ROLES:
            return index
    return len(elements)


def _text(value: object) -> str:
    return printable(value) if isinstance(value, str) else ""
