from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.banner import banner, client_url, product_version, warnings
from proxy.config import Config, PolicyConfig, ServerConfig, StoreConfig, UpstreamConfig

CONFIG = Config(store=StoreConfig(url="/home/me/undercliff.db"), policy=PolicyConfig(name="last_n"))


def test_one_block_says_it_all() -> None:
    text = banner(CONFIG)
    assert text.startswith("undercliff ")
    for fact in ("http://127.0.0.1:4272  (this machine only)", "https://api.openai.com/v1", "the client's own key"):
        assert fact in text
    assert "/home/me/undercliff.db" in text
    assert "last_n" in text
    assert "\n    export OPENAI_BASE_URL=http://127.0.0.1:4272/v1\n" in text
    assert "warning" not in text
    assert all(len(line) <= 80 for line in text.splitlines())


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:9/v1"),
        ("0.0.0.0", "http://127.0.0.1:9/v1"),
        ("::", "http://[::1]:9/v1"),
        ("::1", "http://[::1]:9/v1"),
        ("[::1]", "http://[::1]:9/v1"),
        ("localhost", "http://localhost:9/v1"),
    ],
)
def test_the_line_to_export_can_be_reached(host: str, url: str) -> None:
    assert client_url(replace(CONFIG, server=ServerConfig(host=host, port=0)), port=9) == url


def test_no_key_is_shown() -> None:
    config = Config(
        server=ServerConfig(client_keys=("s3cret-client-key",)),
        upstream=UpstreamConfig(url="https://llm.example/v1?key=s3cret", key_env="KEY", key="s3cret-key"),
        store=StoreConfig(url="postgresql://u:s3cret@db/x"),
    )
    text = banner(config)
    assert "s3cret" not in text
    assert "1 client key)" in text
    assert "key from KEY" in text


def test_a_store_in_trouble_is_named() -> None:
    assert "cannot write /x" in banner(CONFIG, store_note="cannot write /x")
    assert "nothing is kept" in banner(replace(CONFIG, store=StoreConfig(enabled=False)))


@pytest.mark.parametrize(
    ("config", "word"),
    [
        (Config(upstream=UpstreamConfig(key_env="KEY")), "KEY is not set"),
        (Config(server=ServerConfig(client_keys=("k",))), "x-undercliff-key"),
        (Config(server=ServerConfig(host="0.0.0.0", allow_public=True)), "anyone"),
        (Config(upstream=UpstreamConfig(verify_tls=False)), "certificate"),
        (Config(upstream=UpstreamConfig(url="http://localhost:4272/v1")), "itself"),
    ],
)
def test_likely_mistakes_are_named(config: Config, word: str) -> None:
    (found,) = warnings(config)
    assert word in found
    assert word in banner(config)


def test_version_is_known() -> None:
    assert product_version()
