"""What an ask returns: a window ready to send, and its manifest with a reason for every item. Frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Place = Literal["pinned", "recent", "relevant", "summary", "stub", "dropped"]
"""Where an item stands: whole for good, whole in the tail, in part for its score, told of, named, or left out."""


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One item of the conversation, or the one summary that stands for others (`kind` "summary").

    `tokens` is what it takes in this window: 0 for what is left out; what stays of a folded item
    stands in the summary's message and is not counted with that.
    `kept` and `segments`: of an item in part, how many of its segments (lines, parts of JSON) stay.
    `form` is full, excerpt, stub, folded or absent; `tool` and `source` tell the call that a result answers.
    """

    id: str
    kind: str
    role: str
    place: Place
    form: str
    tokens: int
    full_tokens: int
    score: float
    reason: str
    preview: str
    tool: str = ""
    source: str = ""
    kept: int = 0
    segments: int = 0


@dataclass(frozen=True, slots=True)
class WindowManifest:
    """What was asked and what came of it. Tokens are in the model's own count, as far as it is known.

    `used` ≤ `budget`, always. `tokens_in` is the conversation in full. `reason` says why the window
    changed since the last ask like this one, "" when it only grew.
    """

    conversation: str
    branch: str
    model: str
    query: str
    budget: int
    used: int
    tokens_in: int
    policy: str
    reason: str
    entries: tuple[ManifestEntry, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """`items` are messages in order, in the format of the conversation: Chat Completions where the library wrote it."""

    items: tuple[Mapping[str, Any], ...]
    manifest: WindowManifest
