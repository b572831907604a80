"""Hand-made requests and a desk that places them one after the other, as the exchange layer would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from proxy.core.branches import BranchIndex, BranchView, LastOutcome, Placement, finish, follow
from proxy.core.canonical import call_atom, digest, element_hash, make_atom, normalise_text
from proxy.core.identity import Path, decode_step, emitted, encode_step, item_ids, probe
from proxy.core.model import Atom, Call, Conversation, Element, Frame, Hints, Wire
from proxy.core.placement import place
from proxy.core.receipts import keys, new_keys

TOOLS = b'[{"type":"function","function":{"name":"look"}}]'


def system(text: str, role: str = "system") -> Element:
    return _element("message", role, text, [make_atom("sys", normalise_text(text))])


def user(text: str) -> Element:
    return _element("message", "user", text, [make_atom("user", normalise_text(text))])


def assistant(text: str | None, *calls: tuple[str, str, str]) -> Element:
    """One chat message: text, and calls as (id, name, canonical arguments)."""
    atoms = [make_atom("asst", normalise_text(text), is_weak=bool(calls))] if text else []
    atoms += [call_atom(*made) for made in calls]
    kind = "tool_call" if calls else "message"
    return _element(kind, "assistant", text or "", atoms, tuple(Call(*made) for made in calls))


def call(id: str, name: str = "look", arguments: str = "{}") -> Element:
    """One call as an element of its own, as Responses has it."""
    return _element("tool_call", "assistant", "", [call_atom(id, name, arguments)], (Call(id, name, arguments),))


def result(id: str, text: str) -> Element:
    return _element("tool_result", "tool", text, [make_atom("result", normalise_text(text), call_id=id)])


def reasoning(text: str) -> Element:
    return _element("reasoning", "assistant", "", [make_atom("reasoning", text, is_weak=True)])


def _element(kind: str, role: str, text: str, atoms: list[Atom], calls: tuple[Call, ...] = ()) -> Element:
    raw = repr((kind, role, text, calls)).encode()
    return Element(
        raw, kind, role, text, tuple(atoms), calls=calls, hash=element_hash(atoms), body_hash=digest(raw)  # type: ignore[arg-type]
    )  # fmt: skip


def conversation(
    elements: Sequence[Element],
    *,
    hints: Hints | None = None,
    tools: bytes = TOOLS,
    model: str = "m",
    wire: Wire = "chat",
    instructions: str = "",
) -> Conversation:
    head = 0
    while head < len(elements) and elements[head].role in ("system", "developer"):
        head += 1
    return Conversation(
        wire, model, False, tuple(elements), head, Frame(b"", (), b""), instructions, tools, bool(tools),
        hints=hints or Hints(),
    )  # fmt: skip


class Desk:
    """Places requests of one or more tenants and keeps what it learnt, in memory alone."""

    def __init__(self) -> None:
        self.index = BranchIndex()
        self.ticks = count(1)
        self.views: dict[tuple[str, str], BranchView] = {}
        self.items: set[tuple[str, str]] = set()
        self.items_sent = 0

    def ask(
        self,
        elements: Sequence[Element] | Conversation,
        reply: Sequence[Element] | None = None,
        *,
        tenant: str = "t",
        outcome: LastOutcome = "ok",
        response_id: str = "",
        hints: Hints | None = None,
        tools: bytes = TOOLS,
        wire: Wire = "chat",
        instructions: str = "",
    ) -> Placement:
        """One request; with `reply` (or another outcome) it also ends at once, without both it stays in flight."""
        if isinstance(elements, Conversation):
            decoded = elements
        else:
            decoded = conversation(elements, hints=hints, tools=tools, wire=wire, instructions=instructions)
        asked = probe(decoded, tenant)
        tick = next(self.ticks)
        placement = place(asked, self.index.candidates(tenant, keys(asked)), discriminator=f"x{tick}")
        view = follow(placement, asked, tick)
        self.index.put(view, new_keys(view.path, placement.lcp, view.scope))
        self.views[tenant, view.id] = view
        self._store(placement, decoded)
        if reply is not None or outcome != "ok":
            self.end(placement, reply or (), tenant=tenant, outcome=outcome, response_id=response_id)
        return placement

    def end(
        self,
        placement: Placement,
        reply: Sequence[Element] = (),
        *,
        tenant: str = "t",
        outcome: LastOutcome = "ok",
        response_id: str = "",
    ) -> BranchView:
        view = finish(self.views[tenant, placement.branch], emitted(reply, response_id), outcome, next(self.ticks))
        self.index.put(view, new_keys(view.path, view.sent))
        self.views[tenant, view.id] = view
        before = view.path.steps[: view.sent]
        self.items.update((view.conversation, id) for id in item_ids(view.conversation, reply, before=before))
        return view

    def view(self, placement: Placement, tenant: str = "t") -> BranchView:
        return self.views[tenant, placement.branch]

    def restart(self) -> None:
        """Forget everything but what rows would bring back."""
        self.index = BranchIndex()
        for name, view in self.views.items():
            steps = [decode_step(encode_step(step)) for step in view.path.steps]
            self.views[name] = replace(view, path=Path(steps))
            self.index.put(self.views[name])

    def _store(self, placement: Placement, decoded: Conversation) -> None:
        before = placement.path.steps[: placement.inherited]
        ids = item_ids(placement.conversation, decoded.elements, before=before)
        self.items.update((placement.conversation, id) for id in ids)
        self.items_sent += len(ids)
