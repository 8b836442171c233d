"""The Helm chart: Helm renders it, each object fits the schema of its kind, and Keyrail serves with what it configures.

Helm and the schemas of Kubernetes come with the extra `deploy`. Of the kinds of the Prometheus Operator, and of an
installation in a cluster, there is nothing to be had here: those objects are only read.
"""

from __future__ import annotations

import re
import shutil
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.net.config.client_auth import ClientAuth
from proxy.net.config.settings import Settings
from proxy.server.config import load_settings
from tests.engines import Engine
from tests.net.certificates import authority, issue
from tests.resp import Address, Wire
from tests.server.running import serve

pytestmark = pytest.mark.source
CHART = Path(__file__).parents[2] / "deploy" / "helm" / "keyrail"
KUBERNETES = ("1.25", "1.33")
"""The oldest version that the chart asks for, and a new one."""
NOT_OF_KUBERNETES = {"PrometheusRule", "ServiceMonitor"}

Objects = dict[str, dict[str, Any]]

helm = pytest.importorskip("helm_python", reason="Helm is not installed here: pip install 'keyrail[deploy]'")
schemas = pytest.importorskip("kubernetes_validate", reason="the schemas of Kubernetes are not installed here")

MONITORING = {name: {"enabled": True} for name in ("serviceMonitor", "prometheusRule", "dashboard", "networkPolicy")}
EVERYTHING = {
    **MONITORING,
    "upstream": "rediss://redis:6379/0?ssl_cert_reqs=required",
    "passwordSecret": {"name": "redis-password"},
    "upstreamTLS": {"caSecret": {"name": "redis-ca"}, "certificateSecret": "redis-client"},
    "clientAuth": "upstream",
    "tls": {"secretName": "certificate", "clientCASecret": {"name": "client-ca"}},
    "tokenSecret": {"name": "admin-token"},
    "policyText": "keyrail: 1\nrules:\n  no-flush: {refuse: [FLUSHALL], mode: enforce}\n",
    "options": {"workers": 2, "redact": "shape"},
    "extraArgs": ["--traces", "10"],
    "extraEnv": [{"name": "KEYRAIL_LOG_FORMAT", "value": "json"}],
    "extraVolumes": [{"name": "more", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
    "stateVolume": {"emptyDir": {"sizeLimit": "128Mi"}},
    "imagePullSecrets": [{"name": "registry"}],
    "podLabels": {"team": "data"},
    "podAnnotations": {"note": "x"},
    "serviceAccountName": "keyrail",
    "priorityClassName": "high",
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
}
SECRETS = {
    "redis": "redis-password",
    "redis-ca": "redis-ca",
    "redis-tls": "redis-client",
    "clients": "client-password",
    "tls": "certificate",
    "client-ca": "client-ca",
    "admin": "admin-token",
}
"""The folder of each Secret in /run/secrets."""


def objects(rendered: dict[str, str]) -> Iterator[dict[str, Any]]:
    for text in rendered.values():
        yield from filter(None, yaml.safe_load_all(text))


def render(values: dict[str, Any]) -> Objects:
    """The objects by kind; the ConfigMap is the one of the options."""
    found = objects(helm.Chart.load(CHART).render(values, name="shop"))
    return {each["kind"]: each for each in found if not each["metadata"]["name"].endswith("-dashboard")}


def config(rendered: Objects) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(rendered["ConfigMap"]["data"]["keyrail.yaml"])
    return found


def pod(rendered: Objects) -> dict[str, Any]:
    found: dict[str, Any] = rendered["Deployment"]["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["as it is", "with everything"])
@pytest.mark.parametrize("version", KUBERNETES)
def test_each_object_fits_the_schema_of_its_kind(values: dict[str, Any], version: str) -> None:
    kinds = set()
    for each in objects(helm.Chart.load(CHART).render(values, name="shop")):
        kinds.add(each["kind"])
        if each["kind"] not in NOT_OF_KUBERNETES:
            schemas.validate(each, version, strict=True)
    assert kinds >= {"ConfigMap", "Deployment", "PodDisruptionBudget", "Service"}
    if values:
        assert kinds >= {*NOT_OF_KUBERNETES, "NetworkPolicy"}


def test_helm_finds_nothing_wrong() -> None:
    told = helm.lint(CHART, strict=True)
    assert told["errors"] == []
    assert {message["error"] for message in told["messages"]} <= {"icon is recommended"}


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"clientauth": "upstream"}, "clientauth"),
        ({"clientAuth": "redis"}, "clientAuth"),
        ({"tls": {"secret": "x"}}, "secret"),
        ({"upstream": "redis:6379"}, "upstream"),
        ({"options": {"listen": "redis://0.0.0.0:6380"}}, "options.listen: the chart's own values set it"),
        ({"upstreamTLS": {"caSecret": {"name": "x"}}}, "upstreamTLS needs an upstream that begins with rediss"),
        ({"tls": {"clientCASecret": {"name": "x"}}}, "tls.clientCASecret needs tls.secretName"),
    ],
)
def test_values_that_would_have_no_effect_are_refused(values: dict[str, Any], text: str) -> None:
    with pytest.raises(helm.HelmError, match=re.escape(text)):
        render(values)


@pytest.mark.parametrize("upstream", ["redis+cluster://n:1,m:2", "rediss+sentinel://s:1,t:2/mymaster", "unix:///redis"])
def test_each_kind_of_upstream(upstream: str) -> None:
    assert config(render({"upstream": upstream}))["upstream"] == upstream


def test_the_memory_of_the_defaults_fits_into_the_limit() -> None:
    rendered = render({})
    limit = pod(rendered)["containers"][0]["resources"]["limits"]["memory"]
    options = config(rendered)
    buffers = int(options["buffer_limit"].removesuffix("MB")) * int(options["workers"])
    start = 61 + 64 + 42 * int(options["workers"])  # as docs/operations.md has it, and --traffic-memory
    assert start + buffers < int(limit.removesuffix("Mi"))


def test_every_file_that_is_named_is_mounted_from_its_secret() -> None:
    for more in ({}, {"clientAuth": "none", "clientPasswordSecret": {"name": "client-password"}}):
        rendered = render(EVERYTHING | more)
        (container,) = pod(rendered)["containers"]
        volumes = {each["name"]: each for each in pod(rendered)["volumes"]}
        mounts = {each["mountPath"]: volumes[each["name"]] for each in container["volumeMounts"]}
        text = rendered["ConfigMap"]["data"]["keyrail.yaml"]
        named = set(re.findall(r"/run/secrets/([a-z-]+)/", text))
        assert named == set(SECRETS) - ({"clients"} if not more else set())
        for folder in named:
            assert mounts[f"/run/secrets/{folder}"]["secret"] == {"secretName": SECRETS[folder]}
        for file in re.findall(r"(/(?!run/secrets)(?:etc|var)/\S+)", text):
            assert {file, str(Path(file).parent)} & mounts.keys()


def test_the_config_is_one_that_keyrail_takes(tmp_path: Path) -> None:
    def settings_of(rendered: Objects) -> Settings:
        file = tmp_path / "keyrail.yaml"
        file.write_text(yaml.safe_dump(config(rendered)))
        return load_settings({"config": [str(file)]}, {})

    for values in ({}, EVERYTHING):
        rendered = render(values)
        settings = settings_of(rendered)
        assert settings.shutdown_delay + settings.drain < pod(rendered)["terminationGracePeriodSeconds"]
    settings = settings_of(render(EVERYTHING))
    assert settings.workers == 2
    (listener,) = settings.routes[0].listeners
    assert listener.client_auth is ClientAuth.UPSTREAM


def test_the_values_of_the_documentation_are_right() -> None:
    text = (CHART.parents[2] / "docs" / "install.md").read_text(encoding="utf-8")
    (written,) = re.findall(r"```yaml values\n(.*?)```", text, re.DOTALL)
    values = yaml.safe_load(written)
    for each in objects(helm.Chart.load(CHART).render(values, name="shop")):
        if each["kind"] not in NOT_OF_KUBERNETES:
            schemas.validate(each, KUBERNETES[-1], strict=True)


def test_keyrail_serves_with_it(new_engine: Callable[..., Engine], tmp_path: Path) -> None:
    """The config with everything but TLS to Redis, whose own server here speaks none."""
    engine = new_engine("valkey-9.1", {"requirepass": "own"})
    values = EVERYTHING | {"upstream": f"redis://127.0.0.1:{engine.port}", "upstreamTLS": {}}
    rendered = render(values)
    for folder in ("etc/keyrail", "var/lib/keyrail", *(f"run/secrets/{each}" for each in SECRETS)):
        (tmp_path / folder).mkdir(parents=True)
    ca = authority(tmp_path, "ca")
    server, client = issue(tmp_path, "server", ca), issue(tmp_path, "client", ca)
    secrets = tmp_path / "run/secrets"
    shutil.copy(server.certificate, secrets / "tls/tls.crt")
    shutil.copy(server.key, secrets / "tls/tls.key")
    shutil.copy(ca.certificate, secrets / "client-ca/ca.crt")
    (secrets / "redis/password").write_text("own\n")
    (secrets / "admin/token").write_text("0123456789abcdef0123456789abcdef\n")
    for name, text in rendered["ConfigMap"]["data"].items():
        here = re.sub(r"/(etc/keyrail|run/secrets|var/lib)/", rf"{tmp_path}/\1/", text)
        here = here.replace("0.0.0.0:6380", "127.0.0.1:0").replace("0.0.0.0:9121", "127.0.0.1:0")
        (tmp_path / "etc/keyrail" / name).write_text(here)
    arguments = rendered_arguments(rendered)
    with serve("--config", str(tmp_path / "etc/keyrail/keyrail.yaml"), *arguments) as running:
        running.ready()
        context = ssl.create_default_context(cafile=ca.certificate)
        context.load_cert_chain(client.certificate, client.key)
        with Wire(Address(port=running.ports()[0]), tls=context) as wire:
            assert wire.ask("GET", "k").startswith(b"-NOAUTH")
            assert wire.ask("AUTH", "own") == b"+OK\r\n"
            assert wire.ask("SET", "k", "v", "EX", "60") == b"+OK\r\n"
            assert wire.ask("FLUSHALL").startswith(b"-DENIED")


def rendered_arguments(rendered: Objects) -> list[str]:
    """What the container's arguments say beside the config file."""
    arguments: list[str] = pod(rendered)["containers"][0]["args"]
    assert arguments[:3] == ["serve", "--config", "/etc/keyrail/keyrail.yaml"]
    return arguments[3:]


def test_a_chart_of_an_application_has_it_as_a_sidecar(tmp_path: Path) -> None:
    application = tmp_path / "shop"
    shutil.copytree(CHART, application / "charts" / "keyrail")
    (application / "templates").mkdir()
    (application / "Chart.yaml").write_text(
        "apiVersion: v2\nname: shop\nversion: 1.0.0\ndependencies: [{name: keyrail, version: '*'}]\n"
    )
    (application / "values.yaml").write_text(
        "keyrail: {replicas: 0, passwordSecret: {name: redis-password}, serviceMonitor: {enabled: true}}\n"
    )
    (application / "templates" / "deployment.yaml").write_text(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: shop}\nspec:\n"
        "  selector: {matchLabels: {app: shop}}\n  template:\n    metadata: {labels: {app: shop}}\n    spec:\n"
        "      containers:\n        - {name: shop, image: shop}\n"
        '        {{- include "keyrail.container" .Subcharts.keyrail | nindent 8 }}\n'
        "      volumes:\n"
        '        {{- include "keyrail.volumes" .Subcharts.keyrail | nindent 8 }}\n'
    )
    rendered = list(objects(helm.Chart.load(application).render({}, name="shop")))
    assert sorted(each["kind"] for each in rendered) == ["ConfigMap", "Deployment"], "nothing of a Keyrail of its own"
    (deployment,) = [each for each in rendered if each["kind"] == "Deployment"]
    schemas.validate(deployment, KUBERNETES[-1], strict=True)
    spec = deployment["spec"]["template"]["spec"]
    assert [each["name"] for each in spec["containers"]] == ["shop", "keyrail"]
    names = {each["name"] for each in spec["volumes"]}
    assert {each["name"] for each in spec["containers"][1]["volumeMounts"]} == names
    assert {each["metadata"]["name"] for each in rendered if each["kind"] == "ConfigMap"} == {
        volume["configMap"]["name"] for volume in spec["volumes"] if "configMap" in volume
    }
