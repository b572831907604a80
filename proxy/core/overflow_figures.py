"""The numbers in an overflow message: the limit, what was asked for, and its input and output parts.

Templates by role, tried in order on cleaned text; what no template finds falls to one plain
fact: in an overflow the figure asked for is greater than the limit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MIN_LIMIT = 1_000
MAX_LIMIT = 100_000_000

Span = tuple[int, int] | None

_BEFORE = r"(?<![A-Za-z0-9_.\-])"
_AFTER = r"(?![A-Za-z0-9_]|\.\d)"
_N = rf"{_BEFORE}(\d{{1,9}}){_AFTER}"

# Words that end the reach of "maximum": what follows them is what was asked for.
_GAP = (
    r"(?:(?!requested|however|resulted|contain|\bgot\b|received|\bbut\b|given|supplied|provided|\bhas\b|your|output"
    r"|completion|generat|current|actual|\bwas\b)[^.;!?\d])"
)
_OUT = r"(?:max_new_tokens|max_tokens|max_completion_tokens|max_output_tokens|max_gen\w*)"


def _all(*texts: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(text.replace("<N>", _N), re.IGNORECASE) for text in texts)


_LIMITS = _all(
    r"[\[(] ?[01] ?, ?(\d{1,9}) ?[\])]",
    r"(?<![\d.])\b[01] ?(?:\band\b|\bto\b|\.\.+|-|–|—|~|至|到) ?(\d{4,9})" + _AFTER,
    r"n_ctx(?:_\w+)?\W{1,4}<N>",
    r"\d ?\)? ?(?:tokens ?)?\)? ?>=? ?(?:the )?(?:\w+ ){0,3}?<N>",
    r"\d ?/ ?(\d{4,9})" + _AFTER,
    r"(?:max_(?:model_len|seq_len|seq_length|num_tokens|context_length|input_len|input_length|input_tokens"
    r"|prompt_tokens)"
    r"|session_len|num_ctx|context_length|context_window)\W{1,4}(?:is |of |to )?<N>",
    r"(?:maximum|\bmax\b)" + _GAP + r"{0,60}?<N>",
    r"context (?:length|window|size|limit|budget)\b" + _GAP + r"{0,40}?<N>",
    r"\bwindow\b" + _GAP + r"{0,20}?<N>",
    r"\blimit(?:ed)?\b" + _GAP + r"{0,30}?<N>",
    r"(?:allowed|permitted|supported|available|configured|capacity|ceiling|threshold|\bcap\b)" + _GAP + r"{0,40}?<N>",
    r"(?:not|cannot|n't) exceed" + _GAP + r"{0,40}?<N>",
    r"(?:<=|<|≤|at most|up to|no more than|not more than|less than(?: or equal to)?|fewer than|smaller than|lower than"
    r"|under|within|below|holds?|supports?|supports? only|accepts?(?: only)?|takes? only|handles?|fits?|window of) "
    r"?(?:\w+ ){0,3}?\(?<N>",
    r"<N>[ -]?(?:tokens? |token-)?(?:maximum|max\b|limit|context|allowed|window|ceiling|budget)",
    r"(?:exceed\w*|over|above|beyond|longer than|larger than|greater than|more than|surpass\w*) ?(?:[\w']+"
    r" ){0,6}?\(?<N>",
    r"(?:最大|上限|限制|不超过|不能超过|超过|超出|大于)[^\d。；]{0,16}<N>",
)

_TOTALS = _all(
    r"(?:requested|asked for):? ?(?:about |approximately |around |roughly |up to |a |total |of |: ?|~|\()*<N>"
    r"(?! (?:output|completion|new|generated|input|prompt))",
    r"resulted in (?:about |approximately |a total of )*<N>",
    r"\btotal(?:s|ling|ing)?(?: of| is|:| to)? (?:at least |about |approximately )?<N>",
    r"max_total_tokens \(?<N>",
    r"\btotal (?:number of )?tokens?\W{1,3}(?:is |requested |was )?\(?<N>",
    r"requires? (?:a )?(?:total )?(?:sequence |context )?(?:length )?(?:of )?<N>",
)
_JOINT = _all(
    r"(?:input|prompt|messages?)s?(?: tokens?)? (?:and|plus|\+) (?:(?:the|maximum|max|requested|reserved) )*"
    r"(?:output|completion|reply|response|generated|max_\w+)(?: tokens?)?\W{1,3}(?:is |of |are |total\w* |come to )*<N>"
)

_COUNTED = (
    r"(?:at least |about |approximately |around |roughly |~ ?|up to |estimated |an? |total |of |currently |only "
    r"|over |length |\()*"
)
_SINGLES = _all(
    r"n_(?:prompt_tokens|keep)\W{1,4}<N>",
    r"(?:prompt|input)_tokens?\W{1,4}(?:is |of )?<N>",
    r"token(?:s)? count(?:ed)?(?: of| is| was|:)? ?\(?<N>",
    r"<N> (?:(?:input|prompt|total|inputs) )?tokens?\)?,? ?(?:>|(?:which |that )?(?:exceed|surpass)|(?:is|are) "
    r"(?:too|longer|larger|greater|more|over|above)|(?:were|was) (?:given|received|sent|supplied|provided)|given|too)",
    r"<N>\)? ?(?:>=?|exceed|is (?:too|longer|larger|greater|more|over|above))",
    r"\b(?:request|prompt|inputs?|messages?|conversation|history|sequence|query|context|payload"
    r"|text)(?:'s)?\b[^.;\d]{0,30}?"
    r"\b(?:contain\w*|has|have|had|is|was|are|of|us(?:es|ed|ing)|takes?|comes? to|came to|compris\w+|amount\w* to"
    r"|counts?"
    r"|needs?|requires?|with|length|size|at|holds?|measures?)\b:? ?" + _COUNTED + r"<N>",
    r"\b(?:request|prompt|inputs?|messages?|conversation|input length|length|sequence)\b ?[:=(]+ ?<N>",
    r"(?:received|given|got|supplied|provided|sent|actual|found|counted|measured|current(?:ly)?|length is|used|but"
    r"|have|has)"
    r"(?: length| size| count| tokens| is| was)*:? ?" + _COUNTED + r"<N>",
    r"(?:当前|实际|请求|输入|共|收到)[^\d。；]{0,12}<N>",
)

_INPUT_PARTS = _all(
    r"<N> (?:tokens )?(?:in|from|of) (?:the |your )?(?:(?:text|tool|image|audio|input|system) )*"
    r"(?:messages?|prompts?|inputs?|functions?|tools?|history|context)\b"
)
_INPUTS = _all(
    r"(?<!for )(?<!of )(?<!than )(?<!most )(?<!to )<N> (?:inputs?|prompt) tokens?",
    r"contains? (?:at least |about )?<N> (?:input|prompt) tokens?",
    r"(?:prompt|input)(?: is| has| of| length| tokens?|:)+ ?\(?<N>",
)
_OUTPUTS = _all(
    r"<N> (?:tokens )?(?:in|for|of|as) (?:the |your |its )?(?:completion|output|response|reply|generation|answer)\b",
    r"requested <N> (?:output|completion|new|generated) tokens?",
    rf"<N> (?:tokens (?:of|in|for) )?{_OUT}",
    rf"{_OUT}\W{{1,4}}(?:is |of |set to |value )?(?:too (?:large|high)\W{{1,3}})?<N>",
    rf"{_OUT}\W{{1,4}}(?:or \W?{_OUT}\W{{1,3}})?is too large: <N>",
    r"generat(?:ing|ion length|ion of) <N>",
    r"(?<!most )(?<!of )(?<!to )<N> (?:output|completion|generated|new) tokens?",
    r"(?:output|completion|reply|response)(?: tokens?| length| allowance| budget)*\W{1,3}(?:of |is )?<N>",
)
_SUM = re.compile(
    rf"{_N}[^\d.;+]{{0,24}}\+[^\d.;]{{0,40}}?{_N}[^\d.;=>]{{0,24}}(?:=[^\d]{{0,4}}{_N}[^\d.;>]{{0,12}}?)?"
    rf"(?:>=?|exceed\w*|is (?:greater|more|larger) than|over)[^\d]{{0,40}}?{_N}",
    re.IGNORECASE,
)
_OUTPUT_WORD = re.compile(rf"(?:{_OUT}|output|completion|reply|response)[^\d+]{{0,16}}$", re.IGNORECASE)
_DIFFERENCE = re.compile(rf"{_N} > {_N} - {_N}")

_THOUSANDS = re.compile(
    r"(?<![\w.,'\-])[1-9]\d{0,2}(?:(?:,\d{3})+|(?:_\d{3})+|(?:'\d{3})+|(?: \d{3})+|(?:\.\d{3}){2,}|\.\d{3}(?="
    r" ?tokens?))"
    r"(?!\d|[.,_']\d)"
)
_SCALED = re.compile(r"(?<![\w.\-])(\d+(?:\.\d+)?) ?(?:([kK])|(M|million)|([万萬]))(?![A-Za-z0-9_])(?! ?i?[bB]\b)")
_SCALES = (1_000, 1_000_000, 10_000)
_FOREIGN = re.compile(
    r"\d+(?:\.\d+)?(?:(?:ms|s|x|%)(?![a-z])| ?(?:characters?|chars?|bytes?|[kmg]i?b|pixels?|px|seconds?|secs?|minutes?"
    r"|images?"
    r"|messages?|tools?|functions?|requests?|items?|pages?|files?|words?|字符|字节|个字)(?![a-z_]))"
    r"|(?<=\bby )\d+|<\d{3}>|\(2013\)|\b(?:request|trace|req)[ _-]?id\W{0,3}\S+",
    re.IGNORECASE,
)
_QUOTES = str.maketrans({"`": "", "’": "'", "\u00a0": " ", "\u202f": " ", "\u2009": " ", "，": ", ", "：": ": "})
_WHITE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Figures:
    """What the text says, each None where it does not."""

    limit: int | None = None
    requested: int | None = None
    input: int | None = None
    output: int | None = None

    @property
    def is_excessive(self) -> bool:
        """Whether they show a length above a limit: as a whole, by the input, or by input and output together."""
        whole = max(self.requested or 0, (self.input or 0) + (self.output or 0) if self.input else 0)
        return self.limit is not None and whole > self.limit


def clean(text: str) -> str:
    """White space collapsed, quotes plain, "128,000", "1 048 576" and "128k" as plain digits."""
    text = _WHITE.sub(" ", text.translate(_QUOTES)).strip()
    text = _THOUSANDS.sub(lambda match: re.sub(r"\D", "", match[0]), text)
    return _SCALED.sub(_scale, text)


def _scale(match: re.Match[str]) -> str:
    factor = next(scale for scale, unit in zip(_SCALES, match.groups()[1:], strict=True) if unit)
    return str(round(float(match[1]) * factor))


def read(text: str) -> Figures:
    """The figures of one cleaned message."""
    text = _FOREIGN.sub("#", text)
    if found := _SUM.search(text):
        left, right, total, limit = (int(group) if group else None for group in found.groups())
        if _OUTPUT_WORD.search(text[max(0, found.start() - 40) : found.start()]):
            left, right = right, left
        return Figures(_bounded(limit), total, left, right)
    if found := _DIFFERENCE.search(text):
        return Figures(_bounded(int(found[2])), None, int(found[3]), int(found[1]))
    joint, joint_span = _first(_JOINT, text, ())
    output, output_span = _first(_OUTPUTS, text, (joint_span,))
    limit, limit_span = _first(_LIMITS, text, (joint_span, output_span), MIN_LIMIT, MAX_LIMIT)
    if limit is None:  # a limit out of bounds is dropped, and is nothing else either
        _, limit_span = _first(_LIMITS, text, (joint_span, output_span))
    taken = (output_span, limit_span)
    parts = [int(match[1]) for match in _INPUT_PARTS[0].finditer(text)]
    total, total_span = (joint, joint_span) if joint_span else _first(_TOTALS, text, taken)
    single, single_span = _first(_SINGLES, text, taken)
    inputs = sum(parts) if parts else _first(_INPUTS, text, (*taken, total_span))[0]
    if output is None:
        whole = next((figure for figure in (total, single, inputs) if figure is not None), None)
        limit, total = _ordered(text, limit, whole)
    elif inputs is None:
        inputs = single if single_span != total_span else None
    if inputs is None and total is not None:
        inputs = total - output if output and total > output else total
    return Figures(limit, total, inputs, output)


def _ordered(text: str, limit: int | None, whole: int | None) -> tuple[int | None, int | None]:
    """Without an output part the figure asked for is above the limit: correct what the templates took for it."""
    seen = dict.fromkeys(int(match[1]) for match in re.finditer(_N, text))
    numbers = sorted(number for number in seen if MIN_LIMIT <= number <= MAX_LIMIT)
    if len(numbers) == 2 and (limit is None or whole is None or whole <= limit):
        return numbers[0], numbers[1]
    if limit is not None and whole is not None and whole <= limit:
        return limit, None
    return limit, whole


def _first(
    templates: tuple[re.Pattern[str], ...],
    text: str,
    taken: tuple[Span, ...],
    low: int = 1,
    high: int = 1_000_000_000,
) -> tuple[int | None, Span]:
    """The first number that a template finds, in bounds and not spoken for."""
    for template in templates:
        for match in template.finditer(text):
            if low <= int(match[1]) <= high and match.span(1) not in taken:
                return int(match[1]), match.span(1)
    return None, None


def _bounded(limit: int | None) -> int | None:
    return limit if limit is not None and MIN_LIMIT <= limit <= MAX_LIMIT else None
