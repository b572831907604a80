"""The policy's words for elements."""

from __future__ import annotations

from proxy.core.kinds import kind_of
from proxy.core.model import Element
from tests.support import talks


def test_kinds_of_other_elements() -> None:
    assert kind_of(talks.system("x", "developer")) == "system"
    assert kind_of(talks.reasoning("hm")) == "reasoning"
    assert kind_of(talks.call("c2")) == "assistant"
    assert kind_of(Element(b"{}", "opaque", "", "", ())) == "opaque"
