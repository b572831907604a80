import json

import pytest

from proxy.core.model import Hints
from proxy.wire.frame import Fields
from proxy.wire.hints import read_hints


def hints(headers: dict[str, str], **body: object) -> Hints:
    return read_hints(headers, Fields({key: json.dumps(value).encode() for key, value in body.items()}))


@pytest.mark.parametrize(
    ("headers", "scope"),
    [
        ({}, ""),
        ({"thread-id": "t", "session-id": "s"}, "thread:t"),
        ({"session-id": "s"}, "session:s"),
        ({"conversation_id": "c"}, "session:c"),
        ({"x-session-id": "ses_1", "session-id": "s", "x-session-affinity": "ses_1"}, "session:ses_1"),
        ({"agent-session-id": "g"}, "goose:g"),
        ({"x-litellm-session-id": "l"}, "litellm:l"),
        ({"x-openwebui-chat-id": "o"}, "openwebui:o"),
        ({"x-codex-turn-metadata": '{"thread_id":"t"}', "session-id": "s"}, "thread:t"),
        ({"x-codex-turn-metadata": "not json", "session-id": "s"}, "session:s"),
        ({"x-session-id": "x" * 1000}, ""),
    ],
)
def test_the_thread_level_header_is_the_scope(headers: dict[str, str], scope: str) -> None:
    assert hints(headers).scope == scope


def test_parents_are_named_as_their_own_scope_is() -> None:
    opencode = hints({"x-session-id": "b", "x-parent-session-id": "a"})
    assert opencode.parent_scope == hints({"x-session-id": "a"}).scope
    codex = hints({"thread-id": "b", "x-codex-parent-thread-id": "a", "x-openai-subagent": "collab_spawn"})
    assert codex.parent_scope == hints({"thread-id": "a"}).scope
    assert opencode.label == codex.label == "subagent"
    assert hints({"thread-id": "a", "x-codex-parent-thread-id": "a"}).parent_scope == ""


@pytest.mark.parametrize(
    ("headers", "label"),
    [
        ({"x-codex-turn-metadata": '{"request_kind":"turn"}'}, ""),
        ({"x-codex-turn-metadata": '{"request_kind":"compaction"}'}, "compaction"),
        ({"x-codex-turn-metadata": '{"request_kind":"prewarm"}'}, "prewarm"),
        ({"x-openai-subagent": "compact"}, "compaction"),
        ({"x-openai-subagent": "review"}, "subagent"),
    ],
)
def test_labels(headers: dict[str, str], label: str) -> None:
    assert hints(headers).label == label


def test_explicit_conversation_retries_and_cache_keys() -> None:
    found = hints({"x-ctx-conversation": " mine ", "x-stainless-retry-count": "2"}, user="u", prompt_cache_key="p")
    assert (found.forced, found.retry_count, found.cache_key) == ("mine", 2, "p")
    assert hints({"x-stainless-retry-count": "many"}, user=5).retry_count == 0
    assert hints({}, user="u").cache_key == "u"
    assert hints({}, prompt_cache_key="x" * 1000).cache_key == ""
