"""Every setting with its default and one line of why. This table drives loading, checks and the example file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, TypeAlias

Default: TypeAlias = bool | int | float | str | tuple[str, ...] | None


def setting(
    default: Default,
    help: str,
    *,
    choices: tuple[str, ...] = (),
    low: float | None = None,
    high: float | None = None,
    is_secret: bool = False,
) -> Any:
    """A documented setting. Numbers stay within `low` and `high`, texts within `choices` when given."""
    metadata = {"help": help, "choices": choices, "low": low, "high": high}
    return field(default=default, repr=not is_secret, metadata=metadata)


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Where clients reach us, and who may."""

    host: str = setting(
        "127.0.0.1", "Address to listen on. Anything beyond loopback needs client_keys or allow_public."
    )
    port: int = setting(4272, "Port to listen on; 0 takes any free one.", low=0, high=65535)
    allow_public: bool = setting(False, "Listen beyond loopback without client keys. Anyone who reaches it can use it.")
    client_keys: tuple[str, ...] = setting(
        (), 'Keys that clients must present; write "${NAME}" to read them from the environment.', is_secret=True
    )
    admin_key: str = setting(
        "",
        "Key for the page at /ctx/, exports and metrics; without one only a private, loopback server shows them.",
        is_secret=True,
    )
    max_body_mb: int = setting(256, "Largest request body, after decompression.", low=1)
    keep_alive_s: float = setting(75.0, "Idle client connections stay open this long.", low=1)
    stalled_client_s: float = setting(
        300.0, "Cut a client that takes nothing of what is sent to it for this long; 0 is never. Linux only.", low=0
    )
    head_timeout_s: float = setting(
        30.0, "Cut a client that takes longer than this to send a request's head; 0 is never.", low=0
    )
    body_timeout_s: float = setting(
        60.0, "Cut a client that sends less than 1 KB of a request's body in this time; 0 is never.", low=0
    )
    forwarded_allow_ips: tuple[str, ...] = setting(
        (), "Addresses and networks of front servers: their X-Forwarded-For and -Proto are believed, and end here."
    )
    drain_delay_s: float = setting(
        0.0, "On shutdown, /ctx/ready says no for so long while all is still served: balancers notice.", low=0
    )
    shutdown_grace_s: float = setting(10.0, "On shutdown, running replies get this long to finish.", low=0)
    hold_head_s: float = setting(
        1.0,
        "Longest wait for a reply's first content before its head is passed on; overflow is hidden until then.",
        low=0,
    )
    heartbeat_s: float = setting(0.0, "Send an SSE comment after this much silence in a stream; 0 is off.", low=0)


@dataclass(frozen=True, slots=True)
class UpstreamConfig:
    """The provider: how to reach it, and with whose key."""

    url: str = setting("https://api.openai.com/v1", "The provider's base URL, as its documentation gives it.")
    key_env: str = setting("", "Environment variable with the key to use for everyone; empty passes the client's own.")
    connect_timeout_s: float = setting(10.0, "Give up connecting after this long.", low=0.1)
    read_timeout_s: float = setting(900.0, "Give up on a reply after this much silence.", low=1)
    keepalive_s: float = setting(
        4.0, "Reuse an idle connection for this long; most servers close theirs after 5 seconds.", low=0
    )
    max_connections: int = setting(1000, "Most connections to the provider at one time.", low=1)
    trust_env: bool = setting(False, "Obey HTTP_PROXY, HTTPS_PROXY and NO_PROXY. Loopback is always reached directly.")
    verify_tls: bool = setting(True, "Check the provider's certificate.")
    ask_usage: bool = setting(True, "Ask for usage in streams; the extra chunk is kept from clients that did not ask.")
    key: str = field(default="", repr=False)  # what the loader found in `key_env`

    @property
    def is_managed(self) -> bool:
        """True if one key is used for everyone, and a client's own key never goes upstream."""
        return bool(self.key_env)


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Where every word is kept."""

    url: str = setting(
        "", "A file path, sqlite:///path or postgresql://...; empty is undercliff.db in the data folder."
    )
    enabled: bool = setting(True, "Keep conversations. Without a store, requests pass through and nothing is reduced.")
    synchronous: str = setting(
        "full", "SQLite durability: full survives a power cut, normal only a crash.", choices=("full", "normal")
    )
    queue_mb: int = setting(64, "Writes waiting for the disk; beyond it requests wait for the store.", low=1)
    redact: bool = setting(False, "Replace what looks like a key or password before a message is kept; marked as such.")
    secret_file: str = setting(
        "", "PostgreSQL: the key that all replicas share; empty is undercliff.secret in the data folder."
    )
    spool: str = setting(
        "", "PostgreSQL: folder for writes while the database is away; empty is spool in the data folder."
    )
    spool_mb: int = setting(1024, "PostgreSQL: as much may wait there; beyond it a gap is recorded.", low=1)
    required: bool = setting(True, "Refuse to start when the store cannot be opened; false runs without it.")


@dataclass(frozen=True, slots=True)
class PolicyConfig:
    """Which policy fills the window."""

    name: str = setting("sticky", "sticky, last_n, passthrough, an installed policy, or module:attribute.")
    # Handed to the policy as they are; it checks them itself.
    options: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class WindowConfig:
    """How large the model's window may grow, and what is never reduced."""

    mask_chars: int = setting(500, "Tool output longer than this may be masked, once the model has seen it.", low=0)
    compact_at: int = setting(
        0, "Billed input tokens that call for compaction; 0 is 0.735 of the cliff or window.", low=0
    )
    target_share: float = setting(
        0.6, "Compaction shrinks a window to this share of the boundary.", low=0.05, high=0.95
    )
    guard_cliff_share: float = setting(
        0.97, "Inside a turn, compact before a request passes this share of the price cliff.", low=0.1, high=1
    )
    guard_window_share: float = setting(
        0.86, "Inside a turn, compact before a request passes this share of the model's window.", low=0.1, high=1
    )
    margin_share: float = setting(0.02, "Share of the window left free, for counting errors.", low=0, high=0.5)
    reply_allowance: int = setting(
        0, "Tokens kept free for the reply; 0 is the request's own cap, else a share of the window.", low=0
    )
    never_mask: tuple[str, ...] = setting(
        ("AGENTS.md", "CLAUDE.md", "SKILL.md"), "File name patterns whose tool results are never reduced."
    )


@dataclass(frozen=True, slots=True)
class ExpandConfig:
    """The tool by which the model fetches what was left out of its window. The agent never sees its calls."""

    enabled: bool = setting(True, "Offer it at all.")
    name: str = setting("ctx_expand", "Its name; where a client has a tool of that name, it is not offered.")
    offer: str = setting(
        "with_reduction",
        "When: with the first window that leaves something out (costs one cache break), or always (costs none).",
        choices=("with_reduction", "always"),
    )
    max_tokens: int = setting(4000, "Most tokens that one call returns; what is left out is named.", low=50)
    rounds: int = setting(8, "So many times one reply may fetch something before the model is told to go on.", low=1)
    off_models: tuple[str, ...] = setting((), "Model name patterns that it is not offered to.")
    off_teams: tuple[str, ...] = setting((), "Tenants, by the beginning of their id, that it is not offered to.")


@dataclass(frozen=True, slots=True)
class CompactionConfig:
    """What writes the summaries of folded messages. By default rules do, and no model is asked."""

    summarizer: str = setting(
        "digest",
        "digest (rules), upstream (a model there), provider (its own compaction, for Responses), or module:function.",
    )
    model: str = setting("", "The model that summarizes; empty is the conversation's own.")
    url: str = setting("", "Another provider's base URL for it; empty is the same provider.")
    key_env: str = setting("", "Environment variable with the key for it; empty is the client's own key.")
    deadline_s: float = setting(60.0, "Give a summary up after this long.", low=0.1)
    wait_s: float = setting(1.0, "A turn that comes before its summaries waits this long for them.", low=0)
    attempts: int = setting(2, "Drafts to ask for before a bad one is given up.", low=1, high=5)
    retry_s: float = setting(60.0, "First pause after a failure; it doubles with every further one.", low=0)
    key: str = field(default="", repr=False)  # what the loader found in `key_env`


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """What the operator knows better about models whose name matches a pattern. None leaves it to the built-in data."""

    window: int | None = setting(None, "Context window in tokens.", low=1)
    cliff: int | None = setting(None, "Input tokens beyond which the price jumps; 0 says there is no cliff.", low=0)
    compact_at: int | None = setting(None, "Billed input tokens that call for compaction.", low=1)
    input_price: float | None = setting(None, "Dollars per million input tokens.", low=0)
    cached_price: float | None = setting(None, "Dollars per million cached input tokens.", low=0)
    write_price: float | None = setting(None, "Dollars per million input tokens written to the cache.", low=0)
    output_price: float | None = setting(None, "Dollars per million output tokens.", low=0)


@dataclass(frozen=True, slots=True)
class ResponsesConfig:
    """Responses API: requests that name what the provider keeps."""

    takeover: str = setting(
        "safe",
        "safe: where all behind a previous_response_id is here, a smaller list may go in its place.",
        choices=("safe", "off"),
    )
    compact_threshold: bool = setting(
        False, "Ask the provider to compact what only it holds, once that is as large as compact_at."
    )
    count_input: bool = setting(
        False, "Near a limit, have the provider count a request (/responses/input_tokens) before it is sent."
    )


@dataclass(frozen=True, slots=True)
class OverflowConfig:
    """More ways to recognise a provider's refusal for length."""

    patterns: tuple[str, ...] = setting((), "More regular expressions that mean: too long for this model.")
    vetoes: tuple[str, ...] = setting((), "More regular expressions that mean: not about length after all.")


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The log on stderr: ids and counts, never bodies or keys."""

    format: str = setting("console", "console for people, json for machines.", choices=("console", "json"))
    otel: bool = setting(False, "Send a span for each call to OpenTelemetry, as OTEL_* variables say; extra otel.")
    level: str = setting("info", "Least level to write.", choices=("debug", "info", "warning", "error"))


@dataclass(frozen=True, slots=True)
class TeamConfig:
    """One team. Whatever else it sets, by the names that the sections have, holds for its requests alone.

    Its keys are made by `undercliff keys create NAME`; without a provider key of its own, or of [upstream], it must
    say that its clients bring theirs.
    """

    pass_through: bool = setting(
        False, "Clients bring the provider's key themselves; the team's key then comes in x-undercliff-key."
    )
    allowed_models: tuple[str, ...] = setting((), "Model name patterns that it may call; empty is all.")
    requests_per_day: int = setting(0, "Most requests in a UTC day; 0 is any number.", low=0)
    tokens_per_day: int = setting(0, "Most billed tokens in a UTC day, input and output; 0 is any number.", low=0)
    dollars_per_day: float = setting(0.0, "Most dollars in a UTC day, by the price data; 0 is any sum.", low=0)
    client_keys: tuple[str, ...] = setting((), 'Keys beside those of the store; write "${NAME}".')
    config: Config | None = None  # everything as it holds for this team


@dataclass(frozen=True, slots=True)
class Config:
    """All sections. Hand a component its own section, never the whole."""

    server: ServerConfig = field(default_factory=ServerConfig)
    upstream: UpstreamConfig = field(default_factory=UpstreamConfig)
    store: StoreConfig = field(default_factory=StoreConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    window: WindowConfig = field(default_factory=WindowConfig)
    expand: ExpandConfig = field(default_factory=ExpandConfig)
    models: Mapping[str, ModelConfig] = field(default_factory=lambda: MappingProxyType({}))
    responses: ResponsesConfig = field(default_factory=ResponsesConfig)
    compaction: CompactionConfig = field(default_factory=CompactionConfig)
    overflow: OverflowConfig = field(default_factory=OverflowConfig)
    log: LogConfig = field(default_factory=LogConfig)
    teams: Mapping[str, TeamConfig] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def secrets(self) -> tuple[str, ...]:
        """Every key we know, for the log to mask."""
        own = [*self.server.client_keys, self.server.admin_key]
        for team in self.teams.values():
            own += [*team.client_keys, *(team.config.secrets if team.config is not None else ())]
        return tuple(key for key in (*own, self.upstream.key, self.compaction.key) if key)

    def model(self, name: str) -> ModelConfig:
        """What `[models]` says about a model. Every matching pattern counts; the longer one wins a setting."""
        merged: dict[str, Any] = {}
        for pattern in sorted(self.models, key=lambda text: (len(text), text)):
            if fnmatchcase(name, pattern):
                entry = self.models[pattern]
                merged.update({key: value for key in MODEL_KEYS if (value := getattr(entry, key)) is not None})
        return ModelConfig(**merged)


SECTIONS: Mapping[str, type] = MappingProxyType(
    {
        "server": ServerConfig,
        "upstream": UpstreamConfig,
        "store": StoreConfig,
        "policy": PolicyConfig,
        "window": WindowConfig,
        "responses": ResponsesConfig,
        "expand": ExpandConfig,
        "compaction": CompactionConfig,
        "overflow": OverflowConfig,
        "log": LogConfig,
    }
)
TEAM_SECTIONS = ("upstream", "policy", "window", "responses", "expand", "compaction", "models")
"""What a team may have otherwise than the others."""
MODEL_KEYS = tuple(entry.name for entry in fields(ModelConfig))


def settings_of(section: type) -> dict[str, Any]:
    """The operator's settings of a section by name, in order, as dataclass fields."""
    return {entry.name: entry for entry in fields(section) if "help" in entry.metadata and entry.default is not MISSING}
