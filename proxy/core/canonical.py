"""Canonical forms: equal content, equal hash, whatever the client re-encoded. Pure; sees text, never JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from proxy.core.model import Atom, AtomKind, Element

HASH_SIZE = 16


def digest(data: bytes) -> bytes:
    """16 bytes over exact bytes."""
    return blake2b(data, digest_size=HASH_SIZE).digest()


def normalise_text(text: str) -> str:
    """CRLF becomes LF; blanks at line ends and around the whole are dropped. Linear in the length."""
    if " \n" in text or "\t\n" in text or "\r\n" in text:
        # Not a regular expression: `[ \t]+\n` is quadratic on long runs of blanks.
        text = "\n".join(line.rstrip(" \t\r") for line in text.split("\n"))
    return text.strip()


def printable(text: str) -> str:
    """The text with lone surrogates replaced, so that it can be encoded as UTF-8."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def anchor(call_id: str) -> str:
    """A call id as identity compares it: some clients strip everything but letters and digits."""
    if call_id.isalnum() and call_id.isascii():
        return call_id
    return "".join(c for c in call_id if c.isascii() and c.isalnum())


def make_atom(
    kind: AtomKind, content: str, *, call_id: str = "", is_weak: bool = False, text: str | None = None
) -> Atom:
    """An atom over canonical `content`. `text` is what receipts compare, by default the content itself."""
    data = f"{kind}\0{content}".encode("utf-8", "surrogatepass")
    readable = content if text is None else text
    return Atom(kind, digest(data), anchor(call_id), is_weak, printable(readable))


def call_atom(call_id: str, name: str, arguments: str) -> Atom:
    """A tool call by name and canonical arguments; the wire format canonicalises the JSON."""
    return make_atom("call", f"{name}\0{arguments}", call_id=call_id, text="")


def element_hash(atoms: Sequence[Atom]) -> bytes:
    """Over the strong atoms, or over all when every one is weak: equal content, equal hash."""
    strong = [atom for atom in atoms if not atom.is_weak] or atoms
    return digest(b"".join(atom.hash for atom in strong))


def chain(elements: Iterable[Element]) -> list[tuple[int, Atom]]:
    """The strong atoms in order, each with the index of its element.

    Assistant text that is directly followed by a call is weak in both wire formats. In Responses
    it is an element of its own, so only the list can tell. Pass the body without its head.
    """
    found: list[tuple[int, Atom]] = []
    for index, element in enumerate(elements):
        for atom in element.atoms:
            if atom.is_weak:
                continue
            if atom.kind == "call" and found and found[-1][1].kind == "asst":
                found.pop()
            found.append((index, atom))
    return found
