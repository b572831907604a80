"""Who reads a list for what may stand in place of its items, and who writes out what is kept of one."""

from __future__ import annotations

from functools import partial

from proxy.core.delta import DeltaMaker
from proxy.core.excerpts import ExcerptReader
from proxy.core.forms import kept_segments
from proxy.core.links import LinkReader
from proxy.core.offers import KeepRenderer, MakeMaker
from proxy.core.staleness import StaleReader
from proxy.core.subtasks import SubtaskReader
from proxy.wire.values import parse_value

MAKERS: tuple[MakeMaker, ...] = (
    DeltaMaker,
    partial(ExcerptReader, parse_value),
    StaleReader,
    SubtaskReader,
    LinkReader,
)
"""Who offers excerpts of a list's items, lossless ones first; see `core.offers`."""
RENDER_KEEP: KeepRenderer = kept_segments
"""Who writes out the segments that a policy keeps of an item."""
