"""`undercliff estimate`, as it is called."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.proxy.evaluation.estimate.test_transcripts import TALK, lines
from tests.support.serve import ROOT


def run(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "proxy", "estimate", *arguments]
    return subprocess.run(command, input=given, capture_output=True, cwd=ROOT, timeout=120)


def test_a_file_and_standard_input(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_bytes(b"".join(lines(*TALK)))
    done = run(str(path), "--model", "gpt-5")
    assert done.returncode == 0, done.stderr
    assert b"1 transcript with 2 calls cost $0.00" in done.stdout and b"talk.jsonl" in done.stdout
    found = json.loads(run("-", "--json", given=path.read_bytes()).stdout)
    assert found["total"]["calls"] == 2 and found["transcripts"][0]["name"] == "standard input"


def test_what_is_wrong_is_said_in_a_line(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("no json")
    for arguments, named in (
        ([str(path)], "x.jsonl is no transcript"),
        ([str(tmp_path / "none")], "cannot read"),
        ([str(path), "--policy", "wishful"], "no policy"),
    ):
        done = run(*arguments)
        assert done.returncode and named.encode() in done.stderr and b"Traceback" not in done.stderr
    path.write_bytes(b"".join(lines(TALK[1])))
    assert b"no model was asked" in run(str(path)).stderr
