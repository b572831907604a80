"""Whether a request carries the tool."""

from __future__ import annotations

from typing import Any

import pytest

from policies.model import Form
from proxy.config.sections import ExpandConfig
from proxy.core.window import Slot
from proxy.offering import Offering
from proxy.tokenizer import Tokenizer
from proxy.wire.chat import ChatFormat
from tests.support import builders

FULL, REDUCED = [Slot(0, "a", Form.FULL)], [Slot(0, "a", Form.FULL), Slot(1, "b", Form.STUB)]


def offer(
    slots: Any = REDUCED, *, before: str = "", is_managed: bool = True, request: Any = None, **settings: Any
) -> Any:
    fmt = ChatFormat()
    body = builders.request([builders.user("x")], tools=[builders.tool()], **(request or {}))
    found = fmt.decode(builders.body_bytes(body), {})
    made = Offering(ExpandConfig(**settings), Tokenizer())
    return made.offer(fmt, found, slots, tenant="team-1", before=before, is_managed=is_managed)


def test_with_the_first_reduction_or_always_or_as_before() -> None:
    assert offer(FULL).definition == b"" and offer().definition == ChatFormat().tool("ctx_expand")
    assert offer().tokens > 50
    assert offer(FULL, offer="always").definition and offer(FULL, before="old_name").name == "old_name"


@pytest.mark.parametrize(
    "settings", [{"enabled": False}, {"off_models": ("scripted-*",)}, {"off_teams": ("team",)}, {"name": "look"}]
)
def test_switched_off(settings: dict[str, Any]) -> None:
    assert offer(**settings).definition == b"" and offer(off_teams=("other",), off_models=("x",)).definition


def test_not_where_nothing_is_managed_or_nothing_could_call_it() -> None:
    assert offer(is_managed=False).definition == b""
    assert offer(request={"tool_choice": "none"}).definition == b""
    assert offer(request={"tool_choice": "none"}, before="ctx_expand").definition
    assert offer(request={"response_format": {"type": "json_object"}}, before="ctx_expand").definition == b""


def test_a_call_of_it_is_ours_once_it_was_offered_and_never_before() -> None:
    """A model may go on calling what it was offered; a name that it was never told is nobody's but the client's."""
    plain = {"response_format": {"type": "json_object"}}
    assert offer(request=plain, before="ctx_expand").name == "ctx_expand" and offer(request=plain).name == ""
