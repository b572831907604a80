"""The rounds of one reply: what each upstream call said, what its hidden calls got as answers, and the rows of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from proxy.core.grouping import groups
from proxy.core.hidden import Spoken, hidden_id
from proxy.core.identity import item_ids, steps_of
from proxy.core.model import Element
from proxy.core.records import Batch, LinkRow, MarkRow
from proxy.expander import Answer, Expander
from proxy.marks import EXPANDED
from proxy.recording import item_rows
from proxy.turn import Turn, Turns, ahead_of
from proxy.wire.base import NOWHERE, ExpandReader, Round, StreamPlace, WireFormat


@dataclass(frozen=True, slots=True)
class Rounded:
    """One round with its results: what to keep of it, and its rows."""

    spoken: Spoken
    rows: Batch
    targets: tuple[str, ...]  # items that were expanded

    @property
    def hidden(self) -> tuple[tuple[str, Element], ...]:
        """The hidden elements by id, in order."""
        spoken = self.spoken
        own = [(item, element) for item, element in zip(spoken.ids, spoken.elements, strict=True) if item]
        return (*own, *zip(spoken.result_ids, spoken.results, strict=True))


class Rounds:
    """One exchange's. Holds the one reader that all rounds go through."""

    def __init__(self, exchange: str, expander: Expander, turns: Turns) -> None:
        self.exchange = exchange
        self.number = 1
        self._expander = expander
        self._turns = turns
        self._reader: ExpandReader | None = None
        self._is_stream = False
        self._count = 0
        self._visible: list[Element] = []
        self.kept: list[Rounded] = []

    @property
    def id(self) -> str:
        """The round's own exchange id: each upstream call is recorded by itself."""
        return self.exchange if self.number == 1 else f"{self.exchange}.{self.number}"

    @property
    def place(self) -> StreamPlace:
        """How far the client's stream has come."""
        return self._reader.place if self._reader is not None else NOWHERE

    def reader(self, fmt: WireFormat, turn: Turn, *, is_stream: bool) -> ExpandReader:
        """The reader of this attempt: the first of a reply makes it, later rounds go on with it."""
        if self._reader is None or (self.number == 1 or is_stream != self._is_stream):
            self._reader = fmt.expanding(turn.tool, is_stream=is_stream, strip_usage=turn.edits.ask_usage)
            self._is_stream = is_stream
        else:
            self._reader.restart()
        return self._reader

    async def answer(self, turn: Turn, said: Round) -> Rounded:
        """Answer a round's hidden calls and keep both."""
        is_last = self.number > self._expander.config.rounds
        answers = await self._expander.answer(turn, said.calls, is_last=is_last)
        results = [
            turn.fmt.read_element(turn.fmt.result(c.id, a.text)) for c, a in zip(said.calls, answers, strict=True)
        ]
        conversation = turn.placement.conversation
        ids = tuple("" if is_visible else self._id(conversation) for is_visible in said.is_visible)
        result_ids = tuple(self._id(conversation) for _ in results)
        spoken = Spoken(said.elements, ids, tuple(results), result_ids, tuple(call.before for call in said.calls))
        made = Rounded(spoken, Batch(), tuple(answer.item for answer in answers if answer.item))
        state = turn.live.state
        for item in made.targets:  # what a model came back for weighs more from now on
            state.importance = {**state.importance, item: state.importance.get(item, 0.0) + 1.0}
        made = replace(made, rows=self._row_batch(turn, made, answers))
        self.kept.append(made)
        return made

    def _id(self, conversation: str) -> str:
        self._count += 1
        return hidden_id(conversation, self.exchange, self._count)

    def _row_batch(self, turn: Turn, made: Rounded, answers: Sequence[Answer]) -> Batch:
        hidden = made.hidden
        if not hidden:
            return Batch()
        elements = [element for _, element in hidden]
        conversation = turn.placement.conversation
        rows, bodies = item_rows(
            elements,
            [item for item, _ in hidden],
            steps_of(elements),
            groups(elements),
            conversation=conversation,
            branch=turn.placement.branch,
            exchange=self.id,
        )
        results = zip(made.spoken.result_ids, answers, strict=True)
        links = [LinkRow(conversation, item, answer.item, "cites") for item, answer in results if answer.item]
        counts = turn.live.state.importance
        marks = [MarkRow(conversation, item, EXPANDED, f"{counts[item]:g}") for item in dict.fromkeys(made.targets)]
        return Batch(bodies=bodies, items=rows, links=tuple(links), marks=tuple(marks))

    async def follow(self, turn: Turn, made: Rounded) -> Turn:
        """The turn of the next round, which goes out with what was answered."""
        assert self._reader is not None
        spoken = made.spoken
        visible = [element for element, item in zip(spoken.elements, spoken.ids, strict=True) if not item]
        ahead = [*ahead_of(turn), *self._visible]
        shown = iter(item_ids(turn.placement.conversation, visible, before=ahead))
        self._visible += visible
        ids = (*(item or next(shown) for item in spoken.ids), *spoken.result_ids)
        self.number += 1
        is_last = self.number >= self._expander.config.rounds + 2
        self._reader.next_round(is_last=is_last)
        hidden = [item for item, _ in made.hidden]
        elements = (*spoken.elements, *spoken.results)
        return await self._turns.continued(turn, elements, ids, hidden, self.id, is_last=is_last)
