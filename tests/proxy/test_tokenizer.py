from __future__ import annotations

import asyncio
import base64
import hashlib
import random
import subprocess
import sys
import time

import pytest
import zstandard

from proxy import tokenizer as module
from proxy.tokenizer import CHUNK_CHARS, INLINE_CHARS, Tokenizer, chunks, packaged_encoding


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer()


def reference(text: str) -> int:
    encoding = packaged_encoding()
    assert encoding is not None
    return len(encoding.encode_ordinary(text))


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("hello world", 2), ("tokenization", 2), ("1234567", 3), ("a" * 8, 1), ("\n\n", 1)]
)
def test_known_counts(tokenizer: Tokenizer, text: str, tokens: int) -> None:
    assert tokenizer.count(text) == tokens


def test_the_vocabulary_is_the_official_one() -> None:
    encoding = packaged_encoding()
    assert encoding is not None
    assert encoding.encode_ordinary("hello world") == [24912, 2375]
    assert encoding.n_vocab == 200_019  # type: ignore[attr-defined]


def test_it_loads_without_a_network_or_a_cache_folder() -> None:
    code = (
        "import socket, sys\n"
        "def refuse(*args, **kwargs): raise OSError('no network')\n"
        "socket.socket.connect = refuse; socket.getaddrinfo = refuse\n"
        "from proxy.tokenizer import Tokenizer\n"
        "assert 'tiktoken' not in sys.modules, 'must load lazily'\n"
        "t = Tokenizer(); assert t.is_exact and t.count('hello world') == 2"
    )
    environment = {"PATH": "", "TIKTOKEN_CACHE_DIR": "/nonexistent"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


@pytest.mark.parametrize("text", ["<|endoftext|>", "a <|im_start|>system<|im_end|>", "<|fim_prefix|>x<|fim_suffix|>"])
def test_tokn_04_special_tokens_are_plain_text(tokenizer: Tokenizer, text: str) -> None:
    """TOKN-04."""
    assert tokenizer.count(text) > 3
    assert tokenizer.count(text * 1_000) > 3_000


@pytest.mark.parametrize("text", ["\ud800", "x\udfff y" * 5_000, "\ud83d" * 100_000, "\x00" * 10_000, "😀" * 5_000])
def test_no_text_raises(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.count(text) > 0


def pathological() -> dict[str, str]:
    chance = random.Random(7)
    return {
        "a": "a" * 500_000,
        "-": "-" * 500_000,
        "spaces": " " * 500_000,
        "lines": "\n" * 500_000,
        "cjk": "".join(chr(chance.randint(0x4E00, 0x9FFF)) for _ in range(200_000)),
        "base64": base64.b64encode(chance.randbytes(225_000)).decode(),
        "minified": "".join(f"function a{i}(b){{return b[{i}]+c.d{i}?e('g{i}'):h(j=>{i}*j)}};" for i in range(8_000)),
    }


@pytest.mark.parametrize("name", list(pathological()))
async def test_tokn_03_long_runs_are_counted_off_the_loop(
    tokenizer: Tokenizer, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """TOKN-03. The loop goes on turning while the worker counts; times are shown, not judged."""
    await tokenizer.load()
    text = pathological()[name]
    turns, longest = 0, 0.0
    start = last = time.perf_counter()
    counting = asyncio.get_running_loop().create_task(tokenizer.count_async([text]))
    while not counting.done():
        await asyncio.sleep(0)
        now = time.perf_counter()
        turns, longest, last = turns + 1, max(longest, now - last), now
    with capsys.disabled():
        print(f"\n{name}: {(last - start) * 1e3:.0f} ms, longest gap {longest * 1e3:.1f} ms", end="")
    assert turns > 3
    assert counting.result()[0] > 0


@pytest.mark.parametrize("name", list(pathological()))
def test_pieces_cost_at_most_a_token_each(tokenizer: Tokenizer, name: str) -> None:
    text = pathological()[name][:60_000]  # the reference itself is slow beyond
    assert abs(tokenizer.count(text) - reference(text)) <= len(text) / CHUNK_CHARS * 2 + 1


def test_prose_and_code_are_all_but_exact_at_any_length(tokenizer: Tokenizer) -> None:
    text = "def add(a, b):\n    return a + b\n\n\nclass Thing:\n    value = 3  # three\n" * 2_000
    assert abs(tokenizer.count(text) - reference(text)) <= 3  # a cut may fall among empty lines
    line = "words without any end of line, " * 3_000
    assert abs(tokenizer.count(line) - reference(line)) <= 2


@pytest.mark.parametrize("text", ["", "short", "x" * 10_000, "word " * 5_000, "line\n" * 5_000, "é\n" + " " * 9_000])
def test_chunks_are_the_text(text: str) -> None:
    pieces = list(chunks(text))
    assert "".join(pieces) == text
    assert all(len(piece) <= CHUNK_CHARS for piece in pieces)
    assert all(pieces[:-1])


class Counting:
    """An encoding that tells what it was asked."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def encode_ordinary(self, text: str) -> list[int]:
        self.seen.append(text)
        return [0] * len(text)


def test_a_long_text_is_counted_once() -> None:
    encoding = Counting()
    tokenizer = Tokenizer(encoding=encoding)
    assert tokenizer.count_many(["x" * 1_000, "x" * 1_000]) == [1_000, 1_000]
    assert len(encoding.seen) == 1


def test_the_memory_of_counts_is_bounded() -> None:
    tokenizer = Tokenizer(cache_size=2, encoding=Counting())
    keys = [hashlib.blake2b(bytes([number]), digest_size=16).digest() for number in range(3)]
    tokenizer.remember(keys[0], 10)
    tokenizer.remember(keys[1], 11)
    assert tokenizer.cached(keys[0]) == 10
    tokenizer.remember(keys[2], 12)
    assert [tokenizer.cached(key) for key in keys] == [10, None, 12]


def test_an_enormous_text_is_estimated_and_a_little_low(tokenizer: Tokenizer) -> None:
    chance = random.Random(7)
    words = ["gauge", "reads", "outer", "mole", "def", "return", "0x3f", "2026-01-02", "snake_case", "the", "{", "}"]
    lines = [" ".join(chance.choices(words, k=chance.randint(3, 12))) for _ in range(40_000)]
    text = "\n".join(lines)
    assert len(text) > module.SAMPLED_FROM_CHARS
    whole = tokenizer.count_many(list(chunks(text)))
    assert 0.93 * sum(whole) < tokenizer.count(text) < sum(whole)
    assert tokenizer.count(text) == Tokenizer().count(text), "the same text, the same estimate"


async def test_small_texts_stay_on_the_loop_and_large_ones_leave_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    where: list[int] = []

    class Watched(Counting):
        def encode_ordinary(self, text: str) -> list[int]:
            where.append(threading.get_ident())
            return super().encode_ordinary(text)

    tokenizer = Tokenizer(encoding=Watched())
    assert await tokenizer.count_async(["a", "bc"]) == [1, 2]
    assert set(where) == {threading.get_ident()}
    where.clear()
    assert await tokenizer.count_async(["y" * (INLINE_CHARS + 1)]) == [INLINE_CHARS + 1]
    assert threading.get_ident() not in where
    tokenizer.close()


def test_without_the_vocabulary_bytes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "packaged_encoding", lambda: None)
    tokenizer = Tokenizer()
    assert not tokenizer.is_exact
    assert [tokenizer.count(text) for text in ("", "abcd", "abcde", "é" * 4, "\ud800")] == [0, 1, 2, 2, 1]


@pytest.mark.parametrize("packed", [b"", b"not packed at all", zstandard.compress(b"no list")])
def test_a_damaged_vocabulary_is_no_crash(packed: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    class Folder:
        def joinpath(self, *_: str) -> Folder:
            return self

        def read_bytes(self) -> bytes:
            return packed

    monkeypatch.setattr(module.importlib.resources, "files", lambda _: Folder())
    assert packaged_encoding.__wrapped__() is None


def test_a_missing_package_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    assert packaged_encoding.__wrapped__() is None
