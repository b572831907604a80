from __future__ import annotations

import pytest

from proxy.core.urls import check_base, join_upstream, split_scope
from proxy.errors import ConfigError

HOST = "https://llm.example"

BASES = {
    HOST: "/v1",
    f"{HOST}/": "/v1",
    f"{HOST}/v1": "/v1",
    f"{HOST}/v1/": "/v1",
    f"{HOST}/v4": "/v4",
    f"{HOST}/api/v3": "/api/v3",
    f"{HOST}/llm/v1": "/llm/v1",
    f"{HOST}/llm/v1//": "/llm/v1",
    f"{HOST}/v1beta/openai/": "/v1beta/openai",
    f"{HOST}/openai/deployments/x": "/openai/deployments/x",
    f"{HOST}/inference": "/inference",
}
CLIENT_BASES = ("", "/", "/v1", "/v1/")


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("client", CLIENT_BASES)
@pytest.mark.parametrize("endpoint", ["/chat/completions", "/responses/resp_1/cancel", "/models", "/files/a%2Fb"])
def test_every_base_and_client_base_meet(base: str, client: str, endpoint: str) -> None:
    assert join_upstream(base, client + endpoint, "") == HOST + BASES[base] + endpoint


@pytest.mark.parametrize("query", ["", "api-version=2025-01-01&x=a%2Fb&x=2", "a=+&b=%20&", "=&&"])
def test_raw_query_is_untouched(query: str) -> None:
    url = join_upstream(f"{HOST}/v1", "/v1/chat/completions", query)
    assert url == f"{HOST}/v1/chat/completions" + (f"?{query}" if query else "")


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ("", "api-version=2024-10-21"),
        ("x=a%2Fb&x=2", "api-version=2024-10-21&x=a%2Fb&x=2"),
        ("api-version=2025-01-01", "api-version=2025-01-01"),
        ("api%2Dversion=2025-01-01", "api%2Dversion=2025-01-01"),
    ],
)
def test_query_of_the_base_is_added_unless_sent(sent: str, expected: str) -> None:
    base = f"{HOST}/openai/deployments/x?api-version=2024-10-21"
    assert join_upstream(base, "/v1/chat/completions", sent) == (
        f"{HOST}/openai/deployments/x/chat/completions?{expected}"
    )


@pytest.mark.parametrize(
    ("base", "path", "expected"),
    [
        (HOST, "/health", "/health"),
        (HOST, "/api/tags", "/api/tags"),
        (HOST, "/v1/something/new", "/v1/something/new"),
        (HOST, "/v1", "/v1"),
        (HOST, "/", "/"),
        (HOST, "/openai/deployments/x/chat/completions", "/openai/deployments/x/chat/completions"),
        (HOST, "/v1beta/models", "/v1beta/models"),
        (f"{HOST}/v1", "/", "/v1"),
        (f"{HOST}/v1", "/v1", "/v1"),
        (f"{HOST}/v1", "/v1/", "/v1"),
        (f"{HOST}/v1", "/v1/a//b/", "/v1/a//b/"),
        (f"{HOST}/v1", "/v10/models", "/v1/v10/models"),
        (f"{HOST}/api/v3", "/api/v3/chat/completions", "/api/v3/chat/completions"),
        (
            f"{HOST}/openai/deployments/x",
            "/openai/deployments/x/chat/completions",
            "/openai/deployments/x/chat/completions",
        ),
        (f"{HOST}#", "/v1/chat/completions", "/chat/completions"),
        (f"{HOST}/#", "/chat/completions", "/chat/completions"),
        (f"{HOST}/v1", "/v1/@evil.example/x", "/v1/@evil.example/x"),
        (f"{HOST}/v1", "//evil.example/x", "/v1/evil.example/x"),
    ],
)
def test_other_paths(base: str, path: str, expected: str) -> None:
    assert join_upstream(base, path, "") == HOST + expected


def test_ipv6_and_port_are_kept() -> None:
    assert join_upstream("http://[::1]:8000/v1", "/v1/models", "") == "http://[::1]:8000/v1/models"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/s/job-7/v1/chat/completions", ("job-7", "/v1/chat/completions")),
        ("/s/job%207/v1/models", ("job 7", "/v1/models")),
        ("/s/job", ("job", "/")),
        ("/s/job/", ("job", "/")),
        ("/s//v1/models", ("", "/s//v1/models")),
        ("/s/", ("", "/s/")),
        ("/v1/s/job", ("", "/v1/s/job")),
        ("/settings", ("", "/settings")),
    ],
)
def test_scope_is_split_off(path: str, expected: tuple[str, str]) -> None:
    assert split_scope(path) == expected


@pytest.mark.parametrize("base", [*BASES, "http://localhost:8000", "http://[::1]:8000/v1", f"{HOST}#"])
def test_good_bases_are_accepted(base: str) -> None:
    check_base(base)


@pytest.mark.parametrize(
    ("base", "why", "hint"),
    [
        ("api.openai.com/v1", "names no scheme", "https://api.openai.com/v1"),
        ("localhost:8000/v1", "names no scheme", "http://localhost:8000/v1"),
        ("//api.openai.com/v1", "names no scheme", "https://api.openai.com/v1"),
        ("", "names no scheme", "https://"),
        ("ftp://llm.example/v1", "scheme 'ftp'", "http and https"),
        ("https:///v1", "names no host", "https://"),
        ("https://llm.example/ v1", "space", "Remove"),
        ("https://llm.example\n/v1", "control character", "Remove"),
        ("https://llm.example:port/v1", "is no URL", "https://"),
        ("https://[::1/v1", "is no URL", "https://"),
        ("https://llm.example/v1#frag", "fragment", "#"),
        ("https://llm.example/v1/chat/completions", "endpoint", "https://llm.example/v1 instead"),
        ("https://llm.example/v1/responses/", "endpoint", "https://llm.example/v1 instead"),
    ],
)
def test_hopeless_bases_are_refused(base: str, why: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_base(base)
    assert why in str(caught.value)
    assert "upstream.url" in str(caught.value)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "base", ["https://me:sk-secret@llm.example/v1", "https://sk-secret@llm.example", "ftp://a:sk-secret@h"]
)
def test_credentials_are_refused_and_not_repeated(base: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_base(base)
    assert "credentials" in str(caught.value)
    assert "sk-secret" not in str(caught.value) + caught.value.hint


def test_a_key_in_the_query_is_not_repeated() -> None:
    with pytest.raises(ConfigError) as caught:
        check_base("llm.example/v1?key=sk-secret")
    assert "sk-secret" not in str(caught.value) + caught.value.hint
