"""The parts of the Dockerfile that run without Docker: its health check, and its file of options."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from proxy import __version__
from proxy.net.config.settings import AdminSettings
from proxy.server.config import load_settings
from tests.engines import Engine, free_port
from tests.keyrail_process import Keyrail
from tests.readme.blocks import REPOSITORY


def test_the_image_is_found_alive_and_dead_as_it_should(
    new_engine: Callable[..., Engine], new_keyrail: Callable[..., Keyrail]
) -> None:
    """The health check of the Dockerfile is a program in a line that nothing else would ever run."""
    line = (REPOSITORY / "Dockerfile").read_text().replace("\\\n", "")
    found = re.search(r"HEALTHCHECK .*CMD (\[.*\])", line)
    assert found is not None
    keyrail = new_keyrail(new_engine().url)
    states = {
        f"127.0.0.1:{keyrail.admin_port}": 0,
        f"127.0.0.1:{free_port()}": 1,
        "off": 0,
    }
    for admin, status in states.items():
        checked = subprocess.run(
            json.loads(found[1]), env={**os.environ, "KEYRAIL_ADMIN": admin}, capture_output=True, check=False
        )
        assert checked.returncode == status, admin


def test_the_image_leaves_what_it_says_to_a_config_file(tmp_path: Path) -> None:
    """Variables would win over the file that somebody gives with --config, and be refused beside one with routes."""
    dockerfile = (REPOSITORY / "Dockerfile").read_text()
    made = re.search(r"^RUN (printf .*) > (\S+)$", dockerfile, re.MULTILINE)
    assert made is not None
    assert re.findall(r"^ENV (KEYRAIL_\w+)=(\S+)", dockerfile, re.MULTILINE) == [("KEYRAIL_CONFIG", made[2])]
    assert dockerfile.count("KEYRAIL_LISTEN") == 0
    file = tmp_path / "keyrail.yaml"
    file.write_bytes(subprocess.run(["sh", "-c", made[1]], stdout=subprocess.PIPE, check=True).stdout)
    settings = load_settings({}, {"KEYRAIL_CONFIG": str(file)})
    assert [str(each.address) for each in settings.routes[0].listeners] == ["redis://0.0.0.0:6380"]
    assert settings.admin == AdminSettings("0.0.0.0", 9121)


def test_its_labels_are_those_of_opencontainers_and_of_this_version() -> None:
    dockerfile = (REPOSITORY / "Dockerfile").read_text()
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]+)"', dockerfile))
    assert set(labels) >= {"title", "description", "version", "documentation"}
    assert labels["version"] == __version__
