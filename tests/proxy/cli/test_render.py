from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.cli import render
from proxy.core.records import ConversationSummary
from proxy.core.slices import slice_query
from proxy.views import EntryLine, ItemLine, ItemShown, Shown, WindowShown

CONVERSATION = ConversationSummary(
    id="k3x9a7b2c4d6", tenant="t", model="gpt-5", first_text="Fix\n the \x1b]0;title\x07 build " * 9, branches=2,
    exchanges=12, items=40, input=12_345_678, cached=9_000_000, output=900, cost=1.25, saved_tokens=3_200_000, folds=1,
    created_at="2026-01-31T14:05:00.000000Z", updated_at="2026-01-31T14:05:00.000000Z",
)  # fmt: skip
ITEM = ItemLine(
    seq=1, id="i1", kind="message", role="user", text="hello", is_summarized=False, is_pinned=True, call_id="",
    source="", origin="", exchange="e1", created_at="",
)  # fmt: skip
WINDOW = WindowShown(
    id="w1", exchange="e1", conversation="k3", branch="b1", model="m", attempt=1, policy="sticky", reason="",
    tokens_in=10, tokens_out=10, first_change=-1, out_bytes=9, out_hash="f" * 64, created_at="", outcome="", status=0,
    billed_input=0, billed_cached=0, billed_output=0, cost=None, entries=(EntryLine(0, "i1", "full", 10, "", 0.0),),
)  # fmt: skip


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    text = capsys.readouterr().out
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "\x1b" not in text and "\x07" not in text
    return text


def show(*items: ItemLine, **options: object) -> Shown:
    shown = Shown(conversation=CONVERSATION, view="user", branch="", branches=(), items=items, folds=())
    return replace(shown, **options)  # type: ignore[arg-type]


def test_a_long_first_message_takes_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    render.conversations([CONVERSATION])
    text = printed(capsys)
    assert len(text.splitlines()) == 2
    assert "12.3M" in text and "3.2M" in text and "$1.25" in text and "Fix the" in text


def test_nothing_is_said_so(capsys: pytest.CaptureFixture[str]) -> None:
    render.conversations([])
    render.conversation(show(), is_full=False)
    text = printed(capsys)
    assert "no conversations yet" in text and "(nothing here)" in text


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("\n".join("abcdefghij"), "... 2 lines more: undercliff expand i1"),
        ("x" * 1000, "... 400 characters more: undercliff expand i1"),
        ("short\n", ""),
    ],
)
def test_long_texts_are_cut_and_say_how_to_see_them(text: str, note: str, capsys: pytest.CaptureFixture[str]) -> None:
    render.conversation(show(replace(ITEM, text=text)), is_full=False)
    out = printed(capsys)
    assert ("more" in out) is bool(note)
    assert note in out
    render.conversation(show(replace(ITEM, text=text)), is_full=True)
    assert "more" not in printed(capsys)


def test_text_is_neither_markup_nor_control(capsys: pytest.CaptureFixture[str]) -> None:
    render.conversation(show(replace(ITEM, text="[bold]x[/bold] :smile: \x1b[2J\u202e end")), is_full=False)
    text = printed(capsys)
    assert "[bold]x[/bold] :smile: ␛[2J\ufffd end" in text


@pytest.mark.parametrize(
    ("window", "words"),
    [
        (WINDOW, ["no: the last window and what is new", "no outcome recorded", "1 full", "0 saved"]),
        (replace(WINDOW, first_change=3), ["the client changed its list from item 3"]),
        (replace(WINDOW, reason="folded"), ["folded"]),
        (replace(WINDOW, outcome="cancelled", status=200), ["nothing reported (cancelled, status 200)"]),
        (replace(WINDOW, outcome="ok", billed_input=5, cost=0.5), ["5 input (0 cached), 0 output, $0.5000"]),
    ],
)
def test_windows_in_words(window: WindowShown, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    render.window(window, is_explained=False)
    text = printed(capsys)
    assert all(word in text for word in words)
    assert "--explain" in text
    render.window(window, is_explained=True)
    assert "as sent" in printed(capsys)


def test_reasons_wrap_and_figures_stay_whole(capsys: pytest.CaptureFixture[str]) -> None:
    entry = EntryLine(0, "k3x9a7b2c4d6", "stub", 123_456, "because " * 30, 0.123)
    render.window(replace(WINDOW, entries=(entry,)), is_explained=True)
    text = printed(capsys)
    assert "k3x9a7b2c4d6" in text and "123,456" in text and text.count("because") == 30


def test_wide_characters_count_twice() -> None:
    assert render.shorten("漢字漢字漢字", 7) == "漢字漢…"


def test_spans_are_kept_apart(capsys: pytest.CaptureFixture[str]) -> None:
    item = ItemShown(
        id="i1", conversation="k", kind="tool_result", role="tool", call_id="", source="", created_at="",
        text="a\nb\nc\na\n", data=b"",
    )  # fmt: skip
    render.original(item, slice_query(item.text, "a", context=0))
    out, err = capsys.readouterr()
    assert out == "     1  a\n--\n     4  a\n"
    assert err == "(2 lines matching; lines 1-1, 4-4 of 4 shown, 2 lines left out)\n"
    render.original(replace(item, text="no end"), None)
    assert capsys.readouterr().out == "no end\n"


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (999, "999"), (1000, "1.0K"), (272_000, "272.0K"), (2_500_000_000, "2.5G")]
)
def test_short_counts(number: int, text: str) -> None:
    assert render.short_count(number) == text
