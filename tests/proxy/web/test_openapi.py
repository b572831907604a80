"""The document of the paths under /ctx/: it names what is served; schemathesis finds nothing that it does not say."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import Route

from proxy.admin import OWN_PATHS
from proxy.originals import PREFIX
from proxy.web.app import Web, WebParts
from proxy.web.openapi import document
from tests.proxy.web.test_app import KEY, filled, site

__all__ = ["filled"]  # the fixture
COMMAND = Path(sys.executable).parent / "schemathesis"


def test_it_names_every_path() -> None:
    web = Web(WebParts(None, None, None, None, None, "1"))  # type: ignore[arg-type]
    served = {route.path for route in web._app.routes if isinstance(route, Route)}
    known = set(document("1")["paths"])
    assert known == (served - {"/ctx"}) | OWN_PATHS | {"/ctx/login", f"{PREFIX}{{item}}"}


def test_it_is_shown_to_administrators_alone(filled: Path, tmp_path: Path) -> None:
    with site(filled, tmp_path, server__admin_key=KEY) as (proxy, _):
        assert httpx.get(f"{proxy.url}/ctx/openapi.json").status_code == 404
        assert told(proxy.url, KEY)["info"]["title"] == "undercliff"


def told(url: str, key: str) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{url}/ctx/openapi.json", headers={"authorization": f"Bearer {key}"}).json()
    return found


def with_examples(found: dict[str, Any], ids: dict[str, str]) -> dict[str, Any]:
    """Ids that exist, beside all that can be thought of."""
    for path, operations in found["paths"].items():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "path":
                    name = "window" if path.startswith("/ctx/w/") else parameter["name"]
                    parameter["example"] = ids[name]
    return found


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Any]:
    if not COMMAND.exists():
        pytest.skip("schemathesis is not installed here: ./tests/run installs it")

    def against(url: str, described: dict[str, Any], *options: str) -> str:
        path = tmp_path / "openapi.json"
        path.write_text(json.dumps(described))
        done = subprocess.run(
            [COMMAND, "run", path, "--url", url, "--workers", "2", "--max-examples", "12", "--seed", "4",
             "--generation-database", "none", "--warnings", "off", "--no-color", *options],
            capture_output=True, text=True, timeout=400, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        return done.stdout

    yield against


def test_schemathesis_as_an_administrator(filled: Path, tmp_path: Path, run: Any) -> None:
    with site(filled, tmp_path, server__admin_key=KEY) as (proxy, ids):
        described = with_examples(told(proxy.url, KEY), ids)
        # A request without the key gets 404 and not 401, as for what is not there: see the stranger below.
        checks = ("--checks", "all", "--exclude-checks", "ignored_auth,missing_required_header")
        run(proxy.url, described, *checks, "--header", f"Authorization: Bearer {KEY}")


def test_schemathesis_as_a_stranger(filled: Path, tmp_path: Path, run: Any) -> None:
    """Whatever it asks, nothing is shown: only health, readiness and the login answer otherwise than with 404."""
    with site(filled, tmp_path, server__admin_key=KEY) as (proxy, ids):
        described = with_examples(told(proxy.url, KEY), ids)
        for operations in described["paths"].values():
            for operation in operations.values():
                if operation.get("security") is None:
                    operation["responses"] = {"404": operation["responses"]["404"]}
        run(proxy.url, described, "--checks", "not_a_server_error,status_code_conformance,response_schema_conformance")
