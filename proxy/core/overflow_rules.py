"""What an overflow error looks like, as data. No logic beyond compiling and extending the lists.

The order in which `proxy.core.overflow` asks: status, veto codes, strong codes, veto phrases,
phrases. Vetoes come first because a rate limit speaks of tokens that exceed a limit as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

Patterns = tuple[re.Pattern[str], ...]


@dataclass(frozen=True, slots=True)
class SoftVeto:
    """A phrase that speaks against overflow, unless the text also holds what `unless` looks for."""

    phrase: re.Pattern[str]
    unless: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Rules:
    """Everything that decides between overflow and its near misses.

    Codes are matched after CamelCase and dashes became lower_snake_case; phrases on text with
    its white space collapsed and its back-ticks dropped.
    """

    statuses: frozenset[int]
    refusing_statuses: frozenset[int]  # named inside a body: some other kind of failure
    veto_codes: Patterns
    strong_codes: Patterns
    vetoes: Patterns
    soft_vetoes: tuple[SoftVeto, ...]
    phrases: Patterns
    measured: Patterns  # all of them, in a text whose figures show a length above a limit, are enough

    def extended(self, *, patterns: Iterable[str] = (), vetoes: Iterable[str] = ()) -> Rules:
        """These rules with an operator's own; raises ValueError that names a pattern that cannot work."""
        return replace(
            self,
            phrases=self.phrases + tuple(_checked(text, "overflow pattern") for text in patterns),
            vetoes=self.vetoes + tuple(_checked(text, "overflow veto") for text in vetoes),
        )


def _checked(text: str, what: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(text, re.IGNORECASE)
    except re.error as error:
        raise ValueError(f"{what} {text!r} is no regular expression: {error}") from error
    if pattern.search(""):
        raise ValueError(f"{what} {text!r} matches every text")
    return pattern


def _compile(*texts: str) -> Patterns:
    return tuple(re.compile(text, re.IGNORECASE) for text in texts)


# Building blocks. `_NEAR` stays inside a sentence and lets "3.5" and "max. 100" pass.
_NEAR = r"(?:(?![.;!?] )[\s\S]){0,%d}?"
_SUBJECT = (
    r"(?:prompts?|inputs?|messages|conversation|(?:chat |message )?history|(?:the |your |input |prompt )context"
    r"|sequence|dialogu?e|input (?:text|tokens?|sequence)|token count|number of (?:input |prompt |total )?tokens)"
)
_CONTEXT = (
    r"(?:(?:context|session)[ _-]?(?:length|len|window|size|limit|budget|capacity|space)|(?:max(?:imum)?"
    r"|model)[ _]context"
    r"|max_?(?:model|seq(?:uence)?|input|prompt|context|session)_?(?:len(?:gth)?|tokens?|size|window)"
    r"|(?:supported|available|allowed|permitted) context|(?:model|context|token)(?:'s)? (?:window|capacity)"
    r"|max_num_tokens|max_total_tokens|max_position_embeddings|n_ctx|num_ctx"
    r"|max(?:imum)?\.? (?:allowed |supported |permitted |total |model |number of )*"
    r"(?:input|prompt|sequence|model|message|session|request|tokens?)[ _]?(?:tokens?|length|len|size|count|limit"
    r"|allowed)?"
    r"|(?:input|prompt|model|context|message|request|total)s? (?:tokens? )?(?:limit|maximum|budget|allowance|count"
    r" limit))"
)
_EXCEEDS = (
    r"(?:exceed\w*|surpass\w*|overflow\w*|overr[au]n\w*|too (?:long|large|big|many)|(?:longer|larger|greater|bigger"
    r"|more|higher)"
    r" than|beyond|(?:over|above|past|outside(?: of)?) (?:the|its|this|our)|(?:not|n't|cannot) (?:be )?(?:fit"
    r"|accommodate)\w*"
    r"|must (?:be|have) (?:<|less|fewer|smaller|lower|at most|no more)|should (?:be|have) (?:<|less|fewer|smaller|at"
    r" most)"
    r"|out of range|>)"
)

_ALLOWS = (
    r"\b(?:limit\w*|max\w*|at most|up to|only|no more than|supports?|allow\w*|accepts?|handles?|takes?|holds?|capacity"
    r"|window|context)\b"
)

DEFAULT = Rules(
    statuses=frozenset({400, 413, 422}),
    refusing_statuses=frozenset({401, 402, 403, 404, 407, 408, 429, 503, 529}),
    veto_codes=_compile(
        r"rate_?limit|too_many_requests|throttl|quota|billing|insufficient|overloaded|resource_exhausted",
        r"^(?:tokens|requests|input_tokens|output_tokens)$",
        r"above_max_(?:length|value)|(?:string|array|list)_too_long|less_than_equal|too_many_(?:tools|images|items)",
        r"content_(?:filter|policy)|responsible_?ai|safety|moderation",
        r"(?:request|payload|image|file|body|entity)_(?:entity_|body_)?too_(?:large|big)",
        r"unsupported_(?:parameter|value)|unknown_(?:parameter|url)|missing_required|model_not_found"
        r"|deployment_not_found",
        r"api_key|authentication|permission|unauthori[sz]ed|timeout",
    ),
    strong_codes=_compile(
        r"context_?(?:length|window|size|limit)?_?(?:is_|was_)?exceed",
        r"exceed(?:s|ed)?_?(?:the_|model_|max_|available_)*context",
        r"context_(?:too_(?:large|long)|overflow)|context_window_error",
        r"(?:prompt|input|messages?|conversation|tokens|context)_?(?:is_|are_)?too_long",
        r"(?:prompt|input)_?tokens?_?(?:limit_)?exceed|tokens_limit_reached|token_limit_reached",
        r"input_?length_(?:error|exceed)|(?:input|prompt)_(?:length_)?exceed",
        r"^(?:1261|1039)$",  # Zhipu's and MiniMax's numbers for it
    ),
    vetoes=_compile(
        r"rate[ _-]?limit|too many requests|throttl|please wait|slow down",
        r"(?:per|a|/) ?[ _-]?(?:min(?:ute)?|day|hour|second|sec|month|week)\b|\b[IO]?TP[MDHS]\b|\bRP[MDS]\b",
        r"\b(?:daily|hourly|weekly|monthly)\b|for today|this month",
        r"quota|billing|insufficient (?:credit|balance|fund)|(?:more|enough) credits|can only afford|usage limit"
        r"|spend\w* limit",
        r"(?:try again|retry) (?:later|in \d|after)|over(?:loaded| capacity)|at capacity|server (?:is )?busy|concurren",
        r"\b(?:access|auth\w*|api|bearer|refresh|session) tokens?\b|token (?:has |is )?expired",
        r"remaining tokens|tokens remaining",
        r"supports? (?:at most|up to|only) \d+ (?:completion|output|generated)",
        r"maximum (?:allowed )?(?:number of )?(?:output|completion|generated|generation) tokens? (?:for|allowed|of"
        r" this|that|this)",
        r"input should be (?:less|greater|a valid)|(?:string|list|value|array) should have at (?:most|least)",
        r"string too long|array too long|above maximum (?:value|length)",
        r"content management policy|content[ _]filter|content policy|safety system|flagged",
        r"budget[ _]tokens|(?:thinking|reasoning)[ _]budget",
        r"timed? ?out|does not exist|not (?:yet )?available for|unsupported parameter|unrecognized request argument",
        r"logit_bias|too many (?:tools|functions|images|files|stop|attachments|pages|items)",
        r"频率|速率|限流|余额|配额|欠费|每分钟|每天|并发|繁忙",
    ),
    soft_vetoes=(
        # An output allowance that no prompt could make fit. With the prompt's share in the text it is overflow.
        SoftVeto(
            re.compile(
                r"max[ _](?:completion[ _]|output[ _]|new[ _]|generated[ _])?tokens?\b[^.]{0,40}?"
                r"(?:too (?:large|high|big)|must|should|cannot|can't|may not|exceed|>|out of range|range|invalid"
                r"|between|greater)"
                r"|range of max_\w*tokens|invalid[^.]{0,20}\bmax_\w*tokens"
                r"|(?:output|completion|generation) tokens? (?:limit|exceed)|requested output (?:length|tokens) "
                r"|\b(?:completion|output|reasoning|generat(?:ed|ion))(?: tokens?)?\b[^.;]{0,40}\b(?:exceed\w*|limit"
                r"|maximum)\b"
                r"|\b(?:reasoning|completion|output) tokens? limit|tokens? (?:requested )?for (?:the )?(?:completion"
                r"|output)[^.]*limit",
                re.IGNORECASE,
            ),
            re.compile(
                r"\d+ (?:`?inputs?`?|prompt) tokens?|\binputs\b|(?:prompt|input)[ _](?:tokens?|length)\b"
                r"|(?:prompt|input|inputs|messages?|conversation)\b[^.]{0,40}?(?:\d{3}|\band\b|\bplus\b|\+)"
                r"|tokens? (?:in|from|of) (?:the|your) (?:prompt|messages|input)"
                r"|(?:and|plus|\+) (?:the |your )?(?:prompt|input|messages)",
                re.IGNORECASE,
            ),
        ),
        # Bytes, not tokens.
        SoftVeto(
            re.compile(
                r"\d ?(?:bytes|[kmg]i?b)\b|megabytes|kilobytes|(?:image|file|audio|video|pdf|document|attachment"
                r"|payload|body"
                r"|entity)s?\b[^.]{0,60}?(?:too (?:large|big|long|many)|exceed|larger|maximum|size|limit)",
                re.IGNORECASE,
            ),
            re.compile(r"\btokens?\b|context", re.IGNORECASE),
        ),
        # One field that is too long.
        SoftVeto(
            re.compile(
                r"(?:name|description|user|metadata|id|key|title|label|url|schema|identifier|stop"
                r" sequences?)'?\"?\]?:? "
                r"(?:is |are |value )?(?:too long|exceeds)",
                re.IGNORECASE,
            ),
            re.compile(r"\btokens?\b|context (?:length|window|size)", re.IGNORECASE),
        ),
    ),
    phrases=_compile(
        rf"{_EXCEEDS}{_NEAR % 90}\b{_CONTEXT}",
        rf"\b{_CONTEXT}{_NEAR % 90}{_EXCEEDS}",
        rf"\b{_SUBJECT}\b{_NEAR % 60}\b(?:too (?:long|large|big)|overlong|over-long)\b",
        rf"\btoo (?:long|large|big)\b{_NEAR % 30}\b(?:prompt|input|conversation|context)\b",
        rf"\b{_SUBJECT}\b{_NEAR % 60}\bexceed\w*{_NEAR % 50}\b(?:limit|max\w*|allow\w*|length|\d{{4,}})",
        r"\btoo many (?:input |prompt |context |total )?tokens\b",
        rf"\btokens?\b{_NEAR % 40}\bexceed\w*{_NEAR % 60}\b(?:limit|max\w*|allowed|length|model|supported|\d{{4,}})",
        rf"\bexceed\w*{_NEAR % 40}\btokens?\b(?: |-)?(?:limit|maximum|allow\w*|budget|count)",
        rf"\b{_SUBJECT}\b{_NEAR % 30}{_EXCEEDS}{_NEAR % 20}\btokens?[ -](?:limit|maximum|cap|ceiling)",
        r"\btokens? (?:limit|maximum) (?:was |is |has been )?(?:exceeded|reached)|^\W*token limit\W*$",
        r"\b(?:reduce|shorten|trim|decrease|cut)\b[^.;]{0,40}\b(?:length|size|number of tokens|amount)\b[^.;]{0,40}"
        r"\b(?:messages?|prompts?|inputs?|context|conversation|completion|request)\b",
        r"\b(?:reduce|shorten|trim) (?:the |your )?(?:prompt|input|messages|conversation|context)\b",
        r"\bshorter (?:prompt|input|conversation|context)\b",
        r"\binput (?:validation error: )?inputs tokens \+ max_new_tokens must be|inputs tokens \+ max_new_tokens",
        rf"\b(?:prompt|input|messages|inputs)\b{_NEAR % 40}(?:\+|\band\b|\bplus\b){_NEAR % 40}\b(?:max_\w*tokens"
        rf"|completion|output"
        rf"|generat\w+|prediction|new tokens){_NEAR % 60}(?:exceed|must be|should be|cannot|larger|greater|more than"
        rf"|over\b|>|<)",
        r"\d{3,} \+ \d+ ?(?:= ?\d+ ?)?(?:tokens ?)?(?:>|exceed|is (?:greater|larger|more))",
        r"\bcurrent length is \d+ while limit is \d+|\bmax(?:imum)? size: \d+ tokens",
        # "allowed range [1, N]" of something that is input
        rf"\b(?:input|prompt|messages?|context|tokens? count)\b{_NEAR % 60}(?:\brange\b|\bbetween\b|\bwithin\b"
        rf"|\bfrom\b|\bin\b|\bbe\b)"
        rf"{_NEAR % 24}[\[(]? ?\b[01] ?(?:,|\.\.+|to|and|-|–|~) ?\d{{4,}}",
        rf"\b(?:input|prompt|messages?|context|tokens?)\b{_NEAR % 40}\b[01] ?(?:\.\.+|~|–) ?\d{{4,}}",
        r"\brange of (?:input|prompt|message)\w* (?:length|tokens?|size)",
        # "at most N, you have M" and "you have M, at most N", where both are tokens
        rf"{_ALLOWS}{_NEAR % 60}\b\d{{4,}}\b(?=[\s\S]*\btokens?\b)[\s\S]{{0,80}}?\b(?:prompt|input|messages?|request\w*"
        r"|conversation|supplied|sent|provided|received|got|given|resulted)\b[\s\S]{0,40}?\d{4,}",
        rf"\b(?:prompt|input|messages?|request|conversation|token"
        rf" count)s?\b{_NEAR % 60}\b\d{{4,}}\b(?=[\s\S]*\btokens?\b)"
        rf"[\s\S]{{0,80}}?{_ALLOWS}{_NEAR % 40}\b\d{{4,}}",
        r"\b(?:input|prompt|inputs|messages)\b[^.]{0,30}\b(?:must|should|may|can|has to|have to)\b[^.]{0,30}"
        r"\b(?:less|fewer|at most|no more|up to|below|under|not exceed)\b[^.]{0,20}\d{4,}[^.]{0,10}\btokens?",
        r"\b(?:does|do|did|will|could|can) ?(?:not|n't) fit\b[^.]{0,60}\b(?:context|window|model|tokens?)\b",
        r"\b(?:ran|run|running) out of (?:context|room)|\bout of context\b|\bcontext (?:overflow|is full|was full"
        r"|exhausted)",
        r"\bcontext[ _-]?(?:length|window|size|limit)?\W{0,3}(?:has been |was |is |were |limit )?(?:exceeded|reached"
        r"|overflow\w*|full)",
        r"\breached (?:the )?(?:maximum )?context (?:length|window|limit|size)|\bcontext length of only \d+|context"
        r" length is only \d+",
        r"\bmaximum (?:context|prompt|input|sequence) length is \d+",
        r"\blength limit exceeded\b|\bexpected maxlength\b|\bprompt_?too_?long\b",
        # Chinese
        r"(?:上下文|输入|提示词?|prompt|tokens?|消息|对话|请求内容|文本)[^。；]{0,24}(?:超出|超过|超长|过长|超限|太长)",
        r"(?:超出|超过|大于)[^。；]{0,24}(?:上下文|最大(?:长度|输入)|长度限制|tokens?|输入(?:长度|限制))",
    ),
    measured=_compile(
        r"tokens?(?![a-z])|context|(?:sequence|prompt|input)[ _]length|上下文",
        r"prompt|input|messages|model|window|token count|request|context|conversation|sequence|dialog|history|you"
        r" (?:asked|sent|have)|输入|请求",
        r"exceed|over|above|beyond|than|too |>|/|limit|max|allow|at most|up to|support|accept|only|enough|available"
        r"|\bof\b"
        r"|holds|most|\bfits?\b|under|below|\bcan\b|window|size|超|最大",
    ),
)
