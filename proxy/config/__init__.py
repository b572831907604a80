"""Settings: frozen sections, read from TOML and the command line. The only package that reads the environment."""

from proxy.config.example import example_toml, settings_table
from proxy.config.loading import check_serving, load_config
from proxy.config.sections import (
    CompactionConfig,
    Config,
    ExpandConfig,
    LogConfig,
    ModelConfig,
    OverflowConfig,
    PolicyConfig,
    ResponsesConfig,
    ServerConfig,
    StoreConfig,
    TeamConfig,
    UpstreamConfig,
    WindowConfig,
)

__all__ = [
    "CompactionConfig",
    "Config",
    "ExpandConfig",
    "LogConfig",
    "ModelConfig",
    "OverflowConfig",
    "PolicyConfig",
    "ResponsesConfig",
    "ServerConfig",
    "StoreConfig",
    "TeamConfig",
    "UpstreamConfig",
    "WindowConfig",
    "check_serving",
    "example_toml",
    "load_config",
    "settings_table",
]
