"""The SQLite schema as numbered steps. Each step and its number are one transaction: killed between, it starts anew."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

from proxy.store.database import Database
from proxy.store.sealing import seal_existing

APPLICATION_ID = 0x75636C66  # "uclf": tells our files from any other SQLite file

Step = Callable[[sqlite3.Connection], None]

# Column names follow the fields of proxy.core.records, so that rows map by name.
_DISPLAY = (
    """CREATE TABLE bodies (
        seq INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, size INTEGER NOT NULL, data BLOB NOT NULL)""",
    """CREATE TABLE messages (
        seq INTEGER PRIMARY KEY, id TEXT NOT NULL, conversation TEXT NOT NULL, branch TEXT NOT NULL,
        kind TEXT NOT NULL, role TEXT NOT NULL, body BLOB NOT NULL, call_id TEXT NOT NULL, source TEXT NOT NULL,
        "group" TEXT NOT NULL, is_pinned INTEGER NOT NULL, importance REAL NOT NULL, exchange TEXT NOT NULL,
        created_at TEXT NOT NULL, atoms BLOB NOT NULL, text BLOB NOT NULL, UNIQUE (id, conversation))""",
    "CREATE INDEX messages_in_order ON messages (conversation, seq)",
    """CREATE TABLE exchanges (
        seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, conversation TEXT NOT NULL,
        branch TEXT NOT NULL, verdict TEXT NOT NULL, method TEXT NOT NULL, path TEXT NOT NULL, model TEXT NOT NULL,
        wire TEXT NOT NULL, is_stream INTEGER NOT NULL, request_bytes INTEGER NOT NULL, items INTEGER NOT NULL,
        created_at TEXT NOT NULL, note TEXT NOT NULL)""",
    "CREATE INDEX exchanges_in_order ON exchanges (conversation, seq)",
    """CREATE TABLE outcomes (
        seq INTEGER PRIMARY KEY, exchange TEXT NOT NULL UNIQUE, status INTEGER NOT NULL, outcome TEXT NOT NULL,
        attempts INTEGER NOT NULL, finish TEXT NOT NULL, input INTEGER NOT NULL, cached INTEGER NOT NULL,
        written INTEGER NOT NULL, output INTEGER NOT NULL, reasoning INTEGER NOT NULL, is_estimated INTEGER NOT NULL,
        cost REAL, cost_direct REAL, error TEXT NOT NULL, first_byte_ms REAL NOT NULL, duration_ms REAL NOT NULL,
        ended_at TEXT NOT NULL, breaks INTEGER NOT NULL, reply_items BLOB NOT NULL)""",
    """CREATE TABLE paths (
        seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, branch TEXT NOT NULL, base TEXT NOT NULL,
        keep INTEGER NOT NULL, tail BLOB NOT NULL)""",
    """CREATE TABLE windows (
        seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, exchange TEXT NOT NULL, branch TEXT NOT NULL,
        attempt INTEGER NOT NULL, base TEXT NOT NULL, keep INTEGER NOT NULL, tail BLOB NOT NULL, prefix BLOB NOT NULL,
        suffix BLOB NOT NULL, gap BLOB NOT NULL, gaps BLOB NOT NULL, out_hash TEXT NOT NULL, out_bytes INTEGER NOT NULL,
        policy TEXT NOT NULL, reason TEXT NOT NULL, tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL,
        first_change INTEGER NOT NULL, created_at TEXT NOT NULL)""",
    "CREATE INDEX windows_of_exchange ON windows (exchange, attempt)",
    """CREATE TABLE plans (
        seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, branch TEXT NOT NULL, data BLOB NOT NULL)""",
    """CREATE TABLE summaries (
        seq INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, conversation TEXT NOT NULL, item TEXT NOT NULL,
        body BLOB NOT NULL, summarizer TEXT NOT NULL, covers BLOB NOT NULL, tokens INTEGER NOT NULL, cost REAL,
        created_at TEXT NOT NULL)""",
    "CREATE INDEX summaries_of_item ON summaries (conversation, item)",
    """CREATE TABLE gaps (
        seq INTEGER PRIMARY KEY, started_at TEXT NOT NULL, ended_at TEXT NOT NULL, batches INTEGER NOT NULL,
        reason TEXT NOT NULL)""",
)

# Display tables and what makes a row of each unique.
_APPEND_ONLY = {
    "bodies": "hash = NEW.hash",
    "messages": "conversation = NEW.conversation AND id = NEW.id",
    "exchanges": "id = NEW.id",
    "outcomes": "exchange = NEW.exchange",
    "paths": "id = NEW.id",
    "windows": "id = NEW.id",
    "plans": "id = NEW.id",
    "summaries": "key = NEW.key",
    "gaps": "FALSE",
}

# The last one closes what INSERT OR REPLACE leaves open where recursive_triggers is off: a known key keeps its row,
# and no caller names a sequence number (SQLite shows -1 before it has chosen one).
_GUARDS = (
    "CREATE TRIGGER $t_no_update BEFORE UPDATE ON $t BEGIN SELECT RAISE(ABORT, '$t is append-only'); END",
    "CREATE TRIGGER $t_no_delete BEFORE DELETE ON $t BEGIN SELECT RAISE(ABORT, '$t is append-only'); END",
    """CREATE TRIGGER $t_no_replace BEFORE INSERT ON $t
        WHEN NEW.seq <> -1 OR EXISTS (SELECT 1 FROM $t WHERE $same) BEGIN
        SELECT CASE WHEN NEW.seq <> -1 THEN RAISE(ABORT, 'the store assigns $t.seq') ELSE RAISE(IGNORE) END;
        END""",
)

_WORKING = (
    # `fold` is 0 for a row as it arrived, else the fold that inserted it; `origin` names what was re-inserted.
    """CREATE TABLE working (
        seq INTEGER PRIMARY KEY, branch TEXT NOT NULL, conversation TEXT NOT NULL, item TEXT NOT NULL,
        origin TEXT NOT NULL, fold INTEGER NOT NULL, is_summarized INTEGER NOT NULL DEFAULT 0,
        is_pinned INTEGER NOT NULL, importance REAL NOT NULL)""",
    "CREATE INDEX working_items ON working (branch, item)",
    "CREATE INDEX working_open ON working (branch) WHERE is_summarized = 0",
    "CREATE INDEX working_folds ON working (fold) WHERE fold > 0",
    """CREATE TABLE branches (
        id TEXT PRIMARY KEY, tenant TEXT NOT NULL, conversation TEXT NOT NULL, kind TEXT NOT NULL,
        version INTEGER NOT NULL, scope TEXT NOT NULL, parent TEXT NOT NULL, parent_kind TEXT NOT NULL,
        epoch INTEGER NOT NULL, head_hash BLOB NOT NULL, tools_hash BLOB NOT NULL, model TEXT NOT NULL,
        path TEXT NOT NULL, window TEXT NOT NULL, plan TEXT NOT NULL, state BLOB NOT NULL, updated_at TEXT NOT NULL,
        touched INTEGER NOT NULL)""",
    "CREATE INDEX branches_of_conversation ON branches (conversation)",
    "CREATE INDEX branches_of_scope ON branches (tenant, scope, touched)",
    "CREATE INDEX branches_by_touch ON branches (touched)",
    # Numbers grow with time, so that of many branches behind one key the newest are found first.
    "CREATE TABLE branch_numbers (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE)",
    """CREATE TABLE keys (
        tenant TEXT NOT NULL, kind TEXT NOT NULL, key BLOB NOT NULL, branch INTEGER NOT NULL,
        PRIMARY KEY (tenant, kind, key, branch)) WITHOUT ROWID""",
    """CREATE TABLE links (
        conversation TEXT NOT NULL, a TEXT NOT NULL, b TEXT NOT NULL, type TEXT NOT NULL,
        PRIMARY KEY (conversation, a, type, b)) WITHOUT ROWID""",
    """CREATE TABLE learned (
        upstream TEXT NOT NULL, model TEXT NOT NULL, name TEXT NOT NULL, value REAL NOT NULL,
        PRIMARY KEY (upstream, model, name)) WITHOUT ROWID""",
    """CREATE TABLE token_counts (
        body BLOB NOT NULL, tokenizer TEXT NOT NULL, tokens INTEGER NOT NULL,
        PRIMARY KEY (body, tokenizer)) WITHOUT ROWID""",
    """CREATE TABLE folds (
        seq INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, conversation TEXT NOT NULL, branch TEXT NOT NULL,
        "trigger" TEXT NOT NULL, figure INTEGER NOT NULL, tokens_before INTEGER NOT NULL,
        tokens_after INTEGER NOT NULL, summary TEXT NOT NULL, created_at TEXT NOT NULL)""",
    "CREATE INDEX folds_in_order ON folds (conversation, seq)",
)

# Sums per conversation, kept by the database: only a row that is really new counts, however often it is submitted.
# (`items` alone is counted where messages are written: many come at once.)
_SUMS = (
    """CREATE TABLE conversations (
        id TEXT PRIMARY KEY, tenant TEXT NOT NULL, model TEXT NOT NULL DEFAULT '', exchanges INTEGER NOT NULL DEFAULT 0,
        items INTEGER NOT NULL DEFAULT 0, input INTEGER NOT NULL DEFAULT 0, cached INTEGER NOT NULL DEFAULT 0,
        output INTEGER NOT NULL DEFAULT 0, cost REAL NOT NULL DEFAULT 0, saved_tokens INTEGER NOT NULL DEFAULT 0,
        folds INTEGER NOT NULL DEFAULT 0, created_at TEXT NOT NULL DEFAULT '', updated_at TEXT NOT NULL DEFAULT '',
        last_exchange INTEGER NOT NULL DEFAULT 0)""",
    "CREATE INDEX conversations_newest ON conversations (last_exchange)",
    "CREATE INDEX conversations_of_tenant ON conversations (tenant, last_exchange)",
    """CREATE TRIGGER sums_of_exchanges AFTER INSERT ON exchanges WHEN NEW.conversation <> '' BEGIN
        INSERT INTO conversations (id, tenant, created_at) VALUES (NEW.conversation, NEW.tenant, NEW.created_at)
            ON CONFLICT (id) DO NOTHING;
        UPDATE conversations SET tenant = NEW.tenant, model = NEW.model, exchanges = exchanges + 1,
            created_at = CASE created_at WHEN '' THEN NEW.created_at ELSE created_at END,
            updated_at = max(updated_at, NEW.created_at), last_exchange = NEW.seq
            WHERE id = NEW.conversation;
        END""",
    """CREATE TRIGGER sums_of_branches AFTER INSERT ON branches BEGIN
        INSERT INTO conversations (id, tenant) VALUES (NEW.conversation, NEW.tenant) ON CONFLICT (id) DO NOTHING;
        UPDATE conversations SET tenant = NEW.tenant WHERE id = NEW.conversation AND tenant = '';
        END""",
    """CREATE TRIGGER sums_of_outcomes AFTER INSERT ON outcomes BEGIN
        UPDATE conversations SET input = input + NEW.input, cached = cached + NEW.cached,
            output = output + NEW.output, cost = cost + coalesce(NEW.cost, 0),
            updated_at = max(updated_at, NEW.ended_at)
            WHERE id = (SELECT conversation FROM exchanges WHERE id = NEW.exchange);
        END""",
    # A second attempt replaces the first one's saving: only the last window of an exchange was answered.
    """CREATE TRIGGER sums_of_windows AFTER INSERT ON windows BEGIN
        UPDATE conversations SET saved_tokens = saved_tokens + NEW.tokens_in - NEW.tokens_out - coalesce(
            (SELECT tokens_in - tokens_out FROM windows WHERE exchange = NEW.exchange AND attempt < NEW.attempt
                ORDER BY attempt DESC LIMIT 1), 0)
            WHERE id = (SELECT conversation FROM exchanges WHERE id = NEW.exchange);
        END""",
    """CREATE TRIGGER sums_of_folds AFTER INSERT ON folds BEGIN
        UPDATE conversations SET folds = folds + 1 WHERE id = NEW.conversation;
        END""",
)

# The index keeps no copy of the text (that is in messages.text); its rowid is messages.seq. It is filled in bulk,
# behind the writes, up to `indexed_to`: a bulk costs a fifth of what single messages cost.
_SEARCH = (
    "CREATE VIRTUAL TABLE items_fts USING fts5 (text, content = '', tokenize = 'unicode61')",
    "CREATE TABLE search_index (indexed_to INTEGER NOT NULL)",
    "INSERT INTO search_index (indexed_to) VALUES (0)",
)

# Tamper evidence, see proxy.store.seals. A number once given is never given again: a missing one needs a tombstone.
_SEALS = (
    """CREATE TABLE chains (
        number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, length INTEGER NOT NULL,
        head BLOB NOT NULL)""",
    """CREATE TRIGGER chains_only_grow BEFORE UPDATE ON chains
        WHEN NEW.length <= OLD.length OR NEW.number <> OLD.number OR NEW.id <> OLD.id BEGIN
        SELECT RAISE(ABORT, 'chains only grow'); END""",
    "CREATE TRIGGER chains_no_delete BEFORE DELETE ON chains BEGIN SELECT RAISE(ABORT, 'chains only grow'); END",
    """CREATE TABLE tombstones (
        seq INTEGER PRIMARY KEY, number INTEGER NOT NULL UNIQUE, conversation TEXT NOT NULL, tenant TEXT NOT NULL,
        length INTEGER NOT NULL, head BLOB NOT NULL, reason TEXT NOT NULL, erased_at TEXT NOT NULL,
        signature BLOB NOT NULL)""",
)
_SEALED = ("exchanges", "messages", "paths", "plans", "windows", "summaries", "outcomes", "gaps")
_SEAL_COLUMNS = (
    "ALTER TABLE $t ADD COLUMN chain INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE $t ADD COLUMN place INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE $t ADD COLUMN seal BLOB NOT NULL DEFAULT x''",
    "CREATE INDEX $t_in_chain ON $t (chain, place)",
)


# What summaries cost, apart from the conversations' own calls; and who is at work on which.
_COMPACTION = (
    """CREATE TABLE summary_calls (
        seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, conversation TEXT NOT NULL, branch TEXT NOT NULL,
        key TEXT NOT NULL, summarizer TEXT NOT NULL, model TEXT NOT NULL, outcome TEXT NOT NULL, reason TEXT NOT NULL,
        input INTEGER NOT NULL, cached INTEGER NOT NULL, output INTEGER NOT NULL, cost REAL,
        duration_ms REAL NOT NULL, created_at TEXT NOT NULL)""",
    "CREATE INDEX summary_calls_in_order ON summary_calls (conversation, seq)",
    """CREATE TABLE claims (
        name TEXT PRIMARY KEY, owner TEXT NOT NULL, at REAL NOT NULL, until REAL NOT NULL) WITHOUT ROWID""",
    "ALTER TABLE folds ADD COLUMN follows TEXT",
    "ALTER TABLE folds ADD COLUMN covered INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE folds ADD COLUMN parts INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE folds ADD COLUMN told INTEGER NOT NULL DEFAULT 0",
)


# What applications say of items after they were written: pins and the like.
_MARKS = (
    """CREATE TABLE marks (
        conversation TEXT NOT NULL, item TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
        PRIMARY KEY (conversation, item, name)) WITHOUT ROWID""",
)


def _display(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    for statement in _DISPLAY:
        connection.execute(statement)
    for table, same in _APPEND_ONLY.items():
        for guard in _GUARDS:
            connection.execute(guard.replace("$same", same).replace("$t", table))


def _working(connection: sqlite3.Connection) -> None:
    for statement in (*_WORKING, *_SUMS):
        connection.execute(statement)


def _search(connection: sqlite3.Connection) -> None:
    for statement in _SEARCH:
        connection.execute(statement)


def _compaction(connection: sqlite3.Connection) -> None:
    for statement in _COMPACTION:
        connection.execute(statement)
    for guard in _GUARDS:
        connection.execute(guard.replace("$same", "id = NEW.id").replace("$t", "summary_calls"))
    _add_seals(connection, "summary_calls")


def _marks(connection: sqlite3.Connection) -> None:
    for statement in _MARKS:
        connection.execute(statement)


def _seals(connection: sqlite3.Connection) -> None:
    for statement in _SEALS:
        connection.execute(statement)
    for guard in _GUARDS:
        connection.execute(guard.replace("$same", "number = NEW.number").replace("$t", "tombstones"))
    for table in _SEALED:
        _add_seals(connection, table)
        connection.execute(f"DROP TRIGGER {table}_no_update")
    seal_existing(connection, _SEALED)
    for table in _SEALED:
        connection.execute(_GUARDS[0].replace("$t", table))


def _add_seals(connection: sqlite3.Connection, table: str) -> None:
    for statement in _SEAL_COLUMNS:
        connection.execute(statement.replace("$t", table))


def _redaction(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE bodies ADD COLUMN redacted BLOB NOT NULL DEFAULT x''")


# Who can write the file cannot sign a head; and what a body hashes to since its redaction is sealed like a row.
_SIGNATURES = (
    "ALTER TABLE chains ADD COLUMN signature BLOB NOT NULL DEFAULT x''",
    """CREATE TABLE redactions (
        seq INTEGER PRIMARY KEY, conversation TEXT NOT NULL, hash BLOB NOT NULL, mark BLOB NOT NULL,
        UNIQUE (conversation, hash))""",
)


def _signatures(connection: sqlite3.Connection) -> None:
    for statement in _SIGNATURES:
        connection.execute(statement)
    same = "conversation = NEW.conversation AND hash = NEW.hash"
    for guard in _GUARDS:
        connection.execute(guard.replace("$same", same).replace("$t", "redactions"))
    _add_seals(connection, "redactions")


_TEAMS = (
    """CREATE TABLE client_keys (
        id TEXT PRIMARY KEY, team TEXT NOT NULL, hash BLOB NOT NULL, created_at TEXT NOT NULL,
        revoked_at TEXT NOT NULL)""",
    "CREATE INDEX exchanges_of_tenant ON exchanges (tenant, id)",
)


def _teams(connection: sqlite3.Connection) -> None:
    for statement in _TEAMS:
        connection.execute(statement)


MIGRATIONS: tuple[Step, ...] = (
    *(_display, _working, _search, _seals, _compaction, _marks, _redaction, _signatures, _teams),
)


def version_of(connection: Database) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection, steps: Sequence[Step] = MIGRATIONS) -> None:
    """Bring the file up to date. A second process waits for the write lock and then finds each step done."""
    if version_of(connection) >= len(steps):
        return
    for number, step in enumerate(steps, start=1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            if version_of(connection) < number:
                step(connection)
                connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
