from __future__ import annotations

import subprocess
import sys

from proxy.config import example_toml


def test_it_prints_the_example() -> None:
    done = subprocess.run([sys.executable, "-m", "proxy.config"], capture_output=True, text=True, check=True)
    assert done.stdout == example_toml()
