"""What the client is told around a reply: its head, its end, and what the record says of how it went. Pure."""

from __future__ import annotations

from proxy.attempt import Shown, Verdict, error_text, judge
from proxy.core.headers import RawHeaders, header, response_headers
from proxy.core.model import Conversation
from proxy.core.overflow_rules import Rules
from proxy.core.records import ExchangeRow
from proxy.passthrough import RawRequest
from proxy.recording import now
from proxy.relay import Opening
from proxy.settle import End
from proxy.turn import Turn
from proxy.wire.base import WireFormat
from proxy.wire.errors import JSON_HEADERS, load, too_large

TOO_LARGE = "This conversation grew too large for the model, even made smaller. Please send your last message again."


def reply_head(opening: Opening, turn: Turn | None, *, is_early: bool) -> RawHeaders:
    """The headers that the client gets.

    `is_early`: it is not known yet whether this body follows, or the one of a second attempt.
    """
    is_edited = (
        is_early
        or opening.rounds is not None
        or (turn is not None and turn.is_taken_over)
        or bool(header(opening.response.headers, b"content-encoding"))
        or (opening.is_stream and turn is not None and turn.edits.ask_usage)
    )
    extra: RawHeaders = []
    if turn is not None:
        saved = turn.limits.billed(turn.saved)
        extra = [
            (b"x-undercliff-conversation", turn.placement.conversation.encode()),
            (b"x-undercliff-window", turn.window.encode()),
            (b"x-undercliff-saved-tokens", str(saved).encode()),
        ]
    if "event-stream" in header(opening.response.headers, b"content-type"):
        extra.append((b"x-accel-buffering", b"no"))
    if is_edited and opening.kept_coding:
        extra.append((b"content-encoding", opening.kept_coding.encode("latin-1")))
    return response_headers(opening.response.headers, is_decoded=is_edited, extra=extra)


def seen_error(opening: Opening) -> bytes:
    """The error of a reply: its whole body, or what stood inside a 200."""
    return opening.error_body if opening.error_body is not None else opening.reader.error


def shown_of(opening: Opening, turn: Turn | None) -> Shown:
    """An attempt as far as it was seen."""
    return Shown(
        status=opening.status,
        error=seen_error(opening),
        is_streamed=opening.error_body is None and bool(opening.reader.error),
        has_content=opening.status < 400 and opening.reader.has_content,
        is_rewritten=turn is not None and turn.rendered.is_rewritten,
        asked_usage=turn is not None and turn.edits.ask_usage,
        estimate=turn.limits.billed(turn.estimate) if turn else 0,
        window=turn.limits.facts.window if turn else None,
    )


def arrival(
    exchange: str, request: RawRequest, fmt: WireFormat, conversation: Conversation | None, turn: Turn | None,
    size_bytes: int, note: str,
) -> ExchangeRow:  # fmt: skip
    """The record of a request, as far as it was understood and placed."""
    return ExchangeRow(
        id=exchange,
        tenant=request.tenant,
        conversation=turn.placement.conversation if turn else "",
        branch=turn.placement.branch if turn else "",
        verdict=turn.placement.verdict if turn else "bypass",
        method=request.method,
        path=request.path,
        model=conversation.model if conversation else "",
        wire=fmt.name,
        is_stream=bool(conversation and conversation.is_stream),
        request_bytes=size_bytes,
        items=len(conversation.elements) if conversation else 0,
        created_at=now(),
        note=note,
    )


def is_overflow(opening: Opening, rules: Rules) -> bool:
    """Does the reply say that the request was too large?"""
    shown = Shown(opening.status, seen_error(opening), opening.error_body is None, False, False, False, 0, None)
    return judge(shown, rules)[0] is Verdict.OVERFLOW


def give_up_reply(opening: Opening) -> tuple[int, RawHeaders, bytes]:
    """Twice too large: the provider's status and code, with words that tell the user what to do."""
    headers = response_headers(opening.response.headers, is_decoded=True)
    headers = [(name, value) for name, value in headers if name != b"content-type"] + JSON_HEADERS
    status = opening.status if opening.status >= 400 else 400
    return status, headers, too_large(load(seen_error(opening)), TOO_LARGE)


def end_of(opening: Opening) -> End:
    """How a reply that was read to its end went."""
    error = seen_error(opening)
    failure = str(opening.failure) if opening.failure is not None else ""
    if opening.status >= 400 or error:
        outcome = "error"
    elif failure:
        outcome = "interrupted"
    else:
        outcome = "ok"
    return End(outcome=outcome, status=opening.status, error=error_text(error) if error else failure)
