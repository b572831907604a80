#!/usr/bin/env python3
"""Writes requirements.txt and requirements-build.txt: every package with its version and the hashes of its wheels.

    python3.11 deploy/lock.py            # the newest versions that pyproject.toml allows
    python3.11 deploy/lock.py --keep     # the versions that are there, with whatever hashes are missing

Run it with the oldest supported Python: pip judges by it which dependencies are needed. The wheels are those of
CPython 3.11 to 3.13 on Linux, x86_64 and aarch64. No index is named: pip takes the packages from where you tell it to.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("postgres",)
PYTHONS = ("3.11", "3.12", "3.13")
MACHINES = ("x86_64", "aarch64")
GLIBCS = (*(f"manylinux_2_{minor}" for minor in (17, 24, 26, 27, 28, 31, 34)), "manylinux2014")
Lock = dict[str, tuple[str, set[str]]]  # name: (version, hashes)


def report(wanted: Sequence[str], pins: Mapping[str, str], python: str, machine: str) -> list[dict[str, Any]]:
    """What pip would install there, by its own account."""
    with tempfile.TemporaryDirectory() as folder:
        told, constraints = Path(folder) / "report.json", Path(folder) / "constraints.txt"
        constraints.write_text("".join(f"{name}=={version}\n" for name, version in pins.items()))
        platforms = [word for glibc in GLIBCS for word in ("--platform", f"{glibc}_{machine}")]
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed",
             "--only-binary=:all:", "--implementation", "cp", "--python-version", python, *platforms,
             "--target", str(Path(folder) / "none"), "--constraint", str(constraints), "--report", str(told), *wanted],
            check=True,
        )  # fmt: skip
        installed: list[dict[str, Any]] = json.loads(told.read_text())["install"]
        return installed


def lock(wanted: Sequence[str], pins: Mapping[str, str]) -> Lock:
    found: Lock = {}
    for machine in MACHINES:
        for python in PYTHONS:
            chosen = {**pins, **{name: version for name, (version, _) in found.items()}}
            for entry in report(wanted, chosen, python, machine):
                name = canonical(entry["metadata"]["name"])
                version, hashes = found.setdefault(name, (entry["metadata"]["version"], set()))
                if entry["metadata"]["version"] != version:
                    raise SystemExit(f"{name}: {version} has no wheel for Python {python} on {machine}")
                hashes.add(entry["download_info"]["archive_info"]["hashes"]["sha256"])
    return found


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def write(path: Path, found: Lock, why: str) -> None:
    lines = [
        f"# {why}",
        "# Made by deploy/lock.py; install with: pip install --require-hashes --only-binary :all: -r ...",
    ]
    for name, (version, hashes) in sorted(found.items()):
        lines.append(f"{name}=={version}" + "".join(f" \\\n    --hash=sha256:{one}" for one in sorted(hashes)))
    path.write_text("\n".join(lines) + "\n")


def pinned(path: Path) -> dict[str, str]:
    text = path.read_text() if path.exists() else ""
    return dict(re.findall(r"^([a-z0-9-]+)==([^\s\\]+)", text, flags=re.MULTILINE))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="keep the versions that are locked")
    keep = parser.parse_args().keep
    made = tomllib.loads((ROOT / "pyproject.toml").read_text())
    runs = [*made["project"]["dependencies"]]
    runs += [one for extra in EXTRAS for one in made["project"]["optional-dependencies"][extra]]
    builds = made["build-system"]["requires"]
    for name, wanted, why in (
        ("requirements.txt", runs, "What undercliff runs on, with the extra postgres."),
        ("requirements-build.txt", builds, "What its wheel is built with; it is not needed to run."),
    ):
        path = ROOT / "deploy" / name
        write(path, lock(wanted, pinned(path) if keep else {}), why)


if __name__ == "__main__":
    main()
