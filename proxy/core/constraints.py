"""Finds the rules that a user laid down, as exact quotes. Word lists per language; it understands nothing.

Leans to finding too much: a quote too many costs a line, a lost rule costs the user's trust.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MAX_SENTENCE = 500
MAX_SCANNED = 60_000
"""Characters read at each end: what lies between in a longer message is pasted data, not talk."""

RULES: dict[str, tuple[str, ...]] = {
    "English": (
        r"\bnever\b", r"\b(?:do|does|must|should|shall|may|can|will|is|are)\s+not\b", r"\bcannot\b",
        r"\b(?:do|must|should|ca|wo|is|are|may)n['’]t\b", r"\bmust\b", r"\balways\b", r"\bavoid\b", r"\bforbidden\b",
        r"\bunder no circumstances\b", r"\bat all costs\b", r"\b(?:make|be) sure\b", r"\brequired to\b",
        r"(?:^|[,;:]\s*)(?:please\s+)?only\b", r"\bonly\s+(?:ever\s+)?(?:use|edit|touch|change|modify|write|run|read|"
        r"call|work|add|create|commit|push|answer|reply|the|in|with|from|on|after|if|when)\b", r"\bwithout\s+\w+ing\b",
        r"\bno\s+(?:new|other|more|changes?|external|network)\b",
        r"\b(?:keep|leave)\b.{0,40}\b(?:unchanged|as is|alone)\b",
    ),
    "German": (
        r"\bnie(?:mals)?\b", r"\bnicht\b", r"\bkeinesfalls\b", r"\bauf keinen fall\b", r"\bmuss(?:t|en)?\b",
        r"\bmüssen\b", r"\bdarf(?:st)?\b", r"\bdürfen\b", r"\bnur\b", r"\bimmer\b", r"\bverboten\b",
        r"\bkein(?:e[mnrs]?)?\b", r"\bunbedingt\b", r"\bstets\b",
    ),
    "French": (
        r"\bjamais\b", r"\bne\b.{1,40}\b(?:pas|plus|rien|que)\b", r"\bn['’]\w+.{0,40}\b(?:pas|plus|rien|jamais)\b",
        r"\bdois\b", r"\bdoit\b", r"\bdoivent\b", r"\bdevez\b", r"\btoujours\b", r"\buniquement\b", r"\bseulement\b",
        r"\binterdit\b", r"\bil faut\b", r"\bsans\b", r"\bobligatoire",
    ),
    "Spanish": (
        r"\bnunca\b", r"\bjamás\b", r"(?:^|[,;:]\s*)no\s+\w+",
        r"\bno\s+(?:debes?|puedes?|toques|uses|cambies|modifiques)\b",
        r"\bdebes?\b", r"\bdeben\b", r"\bsiempre\b", r"\bsolo\b", r"\bsólo\b", r"\bsolamente\b", r"\bprohibido\b",
        r"\btienes? que\b", r"\bhay que\b",
    ),
    "Portuguese": (
        r"\bnunca\b", r"\bjamais\b", r"\bnão\b", r"\bdeve[ms]?\b", r"\bsempre\b", r"\bsomente\b", r"\bapenas\b",
        r"\bsó\b", r"\bproibido\b", r"\btem que\b",
    ),
    "Italian": (
        r"\bmai\b", r"\bnon\b", r"\bdev[ei]\b", r"\bdevono\b", r"\bsempre\b", r"\bsolo\b", r"\bsoltanto\b",
        r"\bvietato\b", r"\bbisogna\b",
    ),
    "Russian": (
        r"\bникогда\b", r"\bне\b", r"\bнельзя\b", r"\bдолж(?:ен|на|но|ны)\b", r"\bвсегда\b", r"\bтолько\b",
        r"\bзапрещ\w+", r"\bобязательно\b", r"\bни в коем случае\b",
    ),
    "Japanese": (
        "絶対", "禁止", "てはいけ", "ではいけ", "てはなら", "ではなら", "ないで", "必ず", "常に", "のみ", "だけ",
        "決して", "しないこと", "なければな", "しないよう",
    ),
    "Chinese": (
        "不要", "不得", "不能", "不可", "不许", "不允许", "不應", "不应", "禁止",
        "必须", "必須", "务必", "務必", "只能", "只有", "仅", "僅", "总是",
        "總是", "始终", "始終", "永远不", "永遠不", "绝不", "絕不", "切勿", "请勿",
        "請勿", "别",
    ),
}  # fmt: skip

_ANY = re.compile("|".join(pattern for patterns in RULES.values() for pattern in patterns), re.IGNORECASE)
_FORBIDS = re.compile(
    r"\bnever\b|\bnot\b|n['’]t\b|\bcannot\b|\bavoid\b|\bforbidden\b|\bunder no circumstances\b|\bwithout\s+\w+ing\b"
    r"|\bno\s+(?:new|other|more|changes?|external|network)\b|\bunchanged\b|\bas is\b|\balone\b"
    r"|\bnie(?:mals)?\b|\bnicht\b|\bkeinesfalls\b|\bkein(?:e[mnrs]?)?\b|\bverboten\b"
    r"|\bjamais\b|\bne\b|\bn['’]\w|\binterdit|\bsans\b|\bnunca\b|\bjamás\b|\bno\s+\w+|\bprohibid|\bnão\b|\bproibid"
    r"|\bmai\b|\bnon\b|\bvietat|\bникогда\b|\bне\b|\bнельзя\b|\bзапрещ|\bни в коем случае\b"
    r"|禁止|はいけ|はなら|ないで|決して|しないこと|しないよう|絶対|不|别|切勿|请勿|請勿|绝|絕",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[^\n.!?。！？]*(?:[.!?](?![\s\"'”’)\]]|$)[^\n.!?。！？]*)*[.!?。！？]*[\"'”’)\]]*")
_FENCE = re.compile(r"^(?:```|~~~).*?(?:^(?:```|~~~)|\Z)", re.MULTILINE | re.DOTALL)
_BULLET = re.compile(r"^\s*(?:[-*+•>#]+|\d+[.)])\s+")


def find_constraints(text: str) -> list[str]:
    """The sentences of `text` that state a rule, in order, each an exact substring, none twice.

    Code blocks and questions are left out; an overlong sentence is given by the clause with the rule.
    """
    if len(text) > 2 * MAX_SCANNED:
        both = [*find_constraints(text[:MAX_SCANNED]), *find_constraints(text[-MAX_SCANNED:])]
        return list(dict.fromkeys(both))
    found: dict[str, None] = {}
    position = 0
    for fence in _FENCE.finditer(text):
        _collect(text[position : fence.start()], found)
        position = fence.end()
    _collect(text[position:], found)
    return list(found)


def is_prohibition(rule: str) -> bool:
    """Does a rule say what must not be done? Those are the last to be left out."""
    return _FORBIDS.search(rule) is not None


def _collect(text: str, found: dict[str, None]) -> None:
    for match in _SENTENCE.finditer(text):
        sentence = _BULLET.sub("", match.group()).strip()
        if len(sentence) < 4 or sentence.endswith(("?", "？")):
            continue
        rule = _ANY.search(sentence)
        if rule is not None:
            found.setdefault(sentence if len(sentence) <= MAX_SENTENCE else _clause(sentence, rule.start()))


def _clause(sentence: str, position: int) -> str:
    """The part of an overlong sentence around the rule, cut at spaces."""
    start = max(0, position - MAX_SENTENCE // 2)
    end = min(len(sentence), start + MAX_SENTENCE)
    if start:
        start = min(sentence.find(" ", start) + 1 or start, position)
    if end < len(sentence):
        end = max(sentence.rfind(" ", start, end), position + 1)
    return sentence[start:end]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule in the user's own words, and the message that holds it."""

    quote: str
    message: str  # id


def unshown_rules(messages: Iterable[tuple[str, str]], shown: str) -> list[Rule]:
    """The rules of user messages, given as (id, text), that stand nowhere word for word in what is `shown`."""
    found: dict[str, Rule] = {}
    for message, text in messages:
        for quote in find_constraints(text):
            if quote not in shown:
                found.setdefault(quote, Rule(quote, message))
    return list(found.values())


def rules_note(rules: Sequence[Rule]) -> str:
    """The rules as a text of their own, each with the id of its message."""
    lines = [f'- "{rule.quote}" (message {rule.message})' for rule in rules]
    return "\n".join(["[Rules in the user's own words, from messages that are not shown whole]", *lines])
