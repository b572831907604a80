"""`python -m proxy.config` prints config.example.toml."""

from __future__ import annotations

import sys

from proxy.config.example import example_toml

if __name__ == "__main__":
    sys.stdout.write(example_toml())
