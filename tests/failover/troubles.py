"""What can be wrong with Sentinels, with a name, and with a deposed primary, and the one line that tells of each.

One Keyrail has a route for each trouble: behind Sentinels that are made up, or behind a name that leads where the
trouble says. The servers are the same for all, and stay as they are. All routes stay ready.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from loadtest import moving_name
from tests.conftest import kind_named
from tests.engines import Engine, free_port
from tests.failover.fake_sentinel import ThreadedSentinel, introduce, sentinels_naming, url_of
from tests.keyrail_process import environment
from tests.resp import Address, Closed, Wire, eventually
from tests.server.running import Running, serve

DEAD = free_port()


class Scene:
    """Of one route: two primaries and a replica of the first, which is in use."""

    keyrail: Running
    upstream: str

    def __init__(self, route: str, servers: Sequence[Engine]) -> None:
        self.route = route
        self.primary, self.other, self.replica = (each.port for each in servers)
        self._listener = Address(port=free_port())

    def settings(self) -> dict[str, str]:
        """Of the route."""
        listen = f"redis://{at(self._listener.port)}"
        return {"name": self.route, "listen": listen, "upstream": self.upstream, "policy": "none"}

    def in_use(self) -> int:
        """The port of the server that gets commands."""
        nodes = json.loads(self.keyrail.http(f"/nodes?route={self.route}")[1])["routes"][self.route]
        return next(int(each["address"].rpartition(":")[2]) for each in nodes if each["role"] == "primary")


class BehindSentinels(Scene):
    """Three of them."""

    def __init__(self, route: str, servers: Sequence[Engine], sentinels: list[ThreadedSentinel]) -> None:
        super().__init__(route, servers)
        self.sentinels = sentinels
        self.liar = sentinels[1]
        self.upstream = url_of(*sentinels)

    def name(self, *ports: int | None) -> None:
        """The Sentinels name these ports, each its own, or all the one."""
        for number, each in enumerate(self.sentinels):
            each.primary = ports[number % len(ports)]

    def looks(self) -> int:
        """How often Keyrail has looked for the primary, so far."""
        return max(each.asked for each in self.sentinels)

    def mend(self) -> None:
        """End the trouble."""
        for each in self.sentinels:
            each.silent, each.replicas = False, {}
            each.end()
            each.begin()
        introduce(self.sentinels)
        self.name(self.primary)


class BehindAName(Scene):
    """Its addresses are in a file."""

    def __init__(self, route: str, servers: Sequence[Engine], folder: Path) -> None:
        super().__init__(route, servers)
        self._name = moving_name.MovingName(folder, f"{route}.example")
        self._name.lead_to(self.primary)
        self.upstream = f"redis://{self._name.host}:6379"

    @property
    def host(self) -> str:
        return self._name.host

    def lead_to(self, *ports: int) -> None:
        """The name has these addresses, and Keyrail has a reason to resolve it: an error says READONLY."""
        self._name.lead_to(*ports)
        with Wire(self._listener) as wire, contextlib.suppress(Closed):  # Keyrail has followed the name already
            assert wire.ask("WATCH", "k") == b"+OK\r\n"
            assert wire.ask("EVAL", "return redis.error_reply('READONLY it says')", "0").startswith(b"-READONLY")

    def looks(self) -> int:
        """How often Keyrail has resolved the name, so far."""
        return self._name.resolved()

    def mend(self) -> None:
        """End the trouble."""
        self.lead_to(self.in_use())


@dataclass(frozen=True, slots=True)
class Trouble:
    """``begin`` causes it; ``line`` says what Keyrail tells of it."""

    route: str
    begin: Callable[..., None]
    line: Callable[..., str]


@dataclass(frozen=True, slots=True)
class Stage:
    """All of them: the Keyrail, and the scene of each trouble."""

    keyrail: Running
    scenes: Sequence[tuple[BehindSentinels | BehindAName, Trouble]]

    def begin(self) -> dict[str, str]:
        """Cause all troubles; return what is to be told of each route."""
        for scene, trouble in self.scenes:
            trouble.begin(scene)
        return {scene.route: trouble.line(scene) for scene, trouble in self.scenes}

    def mend(self) -> None:
        for scene, _ in self.scenes:
            scene.mend()

    def told(self) -> dict[str, str]:
        """What `/readyz` says of each route behind `ready`."""
        ready, *lines = self.keyrail.http("/readyz")[1].splitlines()
        if ready != "ready":
            return {"": ready}
        prefixes = {scene.route: f"route {scene.route}: {scene.upstream}: " for scene, _ in self.scenes}
        return {
            route: line.removeprefix(prefix)
            for line in lines
            for route, prefix in prefixes.items()
            if line.startswith(prefix)
        }

    def looks(self) -> dict[str, int]:
        """How often Keyrail has looked, so far, by route."""
        return {scene.route: scene.looks() for scene, _ in self.scenes}


@contextlib.contextmanager
def staged(folder: Path) -> Iterator[Stage]:
    """Started, and without any trouble."""
    with contextlib.ExitStack() as stack:
        servers = []
        for _ in range(3):
            servers.append(Engine(kind_named("valkey-9.1"), {"repl-diskless-sync-delay": "0"}))
            stack.callback(servers[-1].close)
        servers[2].do("REPLICAOF", "127.0.0.1", servers[0].port)
        servers[2].await_info("replication", "master_link_status", "up")
        scenes: list[tuple[BehindSentinels | BehindAName, Trouble]] = []
        for trouble in OF_SENTINELS:
            sentinels = stack.enter_context(sentinels_naming(*[servers[0].port] * 3))
            scenes.append((BehindSentinels(trouble.route, servers, sentinels), trouble))
        scenes += [(BehindAName(trouble.route, servers, folder), trouble) for trouble in OF_NAMES]
        routes = [scene.settings() for scene, _ in scenes]
        (folder / "keyrail.yaml").write_text(yaml.safe_dump({"admin": "127.0.0.1:0", "routes": routes}))
        variables = dict(moving_name.environment(folder, environment()["PYTHONPATH"]))
        keyrail = stack.enter_context(serve("--config", str(folder / "keyrail.yaml"), variables=variables)).ready()
        for scene, _ in scenes:
            scene.keyrail = keyrail
        stage = Stage(keyrail, scenes)
        eventually(lambda: keyrail.http("/readyz") == (200, "ready\n"))
        yield stage


def _hang(scene: BehindSentinels) -> None:
    scene.liar.silent = True


def _end_all(scene: BehindSentinels) -> None:
    for each in scene.sentinels:
        each.end()


def _split(scene: BehindSentinels) -> None:
    scene.liar.others.clear()
    scene.name(scene.primary, scene.other, scene.primary)


def _depose(scene: BehindSentinels) -> None:
    # The other one has been the primary, and is replaced.
    scene.name(scene.other)
    eventually(lambda: scene.in_use() == scene.other)
    scene.name(scene.primary)
    for each in scene.sentinels:
        each.replicas = {scene.other: False, scene.replica: True}
    eventually(lambda: scene.in_use() == scene.primary)


def _refused(scene: BehindSentinels) -> str:
    return "; ".join(sorted(f"Sentinel {at(each.port)}: Connection refused" for each in scene.sentinels))


def at(port: int) -> str:
    return f"127.0.0.1:{port}"


OF_SENTINELS = [
    Trouble(
        "lies",
        lambda scene: scene.name(scene.primary, scene.other, scene.primary),
        lambda scene: f"Sentinel {at(scene.liar.port)} names {at(scene.other)}, and most others {at(scene.primary)}",
    ),
    Trouble(
        "split",
        _split,
        lambda scene: f"Sentinel {at(scene.liar.port)} names {at(scene.other)}, and most others {at(scene.primary)}",
    ),
    Trouble(
        "ignorant",
        lambda scene: scene.name(scene.primary, None, scene.primary),
        lambda scene: f"Sentinel {at(scene.liar.port)} names no primary, and most others {at(scene.primary)}",
    ),
    Trouble(
        "down",
        lambda scene: scene.liar.end(),
        lambda scene: f"Sentinel {at(scene.liar.port)}: Connection refused",
    ),
    Trouble(
        "hangs",
        _hang,
        lambda scene: f"Sentinel {at(scene.liar.port)}: it does not answer",
    ),
    Trouble(
        "all-down",
        _end_all,
        lambda scene: f"no Sentinel answers; {_refused(scene)}",
    ),
    Trouble(
        "no-majority",
        lambda scene: scene.name(scene.primary, scene.other, DEAD),
        lambda scene: (
            "no majority of the Sentinels names one primary: "
            + ", ".join(f"{each} (1 of 3)" for each in sorted(map(at, (scene.primary, scene.other, DEAD))))
        ),
    ),
    Trouble(
        "unknown-name",
        lambda scene: scene.name(None),
        lambda scene: "the Sentinels know no primary named 'mymaster'",
    ),
    Trouble(
        "replica",
        lambda scene: scene.name(scene.replica),
        lambda scene: f"primary {at(scene.replica)}: it is a replica",
    ),
    Trouble(
        "dead",
        lambda scene: scene.name(DEAD),
        lambda scene: f"primary {at(DEAD)}: Connection refused",
    ),
    Trouble(
        "deposed",
        _depose,
        lambda scene: (
            f"{at(scene.other)} calls itself a primary, too: "
            f"commands go to {at(scene.primary)}, and writes around Keyrail will be lost"
        ),
    ),
]


def _lead_in_turn(scene: BehindAName) -> None:
    before = scene.in_use()
    other = scene.other if before == scene.primary else scene.primary
    scene.lead_to(other)
    eventually(lambda: scene.in_use() == other)
    scene.lead_to(before)


def _several(scene: BehindAName) -> str:
    return ", ".join(sorted(map(at, (scene.primary, scene.other))))


OF_NAMES = [
    Trouble(
        "name-to-nothing",
        lambda scene: scene.lead_to(),
        lambda scene: f"{scene.host} cannot be resolved: Name or service not known",
    ),
    Trouble(
        "name-to-dead",
        lambda scene: scene.lead_to(DEAD),
        lambda scene: f"{at(DEAD)}: Connection refused",
    ),
    Trouble(
        "name-to-replica",
        lambda scene: scene.lead_to(scene.replica),
        lambda scene: f"{scene.host} leads to {at(scene.replica)}, which is a replica",
    ),
    Trouble(
        "name-to-several",
        lambda scene: scene.lead_to(scene.other, scene.primary),
        lambda scene: (
            f"{scene.host} leads to several primaries, {_several(scene)}: commands go to {at(scene.in_use())}"
        ),
    ),
    Trouble(
        "name-in-turn",
        _lead_in_turn,
        lambda scene: (
            f"{scene.host} leads to several primaries in turn, {_several(scene)}: commands go to {at(scene.in_use())}"
        ),
    ),
]
