"""Tells a real model what is wanted of it: the calls of each checked part, with what it must remember left open. Pure.

A scripted model knows the story; a real one has to be told which tool takes what, or its tasks would be about guessing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from proxy.evaluation.scripted.spec import Call, Move, Story

OPEN = "<?>"
VALUES = (
    "every <?> replaced by the exact value that was said or found earlier in our talk; where it was given more than "
    "once, the newest counts"
)
CALLS = f"Make exactly these calls, one after another, with {VALUES}. Change nothing else in them."
EITHER = "one of these two, the one that my standing rules allow:"
FORM = f"At the end, answer with this sentence, {VALUES}:"


@dataclass(frozen=True, slots=True)
class Part:
    """What the user says in one go, and the moves until the model has answered it."""

    said: tuple[Move, ...]
    moves: tuple[Move, ...]

    @property
    def played(self) -> tuple[Move, ...]:
        """The moves before the first that is checked: the story's own."""
        return self.moves[: self._first]

    @property
    def checked(self) -> tuple[Move, ...]:
        """What the model is to do by itself; empty where nothing is checked."""
        return tuple(move for move in self.moves[self._first :] if move.is_checked)

    @property
    def _first(self) -> int:
        return next((place for place, move in enumerate(self.moves) if move.is_checked), len(self.moves))


def parts(story: Story) -> tuple[Part, ...]:
    """The story, cut before each thing that the user says after an answer."""
    found: list[Part] = []
    for move in story.moves:
        if move.said and (not found or found[-1].moves):
            found.append(Part((move,), ()))
        elif move.said:
            found[-1] = replace(found[-1], said=(*found[-1].said, move))
        elif found:
            found[-1] = replace(found[-1], moves=(*found[-1].moves, move))
    return tuple(found)


def briefed(story: Story) -> Story:
    """The same story; before each checked part the user also says which calls are to be made."""
    moves: list[Move] = []
    for part in parts(story):
        *first, last = part.said
        text = f"{last.said}\n\n{brief(part.checked, story)}" if part.checked else last.said
        moves += [*first, replace(last, said=text), *part.moves]
    return replace(story, moves=tuple(moves))


def brief(moves: Sequence[Move], story: Story) -> str:
    """What is asked for, in lines, without any value that the story asks for anywhere."""
    secrets = sorted(
        {need.value for move in story.moves for need in move.needs}, key=lambda value: (-len(value), value)
    )

    def hidden(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, OPEN)
        return text

    calls = [hidden(line) for move in moves for line in _lines(move, story.name)]
    said = [hidden(move.right) for move in moves if move.told]
    return "\n".join((*((CALLS, *calls) if calls else ()), *((FORM, *said) if said else ())))


def _lines(move: Move, name: str) -> Iterator[str]:
    """Of two calls the right one does not always stand first."""
    calls = [_written(call) for call in move.calls]
    if move.otherwise is None:
        yield from (f"- {line}" for line in calls)
        return
    both = [*calls, _written(move.otherwise)]
    if sha256(f"{name} {move.rule}".encode()).digest()[0] % 2:
        both.reverse()
    yield f"- {EITHER} {' or '.join(both)}"


def _written(call: Call) -> str:
    return f"{call.tool}({', '.join(f'{key}={json.dumps(value)}' for key, value in call.arguments.items())})"
