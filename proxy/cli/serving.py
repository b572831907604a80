"""`serve` alone: what a server loads before it serves."""

from __future__ import annotations

from proxy.cli.root import application
from proxy.cli.running import serve

app = application((serve,))
