"""One request from start to end: the only module that awaits the store and upstream.

Fails open: whatever goes wrong on our side, the original goes upstream and its answer comes back.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import structlog

from proxy.answer import TOO_LARGE, arrival, end_of, give_up_reply, is_overflow, reply_head, seen_error, shown_of
from proxy.attempt import Verdict, error_text, judge
from proxy.auth import keys_in
from proxy.commits import Commits
from proxy.compactor import Compactor
from proxy.config import Config
from proxy.core.headers import RawHeaders, as_mapping, header
from proxy.core.model import Conversation, Reply
from proxy.core.overflow import Overflow
from proxy.core.overflow_rules import Rules
from proxy.core.records import Batch, ExchangeRow
from proxy.core.redaction import redact
from proxy.counting import Count, InputCounter
from proxy.errors import NotUnderstoodError, UpstreamError
from proxy.expander import Expander
from proxy.incoming import read_request
from proxy.link import ClientLink
from proxy.live import LiveBranches
from proxy.models import ModelBook
from proxy.passthrough import STATUS_OF, RawRequest, Watch
from proxy.permits import ALL, Permits
from proxy.recording import merge
from proxy.relay import Opening, Responder, end_late, look, open_reply, relay, say_stopping
from proxy.rounds import Rounds
from proxy.settle import End, outcome_only, settle, settle_round
from proxy.store.base import Store
from proxy.summaries.base import Caller
from proxy.takeover import STATE_NOTE, Chains
from proxy.turn import Turn, Turns
from proxy.turn_rows import has_many_rows, prepare_rows, request_rows, window_rows
from proxy.upstream import Upstream
from proxy.wire.base import ReplyReader, WireFormat
from proxy.wire.errors import JSON_HEADERS, api_error, error_code
from proxy.wire.registry import Registry
from proxy.wire.responses_named import NamedReply

log = structlog.get_logger()

ROUND_HEARTBEAT_S = 15.0
"""While a later round of a reply is awaited, silence is filled with comments even where that is off."""


@dataclass(frozen=True, slots=True)
class Services:
    """What exchanges share."""

    config: Config
    store: Store
    upstream: Upstream
    live: LiveBranches
    turns: Turns
    models: ModelBook
    formats: Registry
    rules: Rules
    chains: Chains
    expander: Expander
    compactor: Compactor | None = None
    counter: InputCounter | None = None
    permits: Permits = ALL


class Exchanges:
    """Runs exchanges. One per process."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.models = services.models

    def format_of(self, request: RawRequest) -> WireFormat | None:
        return self._services.formats.find(request.method, request.path)

    def watch(self, request: RawRequest) -> Watch | None:
        """What reads the answer to a request that is passed through, if it may tell of an exchange."""
        return self._services.chains.watch(request.method, request.path, request.tenant)

    async def run(self, request: RawRequest, fmt: WireFormat, link: ClientLink, respond: Responder) -> None:
        """Answer one request that carries a conversation."""
        body, headers = await read_request(request.headers, link, self._services.config.server.max_body_mb << 20)
        if await self._services.permits.refuses(body, respond):
            return
        exchange = _Exchange(self._services, request, fmt, body, headers, link, respond)
        await exchange.run()
        await exchange.prepare()


class _Exchange:
    """The state of one exchange."""

    def __init__(
        self,
        services: Services,
        request: RawRequest,
        fmt: WireFormat,
        body: bytes,
        headers: RawHeaders,
        link: ClientLink,
        respond: Responder,
    ) -> None:
        self.services = services
        self.request = request
        self.fmt = fmt
        self.body = body
        self.headers = headers
        self.link = link
        self.respond = respond
        self.id = f"{int(time.time() * 1000):011x}{secrets.token_hex(5)}"
        self.started = time.monotonic()
        self.conversation: Conversation | None = None
        self.turn: Turn | None = None
        self.note = ""
        self.attempts = 0
        self.first_byte: float | None = None
        self.commits = Commits(services.store, self.id)
        self.is_settled = False
        self.opening: Opening | None = None
        self.overflowed = False
        self.is_recorded = False
        self.pending = Batch()  # the request's rows, until the first attempt's go with them in one commit
        self.usage_refused = False
        self.rounds = Rounds(self.id, services.expander, services.turns)
        self.held: list[bytes] = []  # of earlier rounds, which the client has not got yet

    async def run(self) -> None:
        try:
            await self._prepare()
            await self._converse()
        except asyncio.CancelledError:
            if not self.is_recorded:
                self.turn = None
                self.note = "stopped before it was placed"
                self._submit(self._request_rows())
            self._settle(End(outcome="cancelled" if self.link.is_gone else "interrupted", status=499))
            if not self.link.is_gone:
                await say_stopping(self.respond, self.fmt, self.opening)
            raise
        finally:
            if self.opening is not None:
                await self.opening.response.aclose()

    async def prepare(self) -> None:
        """The client has its answer: get ready what its next turn will need."""
        if self.services.compactor is not None and self.turn is not None:
            with self._failing_open("preparing summaries"):
                await self.services.compactor.after(self.turn, Caller(self.turn.conversation.model, self.headers))

    # -- before upstream -----------------------------------------------------------------------

    @contextmanager
    def _failing_open(self, doing: str) -> Iterator[None]:
        """The bypass: a fault of ours is logged and noted, and never becomes the agent's."""
        try:
            yield
        except (NotUnderstoodError, RecursionError) as error:
            self.note = str(error)
            self.turn = None
        except Exception as error:
            log.exception("own_fault", exchange=self.id, doing=doing)
            self.note = f"{doing}: {type(error).__name__}: {error}"
            self.turn = None

    async def _prepare(self) -> None:
        with self._failing_open("placing"):
            hints = as_mapping(self.request.headers)
            if self.fmt.is_quick(self.body):
                conversation = self.fmt.decode(self.body, hints)
            else:
                conversation = await asyncio.to_thread(self.fmt.decode, self.body, hints)
            if self.request.scope:
                conversation = replace(conversation, hints=replace(conversation.hints, forced=self.request.scope))
            self.conversation = conversation
            if conversation.choices != 1 or not conversation.elements:
                self.note = "several choices, or an empty list: passed as it came"
            else:
                asked = await self.services.chains.resolve(self.fmt, conversation, self.request.tenant)
                self.note = STATE_NOTE if asked.conversation.is_opaque else ""
                self.turn = await self.services.turns.begin(
                    self.fmt, asked.conversation, self.request.tenant, self.id, asked.original, self._count()
                )
            if self.turn is not None and has_many_rows(self.turn):
                await asyncio.to_thread(prepare_rows, self.turn)
        self.pending = self._request_rows()

    def _count(self) -> Count | None:
        """What asks the provider how large a request is, where it can be asked."""
        counter = self.services.counter if self.fmt.name == "responses" else None
        return counter.of(self.request.url, self.headers) if counter is not None else None

    def _request_rows(self) -> Batch:
        self.is_recorded = True
        batch: Batch | None = None
        with self._failing_open("recording the request"):
            if self.turn is not None:
                batch = request_rows(self.turn, self._exchange_row())
        return batch or Batch(exchanges=(self._exchange_row(),))

    def _exchange_row(self) -> ExchangeRow:
        return arrival(self.id, self.request, self.fmt, self.conversation, self.turn, len(self.body), self.note)

    def _submit(self, batch: Batch, *, may_wait: bool = False) -> None:
        self.commits.submit(batch, self.turn.live if self.turn is not None else None, may_wait=may_wait)

    # -- upstream ------------------------------------------------------------------------------

    async def _converse(self) -> None:
        while True:
            opening = await self._reach()
            if opening is None or not await self._answer(opening):
                return
            if not await self._next_round(opening):
                await self._unreachable(UpstreamError("what the model asked for could not be fetched", kind="protocol"))
                return

    async def _reach(self) -> Opening | None:
        """The reply to pass on; None when there is none, and the client was told so."""
        while True:
            self.attempts += 1
            try:
                opening = await self._send(self._outgoing())
            except UpstreamError as error:
                await self._unreachable(error)
                return None
            if not await self._again(opening):
                return opening
            await opening.response.aclose()

    async def _next_round(self, opening: Opening) -> bool:
        """The reply ended with calls of ours alone: answer them, and have the same reply go on."""
        turn, said = self.turn, opening.rounds
        self.held += opening.held
        await opening.response.aclose()
        with self._failing_open("expanding"):
            if turn is not None and said is not None:
                made = await self.rounds.answer(turn, said.round())
                self.turn = await self.rounds.follow(turn, made)
                self.id = self.rounds.id
                self.is_settled, self.overflowed, self.attempts = False, False, 0
                row = replace(self._exchange_row(), verdict="expand", items=len(self.turn.conversation.elements))
                self.pending = merge(made.rows, Batch(exchanges=(row,)))
                return True
        return False

    def _outgoing(self) -> bytes:
        """The bytes of this attempt, once its manifest is on the way to the store."""
        rows, self.pending = self.pending, Batch()
        with self._failing_open("recording the window"):
            if self.turn is not None:
                self.window_row, batch = window_rows(self.turn, self.services.turns.policy_name)
                rows = merge(rows, batch)
        if rows != Batch():
            self._submit(rows, may_wait=True)
        return self.turn.rendered.body if self.turn is not None else self.body

    async def _send(self, body: bytes) -> Opening:
        response = await self.services.upstream.send(self.request.method, self.request.url, self.headers, body)
        conversation = self.conversation
        kind = header(response.headers, b"content-type")
        is_stream = bool(conversation and conversation.is_stream) and (
            "event-stream" in kind or (not kind and response.status < 400)
        )
        is_stream = is_stream and response.status < 400
        strip = self.turn is not None and self.turn.edits.ask_usage
        turn = self.turn
        rounds = None
        if turn is not None and turn.tool and response.status < 400:
            rounds = self.rounds.reader(self.fmt, turn, is_stream=is_stream)
        reader: ReplyReader = rounds or self.fmt.reader(is_stream=is_stream, strip_usage=strip)
        if turn is not None and turn.is_taken_over and response.status < 400:
            reader = NamedReply(reader, turn.conversation.hints.previous_response, is_stream=is_stream)
        self.opening = opening = open_reply(response, reader, is_stream=is_stream)
        opening.rounds = rounds
        server = self.services.config.server
        await look(
            opening,
            self.respond,
            lambda: self._start(opening, is_early=True),
            hold_s=server.hold_head_s,
            heartbeat_s=server.heartbeat_s or (ROUND_HEARTBEAT_S if self.rounds.number > 1 else 0),
        )
        if response.status < 400 and self.held:
            opening.held, self.held = [*self.held, *opening.held], []
        return opening

    async def _again(self, opening: Opening) -> bool:
        """Is there one other request to send instead of passing this answer on? Prepares it if so."""
        turn = self.turn
        if self.usage_refused and opening.status < 400:
            # Only now is it known that the option was what it refused.
            self._submit(self.services.models.learn_refusal())
        error = seen_error(opening)
        verdict, overflow = judge(shown_of(opening, turn), self.services.rules)
        if turn is None or verdict is Verdict.PASS_ON:
            return False
        if verdict is Verdict.WITHOUT_USAGE:
            self.usage_refused = True
            self.services.turns.without_usage(turn)
            return True
        if verdict is Verdict.AS_IT_CAME and self.rounds.number > 1:
            return False  # the client has a part of the reply: another one cannot stand behind it
        if verdict is Verdict.AS_IT_CAME:
            said = self._clean(error_text(error))
            log.warning("rewrite_refused", exchange=self.id, status=opening.status, error=said)
            turn.live.state.is_suspended = True
            self.services.turns.as_it_came(turn)
            return True
        return overflow is not None and await self._recover(turn, overflow)

    async def _recover(self, turn: Turn, overflow: Overflow) -> bool:
        if overflow.limit:
            self._submit(self.services.models.learn_limit(turn.conversation.model, overflow.limit))
        if self.overflowed:
            return False
        self.overflowed = True
        turn.limits = self.services.models.limits(turn.conversation.model)
        is_smaller = False
        with self._failing_open("shrinking the window"):
            is_smaller = await self.services.turns.shrink(turn, overflow)
        log.info(
            "overflow_met",
            exchange=self.id,
            limit=overflow.limit,
            requested=overflow.requested,
            cause=overflow.cause,
            is_retried=is_smaller,
        )
        return is_smaller

    # -- towards the client --------------------------------------------------------------------

    async def _start(self, opening: Opening, *, is_early: bool = False) -> None:
        """Release the reply's head, once; what was received before is on disk by then."""
        if self.respond.is_started:
            return
        await self.commits.wait()
        self.first_byte = self.first_byte or time.monotonic()
        await self.respond.start(opening.status, reply_head(opening, self.turn, is_early=is_early))

    async def _answer(self, opening: Opening) -> bool:
        """Pass the reply on; true when it goes on in another round."""
        if self.overflowed and not opening.reader.has_content and await self._give_up(opening):
            return False
        if opening.failure is not None and not self.respond.is_started and opening.error_body is None:
            # Nothing of it has reached the client: it can still be told by a status.
            await self._unreachable(opening.failure)
            return False
        if self.respond.is_started and opening.error_body is not None:
            # The head of an earlier attempt is out: the error can only stand in the body.
            self._settle(end_of(opening))
            await self.commits.wait()
            body, place = opening.error_body, self.rounds.place
            await end_late(self.respond, self.fmt, error_text(body), error_code(body), place)
            return False
        if opening.is_over:
            # Known to its end: of an empty body the head is all that the client waits for.
            await self._settle_reply(opening)
        if opening.is_over and opening.wants_more and not self.respond.is_started:
            return True
        await self._start(opening)

        async def before_end() -> None:
            await self._settle_reply(opening)
            await self.commits.wait()

        await relay(opening, self.respond, before_end, heartbeat_s=self.services.config.server.heartbeat_s)
        if opening.failure is not None and opening.reader.at_event_boundary and self.respond.is_event_stream:
            await end_late(self.respond, self.fmt, str(opening.failure), "upstream_closed", self.rounds.place)
        return opening.wants_more and opening.failure is None

    async def _give_up(self, opening: Opening) -> bool:
        """Twice too large: say so, if that is what it is."""
        if self.attempts < 2 or not is_overflow(opening, self.services.rules):
            return False
        self._settle(End(outcome="overflow", status=opening.status, error=error_text(seen_error(opening))))
        await self.commits.wait()
        if self.respond.is_started:
            await end_late(self.respond, self.fmt, TOO_LARGE, "context_length_exceeded", self.rounds.place)
        else:
            await self.respond.full(*give_up_reply(opening))
        return True

    async def _unreachable(self, error: UpstreamError) -> None:
        self._settle(End(outcome="error", status=STATUS_OF[error.kind], error=str(error)))
        await self.commits.wait()
        code = f"upstream_{error.kind}"
        if self.respond.is_started:
            await end_late(self.respond, self.fmt, str(error), code, self.rounds.place)
            return
        await self.respond.full(STATUS_OF[error.kind], JSON_HEADERS, api_error(str(error), code=code))

    # -- the record ----------------------------------------------------------------------------

    async def _settle_reply(self, opening: Opening) -> None:
        """The end of an upstream call. Calls of ours beside the client's own are answered for its next request."""
        turn, rounds = self.turn, opening.rounds
        if turn is not None and rounds is not None and not (rounds.wants_more or self.is_settled):
            with self._failing_open("answering what stays hidden"):
                said = rounds.round()
                if said.calls or self.rounds.number > 1:
                    await self.rounds.answer(turn, said)
        self._settle(end_of(opening))

    def _clean(self, text: str) -> str:
        """`text` for the record: providers repeat the key in their errors."""
        return redact(text, keys_in(self.request.headers))

    def _settle(self, end: End) -> None:
        """Queue the outcome's rows, once. Never waits: it also runs while the exchange is being cancelled."""
        if self.is_settled:
            return
        self.is_settled = True
        clock = time.monotonic()
        end = replace(
            end,
            error=self._clean(end.error),
            attempts=self.attempts,
            first_byte_ms=((self.first_byte or clock) - self.started) * 1000,
            duration_ms=(clock - self.started) * 1000,
        )
        rows = None
        with self._failing_open("recording the reply"):
            if self.turn is not None:
                reply = self.opening.reader.reply() if self.opening is not None else None
                rows = self._settled(self.turn, end, reply)
        rows = rows or outcome_only(self.id, end, self.opening)
        if unwritten := self.commits.unwritten:
            rows = replace(rows, exchanges=(*rows.exchanges, *unwritten))
        self._submit(rows)

    def _settled(self, turn: Turn, end: End, reply: Reply | None) -> Batch:
        services, tenant, window = self.services, self.request.tenant, self.window_row
        if end.outcome == "ok" and reply is not None and self.opening is not None and self.opening.wants_more:
            return settle_round(turn, end, reply, window, tenant, services.models)
        kept = tuple(self.rounds.kept)
        rows = settle(turn, end, reply, window, tenant, services.live, services.models, kept)
        return merge(rows, services.chains.remember(turn, reply, tenant))
