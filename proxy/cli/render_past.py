"""What looking back prints for people: two windows compared, and who held a text."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from proxy.core.display import visible
from proxy.hindsight import Holder, WindowsCompared


def compared(found: WindowsCompared) -> None:
    """One line a changed item, then what it did to the size."""
    if not found.changes:
        typer.echo("no difference")
    for one in found.changes:
        forms = " -> ".join(form for form in (one.before, one.after) if form)
        why = f": {visible(one.why)}" if one.why else ""
        typer.echo(f"{one.change:<9} {one.item}  {forms}  {one.tokens:+,} tokens{why}")
    if found.reason:
        typer.echo(f"why: {visible(found.reason)}")
    typer.echo(f"{found.same_prefix} entries at the front are the same; {found.tokens:+,} tokens in all")


def holders(found: Sequence[Holder]) -> None:
    """One line an item."""
    if not found:
        typer.echo("no item of this conversation holds it")
    for one in found:
        still = ", the text among what went out" if one.still_holds else ", without the text"
        served = one.served + (still if one.served not in ("full", "absent", "not there yet") else "")
        why = f"  ({visible(one.reason)})" if one.reason else ""
        typer.echo(f"{one.item}  {visible(one.role)} {one.kind}: {served}{why}")
