"""Rules are found in nine languages as exact quotes; chatter, code and questions are not rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.constraints import MAX_SENTENCE, find_constraints, is_prohibition, rules_note, unshown_rules


@pytest.mark.parametrize(
    "rule",
    [
        "Never touch db/migrations.",
        "Don't change the public API!",
        "You must run the tests before each commit.",
        "Only edit files under src/harbour.",
        "Always answer in one sentence.",
        "Please avoid new dependencies.",
        "Fass niemals db/migrations an.",
        "Benutze nur Python 3.11.",
        "Ne touche jamais à db/migrations.",
        "N'utilise pas de nouvelle bibliothèque.",
        "Nunca toques db/migrations.",
        "Siempre responde en español.",
        "Não altere a pasta db/migrations.",
        "Use somente a biblioteca padrão.",
        "Non toccare mai db/migrations.",
        "Никогда не трогай db/migrations.",
        "Используй только стандартную библиотеку.",
        "db/migrationsには絶対に触らないでください。",
        "必ずテストを実行してください。",
        "不要修改 db/migrations。",
        "必须先运行测试。",
    ],
)
def test_rules_are_found_alone_and_inside_a_long_message(rule: str) -> None:
    assert find_constraints(rule) == [rule]
    filler = "The tide table is in the outer office. " * 60
    assert rule in find_constraints(f"{filler}\n{rule} {filler}")


def test_a_file_name_does_not_end_the_sentence() -> None:
    text = "Look here first. Never edit setup.cfg or v1.2 of app.py by hand. Thanks."
    assert find_constraints(text) == ["Never edit setup.cfg or v1.2 of app.py by hand."]


def test_list_marks_are_not_part_of_the_quote() -> None:
    assert find_constraints("Rules:\n- never push\n2. always test\n") == ["never push", "always test"]


@pytest.mark.parametrize(
    "text",
    [
        "Please fix the tide table and show me the result.",
        "Why must the gauge be reset?",
        "```\n# never called\nx = 1\n```\nThanks",
        "",
    ],
)
def test_what_is_no_rule(text: str) -> None:
    assert find_constraints(text) == []


def test_an_overlong_sentence_gives_the_clause_with_the_rule() -> None:
    text = "word " * 300 + "never touch the sluice " + "word " * 300
    (found,) = find_constraints(text)
    assert "never touch the sluice" in found
    assert len(found) <= MAX_SENTENCE
    assert found in text


@given(st.text(alphabet="never must.!?\n -`'。不要a", max_size=400))
def test_every_find_is_an_exact_substring(text: str) -> None:
    assert all(found and found in text for found in find_constraints(text))


def test_rules_that_are_not_shown_are_quoted_with_their_message() -> None:
    """COMP-08, COMP-09: only what the user said, word for word, and only where it is not there anyway."""
    messages = [
        ("m1", "Move it. Never touch db/migrations. Thanks."),
        ("m2", "x" * 5_000 + "\nBitte niemals den Hafen löschen.\n" + "y" * 5_000),
        ("m3", "What a day. Never touch db/migrations."),
        ("m4", "絶対にmasterへpushしないこと。"),
    ]
    missing = unshown_rules(messages, shown="The digest says: 絶対にmasterへpushしないこと。")
    assert [(rule.message, rule.quote) for rule in missing] == [
        ("m1", "Never touch db/migrations."),
        ("m2", "Bitte niemals den Hafen löschen."),
    ]
    note = rules_note(missing).split("\n")
    assert note[1:] == [
        '- "Never touch db/migrations." (message m1)',
        '- "Bitte niemals den Hafen löschen." (message m2)',
    ]
    assert unshown_rules(messages, "\n".join(text for _, text in messages)) == []


def test_prohibitions_are_told_from_wishes() -> None:
    bans = [
        "Never push.", "Don't push.", "You must not push.", "Nicht pushen.", "Ne touche jamais à ça.", "No toques db.",
        "Não altere.", "Non toccare mai db.", "Никогда не трогай.", "触らないでください。", "不要修改。",
    ]  # fmt: skip
    assert all(map(is_prohibition, bans))
    assert not any(
        map(is_prohibition, ["Always test first.", "Immer zuerst testen.", "必ずテストを実行してください。"])
    )
