"""Clients of Keyrail while Sentinels replace the primary: by command, after a crash, and while it hangs.

Proves: idle clients stay and go on with the new primary; who waits for a reply or has state on the old primary is
closed; nothing is sent twice, and nothing is sent to the old primary any more, although it takes writes; commands that
come meanwhile wait; redis-py's plain client notices nothing but the time.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.black_hole import BlackHole
from tests.coherence.world import hits, policy
from tests.conftest import kind_named, rest_is_long
from tests.failover.group import RealGroup, Server
from tests.failover.pace import Beside, await_service, primary_of
from tests.keyrail_process import DIRECT, Keyrail, packaged_policy
from tests.resp import Closed, Wire, eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a plain relay follows nobody")

PACKAGED = tuple(sorted(path.name for path in packaged_policy("strict.yaml").parent.glob("*.yaml")))
NewKeyrail = Callable[..., Keyrail]


@pytest.fixture(scope="module")
def keyrail(group: RealGroup) -> Iterator[Keyrail]:
    running = Keyrail(group.url)
    eventually(lambda: running.http("/readyz")[0] == 200)
    yield running
    running.close()


def settled(group: RealGroup, keyrail: Keyrail) -> Server:
    """The primary of today, which Keyrail knows, too."""
    group.settle()
    primary = group.primary()
    eventually(lambda: primary_of(keyrail) == primary.port and keyrail.http("/readyz")[0] == 200)
    return primary


STATES = {
    "a subscription": ["SUBSCRIBE x"],
    "a watch": ["WATCH k"],
    "an open transaction": ["MULTI", "SET k v"],
    "a blocking command": ["!BLPOP q 0"],
    "a script": ["EVAL return(1) 0"],
    "a login": ["AUTH ann secret"],
}


def test_a_planned_failover(group: RealGroup, keyrail: Keyrail) -> None:
    old = settled(group, keyrail)
    for server in group.servers:
        server.do("ACL", "SETUSER", "ann", "on", ">secret", "~*", "&*", "+@all")
    holders = {name: keyrail.wire() for name in STATES}
    with keyrail.wire() as idle, keyrail.wire(protocol=3) as chosen:
        assert idle.ask("SET", "k", "v") == b"+OK\r\n"
        # What a replica lacks is lost with any client.
        eventually(lambda: all(server.do("EXISTS", "k") == 1 for server in group.servers))
        assert chosen.ask("SELECT", "3") == b"+OK\r\n"
        for name, told in STATES.items():
            for command in told:
                if command.startswith("!"):
                    holders[name].say(*command[1:].split())
                    old.await_info("clients", "blocked_clients", "1")
                else:
                    assert not holders[name].ask(*command.split()).startswith(b"-")
        new = group.fail_over()
        for name, holder in holders.items():
            assert [frame for frame in holder.remaining() if b"UNBLOCKED" not in frame] == [], name
        eventually(lambda: primary_of(keyrail) == new.port)
        assert idle.ask("SET", "after", new.port) == b"+OK\r\n"
        assert chosen.ask("SET", "after", "three") == b"+OK\r\n"
        assert new.do("GET", "after") == str(new.port).encode()
        assert idle.ask("GET", "k") == b"$1\r\nv\r\n"
    assert keyrail.metric("keyrail_out_of_step_total") == 0
    settled(group, keyrail)


def calls_itself_primary(direct: Wire) -> bool:
    """Sentinel disconnects the clients of a server that it has made a replica."""
    with contextlib.suppress(Closed):
        return direct.ask("ROLE").startswith(b"*3\r\n$6\r\nmaster")
    return False


def test_no_write_reaches_the_old_primary_that_still_takes_them(group: RealGroup, keyrail: Keyrail) -> None:
    """After SENTINEL FAILOVER it calls itself primary for seconds, and what it acknowledges vanishes."""
    old = settled(group, keyrail)
    with keyrail.wire() as wire, old.wire() as direct:
        assert wire.ask("SET", "n", "0") == b"+OK\r\n"
        new = group.fail_over()
        eventually(lambda: primary_of(keyrail) == new.port)
        sent = 0
        while sent < 50 or calls_itself_primary(direct):
            assert wire.ask("INCR", "n") == b":%d\r\n" % (sent + 1)
            sent += 1
            if sent == 2000:
                break
        assert new.do("GET", "n") == b"%d" % sent
    settled(group, keyrail)


def test_a_primary_that_dies(group: RealGroup, keyrail: Keyrail) -> None:
    """Keyrail serves again within a second of the Sentinels' decision, or as soon as this machine can."""
    old = settled(group, keyrail)
    with keyrail.wire() as idle, keyrail.wire() as waits:
        assert idle.ask("SET", "k", "v") == b"+OK\r\n"
        waits.say("BLPOP", "never", "0")
        old.await_info("clients", "blocked_clients", "1")
        with Beside(group, old) as beside:
            old.kill()
            assert waits.remaining() == []
            new = group.await_promotion(old)
            served = await_service(keyrail, new)
        assert beside.pace().late(served) <= 0, (served, beside.pace())
        assert idle.ask("GET", "k") == b"$1\r\nv\r\n"
    group.start_again([old])
    settled(group, keyrail)


@pytest.mark.parametrize("name", rest_is_long("strict.yaml", *(each for each in PACKAGED if each != "strict.yaml")))
def test_each_packaged_policy_serves_as_soon(
    group: RealGroup, new_keyrail: NewKeyrail, name: str, tmp_path: Path
) -> None:
    """Also where the outage lasts longer than commands wait, so that a breaker has opened."""
    file = tmp_path / "policy.yaml"
    file.write_text(packaged_policy(name).read_text().replace("failing_for: 2s", "failing_for: 200ms"))
    keyrail = new_keyrail(group.url, policy=file, extra=("--failover-wait", "100ms"))
    old = settled(group, keyrail)
    with Beside(group, old) as beside:
        old.kill()
        if name == "strict.yaml":
            keyrail.await_line("breaker redis-is-ill is open: Redis is failing")
        new = group.await_promotion(old)
        served = await_service(keyrail, new)
    assert beside.pace().late(served) <= 0, (served, beside.pace())
    group.start_again([old])


def test_memory_is_of_the_new_primary(group: RealGroup, new_keyrail: NewKeyrail, tmp_path: Path) -> None:
    keyrail = new_keyrail(group.url, policy=policy(tmp_path))
    settled(group, keyrail)
    with keyrail.wire() as wire:

        def from_memory(value: bytes) -> None:
            before = hits([keyrail])
            expected = b"$%d\r\n%b\r\n" % (len(value), value)
            eventually(lambda: wire.ask("GET", "cached:k") == expected and hits([keyrail]) > before)

        assert wire.ask("SET", "cached:k", "old") == b"+OK\r\n"
        from_memory(b"old")
        new = group.fail_over()
        eventually(lambda: f":{new.port}" in keyrail.http("/nodes")[1])
        new.do("SET", "cached:k", "new")
        eventually(lambda: wire.ask("GET", "cached:k") == b"$3\r\nnew\r\n")
        from_memory(b"new")
        new.do("SET", "cached:k", "newer")
        from_memory(b"newer")
    settled(group, keyrail)


def test_commands_wait_for_the_new_primary(group: RealGroup, new_keyrail: NewKeyrail) -> None:
    keyrail = new_keyrail(group.url, extra=("--failover-wait", "60s"))
    old = settled(group, keyrail)
    clients = [keyrail.wire() for _ in range(20)]
    for wire in clients:
        assert wire.ask("PING") == b"+PONG\r\n"
    old.kill()
    eventually(lambda: keyrail.http("/readyz")[0] == 503)
    scripted = keyrail.wire()
    scripted.say("EVAL", "return 'first'", "0")  # it has used no memory of the old primary
    for number, wire in enumerate(clients):
        wire.say("INCR", "waited")
        wire.say("ECHO", number)
    for number, wire in enumerate(clients):
        assert wire.frame().startswith(b":")
        assert wire.frame() == b"$%d\r\n%d\r\n" % (len(str(number)), number)
        wire.close()
    assert scripted.frame() == b"$5\r\nfirst\r\n"
    scripted.close()
    with keyrail.wire() as wire:
        assert wire.ask("GETDEL", "waited") == b"$2\r\n20\r\n"
    group.start_again([old])


FIRST = [
    "PING",
    "HELLO 3",
    "SELECT 3",
    "SUBSCRIBE x",
    "WATCH k",
    "MULTI",
    "BLPOP q 0.01",
    "EVAL return(1) 0",
    "CLIENT ID",
    "MONITOR",
    "RESET",
    "AUTH app secret",
    "HELLO 3 AUTH app secret",
    "AUTH ann secret",
    "HELLO 2 AUTH ann secret",
]


def test_whatever_a_new_client_begins_with_waits(group: RealGroup, new_keyrail: NewKeyrail) -> None:
    """A login, too: as the user of the route, and as another."""
    for server in group.servers:
        for user in ("ann", "app"):
            server.do("ACL", "SETUSER", user, "on", ">secret", "~*", "&*", "+@all")
    keyrail = new_keyrail(group.url.replace("://", "://app:secret@"), extra=("--failover-wait", "60s"))
    old = settled(group, keyrail)
    for sentinel in group.sentinels[1:]:  # one alone promotes nobody
        sentinel.freeze()
    try:
        old.kill()
        eventually(lambda: keyrail.http("/readyz")[0] == 503)
        clients = {first: keyrail.wire() for first in FIRST}
        for first, wire in clients.items():
            wire.say(*first.split())
    finally:
        for sentinel in group.sentinels[1:]:
            sentinel.thaw()
    for first, wire in clients.items():
        assert not wire.frame().startswith(b"-"), first
        wire.close()
    group.start_again([old])


def test_commands_do_not_wait_for_ever(group: RealGroup, new_keyrail: NewKeyrail) -> None:
    for server in group.servers:
        server.do("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")
    keyrail = new_keyrail(group.url.replace("://", "://app:secret@"), extra=("--failover-wait", "400ms"))
    old = settled(group, keyrail)
    with keyrail.wire() as wire, keyrail.wire() as single, keyrail.wire() as beginning:
        assert wire.ask("PING") == b"+PONG\r\n"
        for sentinel in group.sentinels[1:]:  # one alone promotes nobody
            sentinel.freeze()
        try:
            old.kill()
            eventually(lambda: keyrail.http("/readyz")[0] == 503)
            wire.say("PING")
            single.say("WATCH", "k")
            beginning.say("AUTH", "app", "secret")
            assert wire.remaining() == []
            assert single.remaining() == []
            assert beginning.remaining() == []
        finally:
            for sentinel in group.sentinels[1:]:
                sentinel.thaw()
    group.await_promotion(old)
    group.start_again([old])


def test_a_primary_that_hangs(group: RealGroup, keyrail: Keyrail) -> None:
    """What waits in its connections is for nobody, and is not sent again; it goes on as a replica."""
    old = settled(group, keyrail)
    with keyrail.wire() as pending, keyrail.wire() as idle:
        assert idle.ask("SET", "hung", "0") == b"+OK\r\n"
        assert pending.ask("PING") == b"+PONG\r\n"
        old.freeze()
        try:
            pending.say("INCR", "hung")
            with pytest.raises(Closed):
                pending.frame()
            assert idle.ask("GET", "hung") == b"$1\r\n0\r\n"
            assert idle.ask("SET", "hung", "new") == b"+OK\r\n"
        finally:
            old.thaw()
        settled(group, keyrail)
        assert idle.ask("GET", "hung") == b"$3\r\nnew\r\n"


def test_a_sentinel_that_ends_is_a_warning(group: RealGroup, keyrail: Keyrail) -> None:
    settled(group, keyrail)
    gone = group.sentinels[2]
    gone.kill()
    line = f"Sentinel 127.0.0.1:{gone.port}: Connection refused"
    keyrail.await_line(f"route default: {line}$")
    eventually(lambda: line in keyrail.http("/readyz")[1])
    status, text = keyrail.http("/readyz")
    assert (status, text.splitlines()[0]) == (200, "ready")
    gone.start()
    eventually(lambda: keyrail.http("/readyz") == (200, "ready\n"))


def test_a_network_that_drops_all_packets(group: RealGroup, new_keyrail: NewKeyrail) -> None:
    """Keyrail alone is cut off from the old primary: no connection to it ever ends by itself."""
    ways = [BlackHole(server.port) for server in group.servers]
    file = group.servers[0].folder / "nat.txt"
    lines = zip(group.servers, ways, strict=True)
    file.write_text("".join(f"127.0.0.1:{server.port} {way.url.removeprefix('redis://')}\n" for server, way in lines))
    try:
        keyrail = new_keyrail(f"{group.url}?map={file}")
        eventually(lambda: keyrail.http("/readyz")[0] == 200)
        group.settle()
        old = group.primary()
        with keyrail.wire() as pending, keyrail.wire() as idle:
            assert idle.ask("SET", "cut", "0") == b"+OK\r\n"
            ways[group.servers.index(old)].swallow()
            pending.say("INCR", "cut")
            new = group.fail_over()
            assert pending.remaining() == []
            assert idle.ask("GET", "cut") == b"$1\r\n0\r\n"
            assert idle.ask("SET", "cut", "1") == b"+OK\r\n"
            assert new.do("GET", "cut") == b"1"
        group.settle()
    finally:
        for way in ways:
            way.__exit__()


def test_a_primary_that_comes_back_before_anybody_is_promoted(group: RealGroup, keyrail: Keyrail) -> None:
    """A restart, and nothing else: the same server goes on, and clients stay but for those with scripts."""
    old = settled(group, keyrail)
    with keyrail.wire() as idle, keyrail.wire() as scripted:
        assert idle.ask("PING") == b"+PONG\r\n"
        assert scripted.ask("EVAL", "return 1", "0") == b":1\r\n"
        old.do("CONFIG", "REWRITE")
        old.kill()
        old.start()
        assert scripted.remaining() == []
        assert idle.ask("PING") == b"+PONG\r\n"
    settled(group, keyrail)


def lives(group: RealGroup, old: Server) -> None:
    group.fail_over()


def hangs(group: RealGroup, old: Server) -> None:
    old.freeze()
    try:
        group.await_promotion(old)
        eventually(lambda: all(each.names() != old.port for each in group.sentinels))
    finally:
        old.thaw()


def restarts(group: RealGroup, old: Server) -> None:
    old.kill()
    group.await_promotion(old)
    eventually(lambda: all(each.names() != old.port for each in group.sentinels))
    old.start()


@pytest.mark.parametrize("act", [lives, hangs, restarts])
def test_a_deposed_primary_calls_itself_primary(
    group: RealGroup, new_keyrail: NewKeyrail, act: Callable[[RealGroup, Server], None]
) -> None:
    """Nobody uses it, and one line says so until it is a replica."""
    keyrail = new_keyrail(group.url)
    old = settled(group, keyrail)
    with group.leaving_old_primaries_alone():
        act(group, old)
        eventually(lambda: f"127.0.0.1:{old.port} calls itself a primary, too" in keyrail.http("/readyz")[1])
        new = group.primary()
        line = (
            f"route default: 127.0.0.1:{old.port} calls itself a primary, too: "
            f"commands go to 127.0.0.1:{new.port}, and writes around Keyrail will be lost"
        )
        eventually(lambda: keyrail.http("/readyz")[0] == 200)
        text = keyrail.http("/readyz")[1]
        assert text.splitlines()[0] == "ready"
        assert "calls itself" in text
        written = b"%d" % time.monotonic_ns()
        with keyrail.wire() as wire:
            assert wire.ask("SET", "deposed", written) == b"+OK\r\n"
        assert old.do("GET", "deposed") != written
        with old.wire() as direct:
            assert calls_itself_primary(direct)
    eventually(lambda: keyrail.http("/readyz") == (200, "ready\n"))
    # A machine that is slow for a moment is another trouble, behind which this one is told again.
    assert 1 <= keyrail.stderr.count(line) <= 3, keyrail.stderr
    settled(group, keyrail)


def test_the_replicas_are_those_that_sentinels_list(new_keyrail: NewKeyrail) -> None:
    """One that is down stays among them, and one that wants to be unknown is none."""
    group = RealGroup(kind_named("redis-7.0"))
    try:
        unknown, dying = (each for each in group.servers if each is not group.primary())
        unknown.do("CONFIG", "SET", "replica-announced", "no")
        eventually(lambda: {each.knows() for each in group.sentinels} == {(2, 1)})
        keyrail = new_keyrail(group.url)

        def shown() -> dict[str, tuple[str, str]]:
            (nodes,) = json.loads(keyrail.http("/nodes")[1])["routes"].values()
            return {each["address"]: (each["role"], each["health"]) for each in nodes}

        primary = {f"127.0.0.1:{group.primary().port}": ("primary", "ok")}
        eventually(lambda: shown() == {**primary, f"127.0.0.1:{dying.port}": ("replica", "ok")})
        dying.kill()
        eventually(lambda: shown() == {**primary, f"127.0.0.1:{dying.port}": ("replica", "lost")})
        eventually(lambda: f"127.0.0.1:{dying.port} cannot be reached" in keyrail.stderr)
    finally:
        group.close()
