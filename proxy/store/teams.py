"""What is read of teams: their keys, and what they were billed. The same statements on every database."""

from __future__ import annotations

from datetime import datetime

from proxy.core.records import ClientKeyRow, Spent, TenantUsage
from proxy.store.database import Database

_KEYS = "SELECT id, team, hash, created_at, revoked_at FROM client_keys ORDER BY created_at, id"
# An exchange's id begins with the time it came, so a day's are one range of the index.
_CALLS = (
    "SELECT count(*), CAST(coalesce(sum(o.input + o.output), 0) AS BIGINT), coalesce(sum(o.cost), 0)"
    " FROM exchanges e LEFT JOIN outcomes o ON o.exchange = e.id"
    " WHERE e.tenant = ? AND e.id >= ? AND e.created_at >= ?"
)
_SUMMARIES = (
    "SELECT CAST(coalesce(sum(s.input + s.output), 0) AS BIGINT), coalesce(sum(s.cost), 0) FROM summary_calls s"
    " JOIN conversations v ON v.id = s.conversation WHERE v.tenant = ? AND s.created_at >= ?"
)
_USAGE = (
    "SELECT e.tenant, count(*), CAST(coalesce(sum(o.input), 0) AS BIGINT), CAST(coalesce(sum(o.cached), 0) AS BIGINT),"
    " CAST(coalesce(sum(o.output), 0) AS BIGINT), coalesce(sum(o.cost), 0), coalesce(sum(o.cost_direct), 0)"
    " FROM exchanges e LEFT JOIN outcomes o ON o.exchange = e.id WHERE e.created_at >= ?"
    " GROUP BY e.tenant ORDER BY 6 DESC, e.tenant"
)


def client_keys(connection: Database) -> list[ClientKeyRow]:
    return [
        ClientKeyRow(id, team, bytes(hash), created, revoked)
        for id, team, hash, created, revoked in connection.execute(_KEYS)
    ]


def spent(connection: Database, tenant: str, since: str) -> Spent:
    moment = datetime.fromisoformat(since.replace("Z", "+00:00"))
    first = f"{int(moment.timestamp() * 1000):011x}"
    requests, tokens, dollars = connection.execute(_CALLS, (tenant, first, since)).fetchone()
    more_tokens, more_dollars = connection.execute(_SUMMARIES, (tenant, since)).fetchone()
    return Spent(int(requests), int(tokens) + int(more_tokens), float(dollars) + float(more_dollars))


def usage(connection: Database, since: str) -> list[TenantUsage]:
    return [TenantUsage(*row) for row in connection.execute(_USAGE, (since,))]
