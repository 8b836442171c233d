"""A primary, its replicas and the Sentinels that watch it, started in about three seconds, and what happens to them.

Servers and Sentinels are `Engine`s, so they can be killed, frozen and started again.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import cast

from tests.black_hole import BlackHole
from tests.engines import Engine, Kind, free_port
from tests.resp import Closed, Failure, eventually

NAME = "mymaster"
DOWN_AFTER_MS = 700
FAILOVER_TIMEOUT_MS = 2000
"""After a failover the Sentinels start no other one for twice as long."""

_HASTE = ("INFO-PERIOD", 300, "PUBLISH-PERIOD", 500)
"""Milliseconds. With 10 s and 2 s, as usual, a deposed primary would be left alone for eight seconds."""
_LENIENCE = ("PUBLISH-PERIOD", 1_000_000)

_OPTIONS = {"repl-diskless-sync-delay": "0", "min-replicas-to-write": "0"}


class Server(Engine):
    """A primary or a replica. All others know it by its `public` port: that of its `way`, where it has one."""

    def __init__(self, kind: Kind, *, relayed: bool) -> None:
        port = free_port()
        self.way = BlackHole(port) if relayed else None
        self.public = port if self.way is None else self.way.port
        super().__init__(kind, {**_OPTIONS, "replica-announce-port": str(self.public)}, port=port)

    def close(self) -> None:
        super().close()
        if self.way is not None:
            self.way.__exit__()


class Sentinel(Engine):
    """A Sentinel that watches the server at a port; `options` are lines of its configuration."""

    def __init__(self, kind: Kind, watched: int, options: dict[str, str] | None = None) -> None:
        self.watched = watched
        super().__init__(kind, options)

    def launch(self) -> None:
        config = self.folder / "sentinel.conf"
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f"dir {self.folder}",
            f"sentinel monitor {NAME} 127.0.0.1 {self.watched} 2",
            f"sentinel down-after-milliseconds {NAME} {DOWN_AFTER_MS}",
            f"sentinel failover-timeout {NAME} {FAILOVER_TIMEOUT_MS}",
            f"sentinel parallel-syncs {NAME} 2",
            *(f"{name} {value}" for name, value in self.options.items()),
        ]
        if not config.exists():  # it writes what it knows into its own file
            config.write_text("\n".join(lines) + "\n")
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen([self.kind.binary, str(config), "--sentinel"], stdout=log, stderr=log)

    def names(self) -> int:
        """The port of the server that it takes for the primary."""
        host, port = cast("list[bytes]", self.do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME))
        assert host == b"127.0.0.1"
        return int(port)

    def epoch(self) -> int:
        """The number of the last failover that it knows of."""
        fields = cast("list[bytes]", self.do("SENTINEL", "MASTER", NAME))
        return int(dict(zip(fields[::2], fields[1::2], strict=True))[b"config-epoch"])

    def knows(self) -> tuple[int, int]:
        """How many other Sentinels, and how many replicas that it could promote."""
        fields = cast("list[bytes]", self.do("SENTINEL", "MASTER", NAME))
        found = dict(zip(fields[::2], fields[1::2], strict=True))
        replicas = cast("list[list[bytes]]", self.do("SENTINEL", "REPLICAS", NAME))
        up = [dict(zip(each[::2], each[1::2], strict=True)) for each in replicas]
        good = [each for each in up if each[b"flags"] == b"slave" and each[b"master-link-status"] == b"ok"]
        return int(found[b"num-other-sentinels"]), len(good)


class RealGroup:
    """`servers` has the primary of the start first, then its replicas. `hasty` Sentinels ask more often than others.

    `relayed`: each server is behind a network that can be cut.
    """

    def __init__(
        self, kind: Kind, replicas: int = 2, sentinels: int = 3, *, hasty: bool = True, relayed: bool = False
    ) -> None:
        self.servers: list[Server] = []
        self.sentinels: list[Sentinel] = []
        try:
            with ThreadPoolExecutor() as pool:
                starting = [pool.submit(Server, kind, relayed=relayed) for _ in range(1 + replicas)]
                self.servers = [each.result() for each in starting]
                for replica in self.servers[1:]:
                    replica.do("REPLICAOF", "127.0.0.1", self.servers[0].public)
                eventually(
                    lambda: all(each.info("replication").get("master_link_status") == "up" for each in self.servers[1:])
                )
                watching = [pool.submit(Sentinel, kind, self.servers[0].public) for _ in range(sentinels)]
                self.sentinels = [each.result() for each in watching]
            if hasty:
                self._set_periods(*_HASTE)
            self.settle()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """As `--upstream` takes it."""
        return f"redis+sentinel://{','.join(f'127.0.0.1:{each.port}' for each in self.sentinels)}/{NAME}"

    def living(self) -> list[Server]:
        """The servers whose process has not been killed."""
        return [each for each in self.servers if each.process is not None]

    def primary(self) -> Server:
        """The server that all Sentinels name."""
        (found,) = self._named()
        return found

    def _named(self) -> list[Server]:
        ports = {each.names() for each in self.sentinels if each.process is not None}
        return [each for each in self.servers if each.public in ports]

    def epoch(self) -> int:
        """The number of the last failover."""
        return max(each.epoch() for each in self.sentinels if each.process is not None)

    def settle(self) -> None:
        """Wait until all living Sentinels name one primary, know each other, and could promote each other server; and
        these servers have all that it has."""
        eventually(self._is_settled)

    def _is_settled(self) -> bool:
        if len(named := self._named()) != 1 or not self._is_followed(named[0]):
            return False
        expected = len(self.sentinels) - 1, len(self.living()) - 1
        return all(each.knows() == expected for each in self.sentinels if each.process is not None)

    def _is_followed(self, primary: Server) -> bool:
        for each in self.living():
            if each is not primary and not follows(each, primary):
                return False
        return replication(primary).get("role") == "master"

    def fail_over(self) -> Server:
        """Have the Sentinels promote a replica; return the new primary when one Sentinel names it."""
        old = self.primary()
        self.ask_for_failover()
        eventually(lambda: self.sentinels[0].names() != old.public)
        port = self.sentinels[0].names()
        return next(each for each in self.servers if each.public == port)

    def ask_for_failover(self) -> None:
        """Order it, as soon as the Sentinels would do it."""

        def accepted() -> bool:
            with self.sentinels[0].wire() as wire:
                return not isinstance(wire.value("SENTINEL", "FAILOVER", NAME), Failure)

        eventually(accepted)

    @contextmanager
    def leaving_old_primaries_alone(self) -> Iterator[None]:
        """A deposed primary that comes back as primary stays one so long."""
        self._set_periods(*_LENIENCE)
        try:
            yield
        finally:
            self._set_periods(*_HASTE)

    def _set_periods(self, *periods: str | int) -> None:
        for each in self.sentinels:
            each.do("SENTINEL", "DEBUG", *periods)

    def await_promotion(self, old: Server) -> Server:
        """Wait until another living server than ``old`` says that it is a primary."""
        found: list[Server] = []

        def is_there() -> bool:
            found[:] = [each for each in self.living() if each is not old and replication(each).get("role") == "master"]
            return bool(found)

        eventually(is_there)
        return found[0]

    def start_again(self, servers: Sequence[Engine]) -> None:
        """Start killed servers, which become replicas of today's primary."""
        for each in servers:
            each.start()
        self.settle()

    def close(self) -> None:
        """End all of them."""
        for each in (*self.sentinels, *self.servers):
            each.close()


def replication(server: Engine) -> dict[str, str]:
    """Its INFO; nothing while a Sentinel gives it another role, and closes all of its clients."""
    try:
        return server.info("replication")
    except Closed:
        return {}


def follows(replica: Engine, primary: Server) -> bool:
    """Whether it has all that the primary has, and gets what comes."""
    told = replication(replica)
    where = (told.get("role"), told.get("master_port"), told.get("master_link_status"))
    return where == ("slave", str(primary.public), "up")
