"""deploy/ agrees with the program: existing options, existing files, the user of the image.

docker-compose reads Compose's files if it is installed; otherwise they are read as YAML alone. `test_chart` renders the
Helm chart.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from proxy import __version__
from proxy.server.config import load_settings
from proxy.server.options import OPTIONS

pytestmark = pytest.mark.source
REPOSITORY = Path(__file__).parents[2]
CHART = REPOSITORY / "deploy" / "helm" / "keyrail"
COMPOSE = REPOSITORY / "deploy" / "compose"


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def test_the_chart_is_of_this_version_and_runs_as_the_user_of_the_image() -> None:
    chart = read(CHART / "Chart.yaml")
    assert chart["appVersion"] == chart["version"] == __version__
    helpers = (CHART / "templates" / "_helpers.tpl").read_text()
    user = re.search(r"useradd .*--uid (\d+)", (REPOSITORY / "Dockerfile").read_text())
    assert user is not None
    assert f"runAsUser: {user[1]}\n" in helpers


@pytest.mark.parametrize(
    ("lock", "extras"),
    [("requirements.lock", ["compress"]), ("requirements-embedded.lock", ["compress", "embedded"])],
)
def test_the_locks_fit_what_the_package_depends_on(lock: str, extras: list[str]) -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    entries = re.split(r"^(?=[a-z])", (REPOSITORY / "deploy" / lock).read_text(), flags=re.MULTILINE)[1:]
    assert all("--hash=sha256:" in entry for entry in entries)
    locked = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", "".join(entries), re.MULTILINE))
    wanted = [*project["dependencies"], *(each for extra in extras for each in project["optional-dependencies"][extra])]
    for requirement in map(Requirement, wanted):
        assert requirement.specifier.contains(locked[requirement.name]), requirement


def test_the_options_of_the_chart_are_those_of_serve(tmp_path: Path) -> None:
    values = read(CHART / "values.yaml")
    helpers = (CHART / "templates" / "_helpers.tpl").read_text()
    own = helpers[helpers.index('define "keyrail.config"') : helpers.index("merge $own")]
    for name in ("listen", "admin", "upstream", "policy", "admin_token_file"):
        assert f'"{name}"' in own
        assert name in {option.name for option in OPTIONS}
    file = tmp_path / "keyrail.yaml"
    file.write_text(yaml.safe_dump({"upstream": values["upstream"], "policy": values["policy"], **values["options"]}))
    settings = load_settings({"config": [str(file)]}, {})
    assert settings.shutdown_delay + settings.drain < values["terminationGracePeriodSeconds"]


def test_the_rules_and_the_dashboard_of_the_chart_are_the_ones_of_the_admin_port() -> None:
    assert read(CHART / "files" / "alerts.yaml")["groups"]
    assert json.loads((CHART / "files" / "grafana.json").read_text())["title"] == "Keyrail"
    for name in ("alerts.yaml", "grafana.json"):
        assert (CHART / "files" / name).samefile(REPOSITORY / "proxy/server/admin" / name)
        assert f'.Files.Get "files/{name}"' in (CHART / "templates" / "monitoring.yaml").read_text()


def test_every_file_that_compose_mounts_is_there_and_used() -> None:
    services = read(COMPOSE / "compose.yaml")["services"]
    mounts = {
        target: (COMPOSE / source).resolve()
        for service in services.values()
        for source, target, _ in (volume.split(":") for volume in service.get("volumes", ()))
    }
    assert all(source.exists() for source in mounts.values())
    assert set(read(COMPOSE / "prometheus.yaml")["rule_files"]) <= set(mounts)
    for provider in read(COMPOSE / "grafana/dashboards/keyrail.yaml")["providers"]:
        assert any(target.startswith(provider["options"]["path"]) for target in mounts)
    for service in services.values():
        assert set(service.get("depends_on", ())) <= set(services)


def variables_of_compose(*files: str) -> dict[str, str]:
    """Keyrail's variables after the files have been laid over each other."""
    found: dict[str, str] = {}
    for file in files:
        found |= read(COMPOSE / file)["services"]["keyrail"]["environment"]
    return found


def test_keyrail_takes_the_options_that_compose_gives_it() -> None:
    services = read(COMPOSE / "compose.yaml")["services"]
    settings = load_settings({}, variables_of_compose("compose.yaml"))
    assert settings.routes[0].upstream.host in services
    assert settings.admin is not None
    assert settings.shutdown_delay + settings.drain < int(services["keyrail"]["stop_grace_period"].removesuffix("s"))
    targets = [t for job in read(COMPOSE / "prometheus.yaml")["scrape_configs"] for t in job["static_configs"]]
    assert targets == [{"targets": [f"keyrail:{settings.admin.port}"]}]


def test_with_passwords_and_tls_every_file_that_compose_names_is_a_secret_of_it() -> None:
    secure = read(COMPOSE / "compose.secure.yaml")
    variables = variables_of_compose("compose.yaml", "compose.secure.yaml")
    named = set(re.findall(r"/run/secrets/(\w+)", " ".join(variables.values())))
    assert named == set(secure["services"]["keyrail"]["secrets"]) == set(secure["secrets"])
    (route,) = load_settings({}, variables).routes
    (listener,) = route.listeners
    assert listener.address.tls is not None
    assert listener.password_file == Path("/run/secrets/client_password")
    assert route.upstream.password is not None
    ignored = (REPOSITORY / ".gitignore").read_text().splitlines()
    for secret in secure["secrets"].values():
        assert f"/{(COMPOSE / secret['file']).parent.relative_to(REPOSITORY)}/" in ignored


def test_docker_compose_reads_the_files() -> None:
    """`config` asks no daemon. The program comes with the extra `deploy`."""
    beside_python = Path(sys.executable).parent
    if (program := shutil.which("docker-compose", path=f"{beside_python}:{os.environ['PATH']}")) is None:
        pytest.skip("docker-compose is not installed here")
    for files in (["compose.yaml"], ["compose.yaml", "compose.secure.yaml"]):
        arguments = [word for file in files for word in ("-f", file)]
        told = subprocess.run(
            [program, *arguments, "config"], cwd=COMPOSE, capture_output=True, text=True, check=True, timeout=60
        )
        keyrail = yaml.safe_load(told.stdout)["services"]["keyrail"]
        assert keyrail["environment"] == variables_of_compose(*files)
