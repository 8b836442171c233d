"""A service manager gets a notification of each change, and systemd accepts the service file."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from proxy.server.service_manager import ServiceManager
from tests.engines import Engine
from tests.keyrail_process import packaged_policy
from tests.resp import PATIENCE_SECONDS
from tests.server.running import serve

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "keyrail.service"


class Manager:
    """Hears what a service says."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.settimeout(3 * PATIENCE_SECONDS)
        self.socket.bind(address)

    def hears(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.socket.recv(4096).decode().splitlines())


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    made = Manager(str(tmp_path / "notify"))
    yield made
    made.socket.close()


def test_it_hears_of_the_beginning_and_the_end(manager: Manager, tmp_path: Path) -> None:
    with serve("--embedded", variables={"NOTIFY_SOCKET": str(tmp_path / "notify")}) as running:
        assert manager.hears()["READY"] == "1"
        assert running.ready().stop() == 0
        assert manager.hears()["STOPPING"] == "1"


def test_it_hears_who_serves_after_an_upgrade(
    manager: Manager, tmp_path: Path, new_engine: Callable[..., Engine]
) -> None:
    upstream = new_engine().url
    variables = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
    with serve(
        "--upstream", upstream, "--policy", str(packaged_policy("default.yaml")), variables=variables
    ) as running:
        assert manager.hears()["READY"] == "1"
        running.ready().process.send_signal(signal.SIGUSR2)
        # One tells that the other serves, and that one tells it as well: whoever comes first.
        told = manager.hears() | manager.hears()
        assert told["READY"] == "1"
        successor = int(told["MAINPID"])
        # Its output goes on in the successor's hands, so the end of the output is not awaited here.
        assert running.process.wait(3 * PATIENCE_SECONDS) == 0
        os.kill(successor, signal.SIGTERM)
        assert manager.hears()["STOPPING"] == "1"


def test_a_name_in_the_abstract_namespace() -> None:
    manager = Manager(f"\0keyrail-test-{os.getpid()}")
    with manager.socket:
        ServiceManager({"NOTIFY_SOCKET": f"@keyrail-test-{os.getpid()}"}).stopping()
        assert manager.hears() == {"STOPPING": "1", "STATUS": "stopping"}


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": "/nowhere/at/all"}])
def test_nobody_listens(environment: dict[str, str]) -> None:
    ServiceManager(environment).ready("1 worker")


def test_systemd_accepts_the_service_file(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed here")
    # It looks for the program that the unit starts, which is somewhere else here.
    unit = tmp_path / "keyrail.service"
    unit.write_text(UNIT.read_text(encoding="utf-8").replace("/opt/keyrail/bin/keyrail", "/bin/true"), encoding="utf-8")
    told = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    assert (told.returncode, told.stderr) == (0, "")
    assert "\nRestart=on-failure\n" in UNIT.read_text(encoding="utf-8"), "also if it is killed"
