from __future__ import annotations

import pytest

from proxy.core.redaction import is_secret_name, redact

KEY = "zq8f7KEYmaterial42"


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {KEY}",
        f"authorization: {KEY}",
        f"bearer {KEY}",
        f"Basic {KEY}==",
        f"b'Bearer {KEY}'",
        f"sk-{KEY}",
        f"sk-proj-{KEY}",
        f"Incorrect API key provided: {KEY}. You can find it at https://x",
        f"Incorrect API key provided: sk-{KEY}.",
        f"https://llm.example/v1/models?key={KEY}",
        f"/v1/models?x=1&api-key={KEY}&y=2",
        f"/v1/models?x=1&access_token={KEY}",
        f'{{"api_key": "{KEY}"}}',
        f"{{'x-api-key': '{KEY}', 'a': 1}}",
        f"postgresql://user:{KEY}@db/x",
        f"gsk_{KEY}",
        f"AIzaSy{KEY}",
        f"eyJ{KEY}.eyJ{KEY}.{KEY}",
    ],
)
def test_keys_are_masked(text: str) -> None:
    assert KEY not in redact(f"before {text} after")
    assert redact(f"before {text} after").startswith("before ")


@pytest.mark.parametrize(
    "text",
    [
        "window_selected in 14 ms",
        "https://llm.example/v1/chat/completions?api-version=2025-01-01",
        "maximum context length is 272000 tokens",
        "conversation k3x9a7b2c4d6",
        "user@example.com wrote",
        "task-based ask-me",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert redact(text) == text


def test_known_secrets_are_masked_whatever_they_look_like() -> None:
    assert redact("the word swordfish again: swordfish", ["swordfish"]) == "the word *** again: ***"


@pytest.mark.parametrize(
    "name", ["authorization", "Proxy-Authorization", "api-key", "x-api-key", "OPENAI_API_KEY", "key", "client_keys"]
)
def test_secret_names(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["tokens", "saved_tokens", "keys_found", "event", "monkey", "keyboard", "conversation"]
)
def test_other_names(name: str) -> None:
    assert not is_secret_name(name)
