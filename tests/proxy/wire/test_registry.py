import pytest

from proxy.wire.registry import Registry


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("POST", "/v1/chat/completions", "chat"),
        ("POST", "/chat/completions", "chat"),
        ("POST", "/openai/deployments/d/chat/completions", "chat"),
        ("POST", "/v1/responses", "responses"),
        ("GET", "/v1/responses", None),
        ("GET", "/v1/chat/completions", None),
        ("POST", "/v1/responses/compact", "responses"),
        ("POST", "/v1/responses/resp_1/cancel", None),
        ("POST", "/v1/completions", None),
        ("POST", "/v1/embeddings", None),
    ],
)
def test_the_path_decides(method: str, path: str, name: str | None) -> None:
    found = Registry().find(method, path)
    assert (found.name if found else None) == name


def test_formats_are_kept_and_found_by_name() -> None:
    registry = Registry()
    assert registry.named("chat") is registry.find("POST", "/chat/completions")
    assert registry.named("responses") is registry.responses
