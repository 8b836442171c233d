"""The roles of the swarm's members: members that check every reply, and members that disturb them.

Each is a coroutine of (swarm, its own name, its own randomness); the name is part of every token that it sends.
"""

from __future__ import annotations

import asyncio
import random

from tests.mixup.swarm import Ended, Role, Swarm, Wrong, array, bulk
from tests.resp import pack

GARBAGE = (b"*x\r\n", b"*1\r\n:1\r\n", b'SET "a\r\n', b"*2\r\n$-1\r\n", b"$5\r\nhello\r\n", b"\xff\xfe\r\n")
OK, QUEUED = b"+OK\r\n", b"+QUEUED\r\n"


async def asker(swarm: Swarm, name: str, chance: random.Random) -> None:
    """Single commands with replies of many sizes and kinds, one at a time."""
    client = await swarm.connect(name, chance.choice((2, 3)))
    for turn in range(chance.randrange(5, 60)):
        token = f"{name}:{turn}:{chance.randrange(1 << 30)}".encode()
        value = token * chance.choice((1, 1, 1, 20, 400))
        await client.ask([(pack("SET", f"k:{name}", value), OK)], name)
        await client.ask([(pack("GET", f"k:{name}"), bulk(value))], name)
        unknown = b"NOSUCH-" + token
        client.send(pack(unknown))
        if token not in (reply := await client.frame()) or reply[:1] != b"-":
            raise Wrong(f"{name}: the error of {unknown!r} was {reply[:200]!r}")
        swarm.count(name, 3)
        if swarm.over:
            break
    client.leave(abruptly=chance.random() < 0.3)


async def pipeliner(swarm: Swarm, name: str, chance: random.Random) -> None:
    """Deep pipelines of mixed commands, cut at any byte."""
    client = await swarm.connect(name)
    for turn in range(chance.randrange(2, 12)):
        commands = []
        for index in range(chance.choice((1, 5, 50, 300))):
            token = f"{name}:{turn}:{index}".encode()
            commands += chance.choice(
                (
                    [(pack("ECHO", token), bulk(token))],
                    [(b"echo " + token + b"\r\n", bulk(token)), (b"\r\n*0\r\n" + pack("PING", token), bulk(token))],
                    [(pack("SET", token, token, "PX", "100"), OK), (pack("EXISTS", token), b":1\r\n")],
                    [(pack("MULTI"), OK), (pack("ECHO", token), QUEUED), (pack("EXEC"), array(bulk(token)))],
                    [(pack("EVAL", "return ARGV[1]", "0", token), bulk(token))],
                )
            )
        commands = [(c, e) for c, e in commands if b"EXISTS" not in c]
        data = b"".join(command for command, _ in commands)
        for start in range(0, len(data), step := chance.choice((len(data), 1000, 77))):
            client.send(data[start : start + step])
            await client.writer.drain()
        for _, expected in commands:
            await client.expect(expected, name)
        swarm.count(name, len(commands))
        if swarm.over:
            break
    client.leave()


async def transactor(swarm: Swarm, name: str, chance: random.Random) -> None:
    """Transactions in steps and whole, watched, discarded and aborted, in databases of their own."""
    client = await swarm.connect(name)
    database = chance.randrange(8)
    await client.ask([(pack("SELECT", database), OK)], name)
    for turn in range(chance.randrange(3, 20)):
        token = f"{name}:{turn}".encode()
        key = f"t:{name}"
        whole = [
            (pack("MULTI"), OK),
            (pack("SET", key, token), QUEUED),
            (pack("GET", key), QUEUED),
            (pack("EXEC"), array(OK, bulk(token))),
        ]
        if chance.random() < 0.5:
            await client.ask(whole, name)
        else:
            for command in [(pack("WATCH", key), OK), *whole]:
                await client.ask([command], name)
        if chance.random() < 0.3:
            await client.ask([(pack("MULTI"), OK), (pack("ECHO", token), QUEUED), (pack("DISCARD"), OK)], name)
        if chance.random() < 0.3:
            client.send(pack("MULTI") + pack("NOSUCH-" + name) + pack("EXEC") + pack("ECHO", token))
            await client.expect(OK, name)
            for part in (name.encode(), b"EXECABORT"):
                if part not in (reply := await client.frame()):
                    raise Wrong(f"{name}: {reply[:200]!r} in an aborted transaction")
            await client.expect(bulk(token), name)
        await client.ask([(pack("GET", key), bulk(token))], name)
        swarm.count(name, 5)
        if swarm.over:
            break
    client.leave()


async def blocker(swarm: Swarm, name: str, chance: random.Random) -> None:
    """Waits on its own list for its own token, pushed by another connection; gives up now and then."""
    client, other = await swarm.connect(name), await swarm.connect(name)
    for turn in range(chance.randrange(2, 10)):
        token, queue = f"{name}:{turn}".encode(), f"q:{name}:{chance.randrange(1 << 40)}".encode()
        client.send(pack("BLPOP", queue, "0") + pack("ECHO", token))
        if chance.random() < 0.3:
            await asyncio.sleep(0.02)
        await other.ask([(pack("RPUSH", queue, token), b":1\r\n")], name)
        await client.expect(array(bulk(queue), bulk(token)), name)
        await client.expect(bulk(token), name)
        if chance.random() < 0.2:
            client.send(pack("BRPOP", f"never:{name}", "0.01") + pack("ECHO", token))
            await client.expect(b"*-1\r\n", name)
            await client.expect(bulk(token), name)
        swarm.count(name, 3)
        if swarm.over:
            break
    client.leave()
    other.leave()


async def subscriber(swarm: Swarm, name: str, chance: random.Random) -> None:
    """Hears its own channel only, and goes back to ordinary commands."""
    protocol = chance.choice((2, 3))
    mark = b">" if protocol == 3 else b"*"
    client, other = await swarm.connect(name, protocol), await swarm.connect(name)
    channel = f"c:{name}".encode()
    for turn in range(chance.randrange(1, 6)):
        client.send(pack("SUBSCRIBE", channel))
        await client.expect(mark + b"3\r\n" + bulk(b"subscribe") + bulk(channel) + b":1\r\n", name)
        for index in range(chance.randrange(1, 20)):
            token = f"{name}:{turn}:{index}".encode()
            other.send(pack("PUBLISH", channel, token))
            if (heard := await other.frame()) != b":1\r\n":
                await client.frame()  # nobody hears it only if our subscription was killed, and then this ends
                raise Wrong(f"{name}: PUBLISH was answered {heard!r} while its channel had a subscriber")
            await client.expect(mark + b"3\r\n" + bulk(b"message") + bulk(channel) + bulk(token), name)
            swarm.count(name, 2)
        client.send(pack("UNSUBSCRIBE", channel) + pack("ECHO", channel))
        await client.expect(mark + b"3\r\n" + bulk(b"unsubscribe") + bulk(channel) + b":0\r\n", name)
        await client.expect(bulk(channel), name)
        if swarm.over:
            break
    client.leave(abruptly=chance.random() < 0.5)
    other.leave()


async def heavy(swarm: Swarm, name: str, chance: random.Random) -> None:
    """Values large enough to be streamed, between small ones."""
    client = await swarm.connect(name)
    for turn in range(chance.randrange(1, 4)):
        token = f"{name}:{turn}:".encode()
        value = token * (chance.choice((70_000, 1_100_000, 2_500_000)) // len(token))
        await client.ask(
            [
                (pack("SET", f"h:{name}", value), OK),
                (pack("ECHO", token), bulk(token)),
                (pack("GET", f"h:{name}"), bulk(value)),
                (pack("ECHO", token), bulk(token)),
            ],
            name,
        )
        swarm.count(name, 4)
        if swarm.over:
            break
        await asyncio.sleep(chance.random() * 0.3)
    client.leave()


async def quiet_one(swarm: Swarm, name: str, chance: random.Random) -> None:
    """CLIENT REPLY, RESET, HELLO and SELECT in the middle of everything."""
    client = await swarm.connect(name)
    for turn in range(chance.randrange(2, 10)):
        token = f"{name}:{turn}".encode()
        client.send(pack("CLIENT", "REPLY", "SKIP") + pack("ECHO", "unheard-" + name) + pack("ECHO", token))
        await client.expect(bulk(token), name)
        unheard = pack("ECHO", "unheard-" + name) * 3
        client.send(pack("CLIENT", "REPLY", "OFF") + unheard + pack("CLIENT", "REPLY", "ON"))
        await client.expect(OK, name)
        await client.ask([(pack("ECHO", token), bulk(token)), (pack("RESET"), b"+RESET\r\n")], name)
        named = [(pack("CLIENT", "SETNAME", name), OK), (pack("CLIENT", "GETNAME"), bulk(name.encode()))]
        await client.ask(named, name)
        await client.ask([(pack("SELECT", turn % 4), OK), (pack("ECHO", token), bulk(token))], name)
        swarm.count(name, 8)
        if swarm.over:
            break
    client.leave()


async def denied(swarm: Swarm, name: str, chance: random.Random) -> None:
    """Under `tour.yaml`: refusals of its own, by name and by key, between its own replies."""
    client = await swarm.connect(name, chance.choice((2, 3)))
    for turn in range(chance.randrange(3, 30)):
        token = f"{name}:{turn}".encode()
        echo = (pack("ECHO", token), bulk(token))
        refusals = [pack("KEYS", token), pack("GET", "badly-named"), pack("FLUSHALL"), pack("SET", "bad", token)]
        sent: list[tuple[bytes, bytes | None]] = []
        for _ in range(chance.choice((1, 3, 30))):
            sent += chance.choice(([echo], [(chance.choice(refusals), None)], [echo, (refusals[0], None), echo]))
        if chance.random() < 0.3:
            sent = [
                (pack("MULTI"), OK),
                (pack("ECHO", token), QUEUED),
                (refusals[3], None),
                (pack("DISCARD"), OK),
                echo,
            ]
        client.send(b"".join(command for command, _ in sent))
        for command, expected in sent:
            if expected is not None:
                await client.expect(expected, name)
            elif not (reply := await client.frame()).startswith(b"-DENIED keyrail/"):
                raise Wrong(f"{name}: {command!r} was answered {reply[:200]!r}")
        swarm.count(name, len(sent))
        if swarm.over:
            break
    client.leave()


async def named(swarm: Swarm, name: str, chance: random.Random) -> None:
    """Under `tour.yaml`: rewritten commands, whose edited replies must be the ones that this client's keys give."""
    client = await swarm.connect(name)
    for turn in range(chance.randrange(3, 30)):
        key, token = f"swarm:{name}:{chance.randrange(1 << 40)}", f"{name}:{turn}".encode()
        once = [
            (pack("SETNX", key, token), b":1\r\n"),
            (pack("SETNX", key, "other"), b":0\r\n"),
            (pack("GETSET", key, token + b"!"), bulk(token)),
            (pack("SET", key, token), OK),
            (pack("GET", key), bulk(token)),
            (pack("DEL", key, key + ":none"), b":1\r\n"),
        ]
        if chance.random() < 0.4:
            queued = [(command, QUEUED) for command, _ in once]
            whole = array(*(reply for _, reply in once))
            once = [(pack("MULTI"), OK), *queued, (pack("EXEC"), whole)]
        if chance.random() < 0.3:
            for command in once:
                await client.ask([command], name)
        else:
            await client.ask(once, name)
        swarm.count(name, len(once))
        if swarm.over:
            break
    client.leave()


async def leaver(swarm: Swarm, name: str, chance: random.Random) -> None:
    """Asks for a lot and goes: before reading, in the middle of a command, while it is blocked, in a transaction."""
    client = await swarm.connect(name)
    parting = chance.choice(
        (
            pack("ECHO", name * 100) * chance.randrange(1, 200),
            pack("GET", f"k:asker-{chance.randrange(10)}") * 50 + b"*2\r\n$4\r\nECHO\r\n$500\r\nhalf",
            pack("BLPOP", f"abandoned:{name}", "0"),
            pack("MULTI") + pack("SET", "x", name),
            (pack("GET", f"k:{name}") + pack("CLIENT", "UNBLOCK", 999_999_999)) * chance.randrange(1, 20),
            pack("SUBSCRIBE", f"left:{name}") + pack("ECHO", name),
            pack("SET", f"big:{name}", name * 300_000)[: -chance.randrange(1, 100_000)],
        )
    )
    client.send(parting)
    await asyncio.sleep(chance.choice((0, 0, 0.005, 0.05)))
    client.leave(abruptly=chance.random() < 0.5)
    swarm.count(name, 1)
    await asyncio.sleep(0.02)


async def unblocker(swarm: Swarm, name: str, chance: random.Random) -> None:
    """Pipelines in which commands that end what others wait for, on a connection of their own, overtake reads."""
    client = await swarm.connect(name, chance.choice((2, 3)))
    keys = [f"{name}:{index}" for index in range(8)]
    await client.ask([(pack("SET", key, key * chance.choice((1, 1, 300)), "PX", "60000"), OK) for key in keys], name)
    for turn in range(chance.randrange(2, 10)):
        commands = []
        for index in range(chance.choice((2, 10, 100))):
            key = chance.choice(keys)
            commands += chance.choice(
                (
                    [(pack("GETRANGE", key, 0, len(key) - 1), bulk(key.encode()))] * 3,
                    [(pack("CLIENT", "UNBLOCK", 999_999_999), b":0\r\n"), (pack("STRLEN", f"{name}:none"), b":0\r\n")],
                    [(pack("CLIENT", "UNPAUSE"), OK), (pack("ECHO", token := f"{turn}:{index}"), bulk(token.encode()))],
                    [(pack("SETRANGE", f"{name}:a", 0, "abc"), b":3\r\n"), (pack("PING"), b"+PONG\r\n")],
                )
            )
        await client.ask(commands, name)
        swarm.count(name, len(commands))
        if swarm.over:
            break
    client.leave(abruptly=chance.random() < 0.3)


async def vandal(swarm: Swarm, name: str, chance: random.Random) -> None:
    """Sends what no client should, behind good commands whose replies it still checks."""
    client = await swarm.connect(name)
    token = name.encode()
    garbage = chance.choice(GARBAGE)
    client.send(pack("ECHO", token) + garbage)
    await client.expect(bulk(token), name)
    swarm.count(name, 1)
    if (reply := await client.frame())[:1] != b"-":
        raise Wrong(f"{name}: garbage was answered {reply[:200]!r}")
    client.leave(abruptly=chance.random() < 0.5)
    await asyncio.sleep(0.02)


async def killer(swarm: Swarm, name: str, chance: random.Random) -> None:
    """Cuts upstream connections, all or some, from behind."""
    client = await swarm.connect(name, upstream=True)
    while not swarm.over:
        await asyncio.sleep(chance.uniform(0.2, 0.6))
        client.send(pack("CLIENT", "LIST"))
        listed = [line.split() for line in (await client.frame()).decode().splitlines() if line.startswith("id=")]
        ids = [fields[0][3:] for fields in listed if not any(word.startswith("cmd=client") for word in fields)]
        for victim in chance.sample(ids, k=min(len(ids), chance.choice((1, 1, 3, len(ids))))):
            client.send(pack("CLIENT", "KILL", "ID", victim))
            await client.frame()
            swarm.count(name, 1)
    raise Ended


CHECKING: list[tuple[Role, int]] = [
    (asker, 60),
    (pipeliner, 40),
    (transactor, 30),
    (unblocker, 20),
    (blocker, 25),
    (subscriber, 25),
    (heavy, 4),
    (quiet_one, 15),
]
TROUBLE: list[tuple[Role, int]] = [(leaver, 25), (vandal, 10)]
