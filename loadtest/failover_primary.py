"""``failover``, its second part: how soon clients are served again when Sentinels or a name lead to another primary.

A primary with two replicas, and one client that sends INCRs through Keyrail, one at a time. Its key has a large number
on the new primary, so its replies tell where they come from.

    Sentinels   three of them replace the primary: by SENTINEL FAILOVER, or after it was killed. A client beside Keyrail
                asks them all the time: so soon most of them name the new primary, and so slow is this machine
    a name      the primary is killed or becomes a replica, another one is promoted, and at once the name leads to it
"""

import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from loadtest import targets
from loadtest.memory import Measured
from loadtest.moving_name import MovingName, environment
from loadtest.pause import PausingClient, ask, free_ports, order, wait
from loadtest.processes import Program, running

DOWN_AFTER = 1000
_NAME = "mymaster"
_SENTINELS = 3
_REPLICAS = 2
_KEY = "key:where"
_LARGE = 10**9
_NEW = b":1000"
_GOAL = 1000.0
_CALM_SECONDS = 3.0


@dataclass(slots=True)
class _Group:
    """The ports of a primary, its replicas and the Sentinels, and the servers' processes."""

    primary: int
    replicas: list[int]
    sentinels: list[int] = field(default_factory=list)
    programs: dict[int, Program] = field(default_factory=dict)

    def kill(self) -> None:
        self.programs[self.primary].kill()

    def ask_for_failover(self) -> None:
        begun = time.monotonic()
        while ask(self.sentinels[0], f"SENTINEL FAILOVER {_NAME}") != b"+OK\r\n":
            wait(begun)

    def promoted(self) -> int:
        """The replica that is a primary now, once there is one; its key says so."""
        begun = time.monotonic()
        while True:
            for port in self.replicas:
                with contextlib.suppress(OSError):
                    if ask(port, "ROLE").startswith(b"*3\r\n$6\r\nmaster"):
                        order(port, f"SET {_KEY} {_LARGE}")
                        return port
            wait(begun)

    def named(self, port: int) -> bool:
        """Whether most Sentinels name this server."""
        votes = 0
        for sentinel in self.sentinels:
            with contextlib.suppress(OSError):
                votes += b"$%d\r\n%d\r\n" % (len(str(port)), port) in ask(
                    sentinel, f"SENTINEL GET-MASTER-ADDR-BY-NAME {_NAME}"
                )
        return 2 * votes > len(self.sentinels)


def measured(
    program: list[str], redis_program: str, rounds: int, say: Callable[[str], None]
) -> tuple[str, list[Measured]]:
    """Keyrail's form (compiled or plain), and all figures."""
    form, found = "", []
    for what, act in (("SENTINEL FAILOVER", _Group.ask_for_failover), ("the primary is killed", _Group.kill)):
        figures = []
        for number in range(rounds):
            say(f"Sentinels, {what}: failover {number + 1} of {rounds}")
            form, figure = _one_of_sentinels(program, redis_program, act)
            figures.append(figure)
        named, followed, slowest = zip(*figures, strict=True)
        where = f"Sentinels, {what}"
        found += [
            Measured(f"{where}: from the promotion until most Sentinels name it, longest", max(named), "ms", None),
            Measured(f"{where}: from then to the first reply, longest", max(followed), "ms", _GOAL),
            Measured(f"{where}: its median", statistics.median(followed), "ms", None),
            Measured(f"{where}: longest round of a client beside it", max(slowest), "ms", None),
        ]
    for what, killed in (("the primary is killed", True), ("the primary becomes a replica", False)):
        moves = []
        for number in range(rounds):
            say(f"a name, {what}: move {number + 1} of {rounds}")
            form, moved = _one_of_names(program, redis_program, killed=killed)
            moves.append(moved)
        where = f"a name, {what}"
        found += [
            Measured(f"{where}: from the move of the name to the first reply, longest", max(moves), "ms", _GOAL),
            Measured(f"{where}: its median", statistics.median(moves), "ms", None),
        ]
    return form, found


def _one_of_sentinels(
    program: list[str], redis_program: str, act: Callable[[_Group], None]
) -> tuple[str, tuple[float, float, float]]:
    with _servers(redis_program) as group, _watched(redis_program, group):
        url = f"redis+sentinel://{','.join(f'127.0.0.1:{port}' for port in group.sentinels)}/{_NAME}"
        with _client_of(program, url) as (form, client):
            act(group)
            new = group.promoted()
            promoted = time.monotonic()
            laps, named = [0.0], 0.0
            while not named or client.first(promoted, _NEW) is None:
                begun = time.monotonic()
                if group.named(new) and not named:
                    named = time.monotonic()
                laps.append(time.monotonic() - begun)
                wait(promoted)
            served = client.first(promoted, _NEW) or 0.0
    late = 1000 * max(0.0, served - named)
    return form, (1000 * (named - promoted), late, 1000 * max(laps))


def _one_of_names(program: list[str], redis_program: str, *, killed: bool) -> tuple[str, float]:
    with contextlib.ExitStack() as stack:
        group = stack.enter_context(_servers(redis_program))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="keyrail-loadtest-")))
        name, new = MovingName(folder, "redis.example"), group.replicas[0]
        name.lead_to(group.primary)
        form, client = stack.enter_context(_client_of(program, f"redis://{name.host}:6379", environment(folder)))
        if killed:
            group.kill()
        order(new, "REPLICAOF NO ONE")
        order(new, f"SET {_KEY} {_LARGE}")
        if not killed:
            order(group.primary, f"REPLICAOF 127.0.0.1 {new}")
        name.lead_to(new)
        moved = time.monotonic()
        while (served := client.first(moved, _NEW)) is None:
            wait(moved)
    return form, 1000 * (served - moved)


@contextlib.contextmanager
def _client_of(
    program: list[str], upstream: str, variables: Mapping[str, str] | None = None
) -> Iterator[tuple[str, PausingClient]]:
    """Keyrail's form, and a client that has been served for a while."""
    with contextlib.ExitStack() as stack:
        target = stack.enter_context(
            targets.keyrail("keyrail", program, upstream, str(targets.BENCH_POLICY), variables=variables)
        )
        client = PausingClient(target.port, "INCR", _KEY.encode())
        stack.callback(client.stop)
        begun = time.monotonic()
        while client.first(0.0) is None:
            wait(begun)
        time.sleep(_CALM_SECONDS)  # nobody looks more often just because something has changed
        yield target.about, client


@contextlib.contextmanager
def _servers(program: str) -> Iterator[_Group]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="keyrail-loadtest-")))
        primary, *replicas = free_ports(1 + _REPLICAS)
        group = _Group(primary, replicas)
        for port in (primary, *replicas):
            own = folder / str(port)
            own.mkdir()
            argv = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(own)]
            argv += ["--repl-diskless-sync-delay", "0"]
            argv += ["--replicaof", f"127.0.0.1 {primary}"] if port != primary else []
            group.programs[port] = stack.enter_context(running(argv))
            group.programs[port].wait_for_port(port)
        order(primary, f"SET {_KEY} 0")
        begun = time.monotonic()
        while any(ask(port, f"GET {_KEY}") != b"$1\r\n0\r\n" for port in replicas):
            wait(begun)
        yield group


@contextlib.contextmanager
def _watched(program: str, group: _Group) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="keyrail-loadtest-")))
        group.sentinels = free_ports(_SENTINELS)
        for port in group.sentinels:
            config = folder / f"{port}.conf"
            config.write_text(
                f"port {port}\nbind 127.0.0.1\ndir {folder}\nsentinel monitor {_NAME} 127.0.0.1 {group.primary} 2\n"
                f"sentinel down-after-milliseconds {_NAME} {DOWN_AFTER}\n"
            )
            stack.enter_context(running([program, str(config), "--sentinel"])).wait_for_port(port)
        begun = time.monotonic()
        while not all(_knows_all(port) for port in group.sentinels):
            wait(begun)
        yield


def _knows_all(sentinel: int) -> bool:
    told = ask(sentinel, f"SENTINEL MASTER {_NAME}")
    wanted = (b"num-slaves", b"%d" % _REPLICAS), (b"num-other-sentinels", b"%d" % (_SENTINELS - 1))
    return all(b"%b\r\n$1\r\n%b\r\n" % each in told for each in wanted)
