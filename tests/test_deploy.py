"""What `deploy/` holds, checked by the tools that will read it, and against the product: names, times, settings."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from itertools import product
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from prometheus_client.core import Metric
from typer.main import get_command

from proxy.app import SETTLE_S
from proxy.cli.commands import app
from proxy.cli.running import check
from proxy.config import Config, ServerConfig, load_config
from proxy.metrics import Meter
from tests.bench.topology import caddyfile

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
MANIFESTS = [
    (path.name, entry)
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    if path.name != "kustomization.yaml"
    for entry in yaml.safe_load_all(path.read_text())
]
COMPOSE = {path.name: yaml.safe_load(path.read_text()) for path in sorted(DEPLOY.glob("compose.*.yaml"))}
SERVICE_KEYS = {
    *(
        "build",
        "image",
        "restart",
        "depends_on",
        "environment",
        "secrets",
        "networks",
        "ports",
        "volumes",
        "healthcheck",
    ),
    *("read_only", "tmpfs", "cap_drop", "security_opt", "pids_limit", "mem_limit", "cpus", "shm_size", "user"),
    *("stop_grace_period", "stop_signal"),
}
"""What the Compose specification knows of a service, as far as it is used here: a mistyped one is found."""
KEYS = {
    "UNDERCLIFF_CLIENT_KEYS": "one,two",
    "UNDERCLIFF_ADMIN_KEY": "three",
    "OPENAI_API_KEY": "four",
    "POSTGRES_PASSWORD": "five",
}


def tool(name: str, *places: str) -> str:
    found = shutil.which(name) or next((place for place in places if Path(place).exists()), None)
    if found is None:
        pytest.skip(f"{name} is not installed here")
    return found


def run(*command: str | Path, **options: Any) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=60, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def manifest(kind: str) -> dict[str, Any]:
    return next(entry for _, entry in MANIFESTS if entry["kind"] == kind)


def dockerfile() -> dict[str, list[str]]:
    """Instructions by name, their lines joined."""
    text = re.sub(r"(?m)^#.*\n", "", (DEPLOY / "Dockerfile").read_text()).replace("\\\n", " ")
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if name:
            found.setdefault(name, []).append(rest.strip())
    return found


# -- settings ----------------------------------------------------------------------------------------


def settings(name: str, tmp_path: Path) -> Config:
    if name == "kubernetes":
        text = manifest("ConfigMap")["data"]["config.toml"]
    else:
        text = (DEPLOY / f"config.{name}.toml").read_text()
    path = tmp_path / "config.toml"
    path.write_text(text)
    return load_config(path, environ=KEYS)


@pytest.mark.parametrize("name", ["sqlite", "postgres", "kubernetes"])
def test_settings_can_be_served(name: str, tmp_path: Path) -> None:
    config = settings(name, tmp_path)
    check(config)
    assert config.server.client_keys == ("one", "two") and config.server.admin_key == "three"
    assert config.server.shutdown_grace_s == 60 and config.upstream.key == "four"


def test_the_two_files_for_replicas_differ_in_addresses_alone(tmp_path: Path) -> None:
    compose, kubernetes = settings("postgres", tmp_path), settings("kubernetes", tmp_path)
    assert compose.upstream == kubernetes.upstream and compose.log == kubernetes.log
    assert compose.store.spool == kubernetes.store.spool


# -- the image ---------------------------------------------------------------------------------------


def test_dockerfile_by_hadolint() -> None:
    run(tool("hadolint", f"{Path(sys.executable).parent}/hadolint"), DEPLOY / "Dockerfile")


def test_the_image_runs_as_nobody_and_serves() -> None:
    made = dockerfile()
    assert len(made["FROM"]) == 2 and all("slim" in line for line in made["FROM"])
    assert made["USER"] == ["10001:10001"] and made["STOPSIGNAL"] == ["SIGTERM"]
    assert "/ctx/health" in made["HEALTHCHECK"][0] and made["EXPOSE"] == [str(ServerConfig().port)]
    words = [*json.loads(made["ENTRYPOINT"][0]), *json.loads(made["CMD"][0])]
    assert words[0] == "undercliff"
    with get_command(app).make_context("undercliff", words[1:], resilient_parsing=True):
        pass


def test_the_build_sees_what_it_copies_and_no_more() -> None:
    shown = {line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {word for line in dockerfile()["COPY"] if "--from" not in line for word in line.split()[:-1]}
    assert copied == shown and all((ROOT / name).exists() for name in copied)


def test_the_health_check_of_the_image_answers(tmp_path: Path) -> None:
    line = dockerfile()["HEALTHCHECK"][0]
    command = json.loads(line[line.index("[") :])
    compile(command[2], "healthcheck", "exec")
    assert str(ServerConfig().port) in command[2]


# -- locked requirements -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-build.txt"])
def test_everything_needed_is_locked_by_hash(name: str) -> None:
    made = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = made["build-system"]["requires"]
    if name == "requirements.txt":
        wanted = made["project"]["dependencies"] + made["project"]["optional-dependencies"]["postgres"]
    text = (DEPLOY / name).read_text()
    pins = dict(re.findall(r"(?m)^([a-z0-9-]+)==([^\s\\]+)", text))
    for line in wanted:
        need = Requirement(line)
        assert need.specifier.contains(pins[canonicalize_name(need.name)]), line
    blocks = re.split(r"(?m)^(?=[a-z0-9-]+==)", text)[1:]
    assert len(blocks) == len(pins) and all("--hash=sha256:" in block for block in blocks)
    assert "://" not in text


# -- Kubernetes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", [entry for _, entry in MANIFESTS], ids=[f"{n}-{e['kind']}" for n, e in MANIFESTS])
def test_manifests_by_schema(entry: dict[str, Any]) -> None:
    assert kubernetes_validate.validate(entry, kubernetes_validate.latest_version(), strict=True)


def test_kustomization_names_every_manifest() -> None:
    made = yaml.safe_load((DEPLOY / "kubernetes/kustomization.yaml").read_text())
    assert sorted(made["resources"]) == sorted({name for name, _ in MANIFESTS})


def test_the_pod_fits_the_settings_and_the_secrets(tmp_path: Path) -> None:
    config = settings("kubernetes", tmp_path)
    pod = manifest("StatefulSet")["spec"]["template"]["spec"]
    container = pod["containers"][0]
    given = {entry["name"] for entry in container["env"]}
    assert set(KEYS) <= given
    assert (
        pod["terminationGracePeriodSeconds"] > config.server.drain_delay_s + config.server.shutdown_grace_s + SETTLE_S
    )
    probe = container["readinessProbe"]
    assert config.server.drain_delay_s > probe["periodSeconds"] * probe["failureThreshold"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    claims = [claim["metadata"]["name"] for claim in manifest("StatefulSet")["spec"]["volumeClaimTemplates"]]
    assert set(mounts) == {volume["name"] for volume in pod["volumes"]} | set(claims)
    assert config.store.spool.startswith(mounts["data"]) and "data" in claims
    assert config.store.secret_file.startswith(mounts["secret"])
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["path"] in ("/ctx/health", "/ctx/ready")
    secure = container["securityContext"]
    assert secure["readOnlyRootFilesystem"] and not secure["allowPrivilegeEscalation"]
    assert secure["capabilities"] == {"drop": ["ALL"]} and pod["securityContext"]["runAsNonRoot"]


def test_selectors_meet_their_pods() -> None:
    labels = manifest("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    for _, entry in MANIFESTS:
        spec = entry.get("spec", {})
        found = spec.get("podSelector") or spec.get("selector")
        if found:
            assert found.get("matchLabels", found) == labels, entry["kind"]
    target = manifest("HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("StatefulSet", manifest("StatefulSet")["metadata"]["name"])


# -- Compose -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMPOSE)
def test_compose_files_by_compose(name: str) -> None:
    compose = [tool("docker"), "compose", "-f", DEPLOY / name, "config", "--quiet"]
    if subprocess.run([*compose[:2], "version"], capture_output=True).returncode:
        pytest.skip("docker has no compose here")
    run(*compose, env={**os.environ, **KEYS})


@pytest.mark.parametrize("name", COMPOSE)
def test_compose_files_name_what_exists(name: str) -> None:
    made = COMPOSE[name]
    assert set(made) <= {"name", "services", "networks", "volumes", "secrets"} | {
        key for key in made if key[:2] == "x-"
    }
    for service in made["services"].values():
        assert set(service) <= SERVICE_KEYS, set(service) - SERVICE_KEYS
        for mount in service.get("volumes", ()):
            if isinstance(mount, dict):
                assert (DEPLOY / mount["source"]).exists() and mount["read_only"]
            else:
                assert mount.partition(":")[0] in made["volumes"]
        assert set(service.get("networks", ())) <= set(made.get("networks", ()))
        assert set(service.get("depends_on", ())) <= set(made["services"])
        for waited, how in service.get("depends_on", {}).items():
            has_check = "healthcheck" in made["services"][waited] or "build" in made["services"][waited]
            assert how["condition"] == "service_healthy" and has_check
        image = service["image"]
        assert ":" in image and not image.endswith(":latest")
        assert "no-new-privileges:true" in service["security_opt"]
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:")  # the front server is what others reach


@pytest.mark.parametrize(("name", "kind"), [("compose.sqlite.yaml", "sqlite"), ("compose.postgres.yaml", "postgres")])
def test_compose_files_fit_the_settings(name: str, kind: str, tmp_path: Path) -> None:
    config = settings(kind, tmp_path)
    for service in COMPOSE[name]["services"].values():
        if "build" not in service:
            continue
        text = (DEPLOY / f"config.{kind}.toml").read_text()
        assert set(re.findall(r"\$\{(\w+)\}", text)) <= set(service["environment"])
        assert float(service["stop_grace_period"].rstrip("s")) > (
            config.server.drain_delay_s + config.server.shutdown_grace_s + SETTLE_S
        )
        assert service["read_only"] and service["cap_drop"] == ["ALL"]
        spool = Path(config.store.spool if kind == "postgres" else "/var/lib/undercliff")  # the data's own place
        places = [Path(mount.split(":")[1]) for mount in service["volumes"] if isinstance(mount, str)]
        assert any(place == spool or place in spool.parents for place in places)


def test_only_the_balancer_s_network_is_believed(tmp_path: Path) -> None:
    subnet = COMPOSE["compose.postgres.yaml"]["networks"]["front"]["ipam"]["config"][0]["subnet"]
    assert settings("postgres", tmp_path).server.forwarded_allow_ips == (subnet,)


# -- front servers -----------------------------------------------------------------------------------


def test_nginx_reads_its_files(tmp_path: Path) -> None:
    nginx = tool("nginx", "/usr/sbin/nginx")
    shutil.copy(DEPLOY / "nginx/proxy.conf", tmp_path)
    balancer = (
        (DEPLOY / "nginx/balancer.conf").read_text().replace("replica-1", "localhost").replace("replica-2", "localhost")
    )
    (tmp_path / "balancer.conf").write_text(balancer.replace("/dev/stdout", str(tmp_path / "access.log")))
    run(nginx, "-t", "-q", "-p", tmp_path, "-c", tmp_path / "balancer.conf")


def test_nginx_reads_its_file_for_tls(tmp_path: Path) -> None:
    nginx, openssl = tool("nginx", "/usr/sbin/nginx"), tool("openssl")
    run(openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=llm.example.com",
        "-keyout", tmp_path / "privkey.pem", "-out", tmp_path / "fullchain.pem")  # fmt: skip
    shutil.copy(DEPLOY / "nginx/proxy.conf", tmp_path)
    tls = (DEPLOY / "nginx/tls.conf").read_text().replace("/etc/ssl/llm.example.com", str(tmp_path))
    (tmp_path / "tls.conf").write_text(tls)
    http = f"http {{ access_log off; include {tmp_path}/tls.conf; }}"
    whole = f"pid {tmp_path}/nginx.pid; error_log stderr; events {{}} {http}"
    (tmp_path / "nginx.conf").write_text(whole)
    run(nginx, "-t", "-q", "-p", tmp_path, "-c", tmp_path / "nginx.conf")


def test_nginx_does_not_buffer_and_lets_in_what_we_take() -> None:
    lines = re.sub(r"#.*", "", (DEPLOY / "nginx/proxy.conf").read_text())
    said = {words[0]: words[1:] for line in lines.split(";") if (words := shlex.split(line))}
    assert said["proxy_buffering"] == said["proxy_request_buffering"] == ["off"]
    assert said["client_max_body_size"] == [f"{ServerConfig().max_body_mb}m"]
    assert said["proxy_http_version"] == ["1.1"]


def test_caddy_reads_its_file(tmp_path: Path) -> None:
    caddy = tool("caddy")
    home = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    text = caddyfile()
    (tmp_path / "Caddyfile").write_text(text)
    run(caddy, "validate", "--adapter", "caddyfile", "--config", tmp_path / "Caddyfile", env=home)
    assert "flush_interval -1" in text and f"max_size {ServerConfig().max_body_mb}MB" in text


# -- systemd -----------------------------------------------------------------------------------------


def test_the_unit_by_systemd(tmp_path: Path) -> None:
    analyze = tool("systemd-analyze")
    unit = tmp_path / "undercliff.service"
    unit.write_text((DEPLOY / "undercliff.service").read_text().replace("/opt/undercliff/bin/undercliff", "/bin/true"))
    said = run(analyze, "verify", "--man=no", unit)
    assert "undercliff.service" not in said, said
    said = run(analyze, "security", "--offline=true", "--no-pager", "--threshold=25", unit)
    assert "OK" in said


def test_the_unit_waits_for_running_replies() -> None:
    text = (DEPLOY / "undercliff.service").read_text()
    wait = int(re.search(r"TimeoutStopSec=(\d+)", text)[1])  # type: ignore[index]
    assert wait > ServerConfig().shutdown_grace_s + SETTLE_S


# -- what is watched ---------------------------------------------------------------------------------


def exposed() -> set[str]:
    """Names of every series, as a scraper sees them."""
    families: list[Metric] = list(Meter().families(is_degraded=False))
    ends = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
    return {family.name + end for family in families for end in ends[family.type]}


def test_the_dashboard_shows_series_that_exist_and_all_of_them() -> None:
    board = json.loads((DEPLOY / "grafana.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    used = set(re.findall(r"undercliff_\w+", " ".join(asked)))
    assert used <= exposed()
    shown = {re.sub(r"_(bucket|sum|count|total)$", "", name) for name in used}
    assert shown == {re.sub(r"_(bucket|sum|count|total)$", "", name) for name in exposed()}
    places = [panel["gridPos"] for panel in board["panels"]]
    for one, other in product(places, places):
        if one is not other:  # no panel lies on another
            beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
            assert beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]


def test_alerts_watch_series_that_exist() -> None:
    rules = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"][0]["rules"]
    for rule in rules:
        assert set(re.findall(r"undercliff_\w+", rule["expr"])) <= exposed()
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
        assert rule["alert"] in (DEPLOY / "README.md").read_text()


def test_alerts_by_promtool() -> None:
    run(tool("promtool"), "check", "rules", DEPLOY / "alerts.yaml")
