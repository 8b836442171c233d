"""Made-up applications: families of keys with types, TTLs and clients, their commands, and the evidence of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.server.evidence.model import Evidence
from proxy.traffic.command_form import exemplar, form_of
from proxy.traffic.evidence_rows import CommandKey, EvidenceRows, FormKey, FormRow, Identity, newest
from proxy.traffic.redaction import Redact, Redaction
from proxy.traffic.shapes import shape

NOW = 1_764_230_400.0
WORDS = ["user", "cart", "session", "order", "page", "rate", "lock", "queue", "feed", "item", "stock", "mail", "vote"]
HOSTILE = (
    *(b'a:"quoted"', b"a:it's", b"a:#hash", b"a: b: c", b"line\nbreak:1", b"\xff\xfe:\x00", "naïve:ключ:1".encode()),
    *(b"{tag}:a", b"x{a:int}", b"x{{a...}}", b"a::b", b":", b"a:", b"- b", b"*", b"[1]:{x}", b"user:{int}", b"!tag"),
    *(b"k" * 400, b"a:" * 60 + b"b", b"{", b"}", b"%s", b"null", b"0x1F:1", b"<5 bytes>", b"a\\x41", b"2026-01-15"),
)
"""Keys that YAML, comments, patterns or exemplars might trip over."""


@dataclass
class Sent:
    """One command as it was sent."""

    user: str
    client_name: str
    argv: list[bytes]


@dataclass
class Traffic:
    """All that was sent, and to which app each client belongs by the policy in force."""

    sent: list[Sent] = field(default_factory=list)
    apps: dict[str, str] = field(default_factory=dict)

    def evidence(self, redact: Redact = Redact.NONE) -> Evidence:
        """The evidence of it, by the functions that record it: three exemplars for each form and hour."""
        redaction, found = Redaction(redact, b"secret"), Evidence([(NOW - 86_400, NOW)])
        for number, each in enumerate(self.sent):
            command, hour = Command(STANDARD, each.argv), int(NOW) - 3600 * (number % 3)
            rows = found.hours.setdefault((hour, "default"), EvidenceRows())
            name = shape(each.client_name.encode())[:64]
            who = Identity(self.apps.get(each.user, "unknown"), each.user, name, "redis-py 5.0", "")
            keys = command.known_keys
            key = FormKey(who, command.name, shape(keys[0].name) if keys else "", form_of(command))
            row = rows.forms.setdefault(key, FormRow())
            row.add(FormRow(1, 1, newest([], [exemplar(command, redaction, hour + number)])))
            told = CommandKey(who, command.name)
            rows.commands[told] = rows.commands.get(told, 0) + 1
        return found


def _id(random: Random, kind: str) -> bytes:
    match kind:
        case "int":
            return b"%d" % random.randrange(10 ** random.randint(1, 12))
        case "uuid":
            return str(UUID(int=random.getrandbits(128))).encode()
        case "hex":
            return b"%016x" % random.getrandbits(64)
        case "date":
            return b"2026-%02d-%02d" % (random.randint(1, 12), random.randint(1, 28))
        case "time":
            return b"2026-01-%02dT%02d:%02d" % (random.randint(1, 28), random.randint(0, 23), random.randint(0, 59))
        case "email":
            return b"%s@example.org" % random.choice(WORDS).encode()
        case "opaque":
            return bytes(random.choices(b"abcdefGHIJ0123456789", k=random.randint(2, 30)))
        case "ip":
            return b"10.%d.0.%d" % (random.randrange(256), random.randrange(256))
        case "numbered":
            return random.choice([b"v", b"node", b"a"]) + b"%d" % random.randrange(50)
        case "tag":
            return b"{%d}" % random.randrange(1000)
        case _:
            return random.choice(WORDS).encode()


KINDS = ("int", "uuid", "hex", "date", "time", "email", "opaque", "ip", "numbered", "tag", "word")


def _value(random: Random) -> bytes:
    return bytes(random.randrange(256) for _ in range(random.randrange(1, 1 << random.randint(1, 9))))


def _ttl(random: Random, usual: int) -> bytes:
    return b"%d" % random.randint(max(1, usual // 2), usual * 2)


def _words(line: bytes, key: bytes, value: bytes, ttl: bytes) -> list[bytes]:
    """A command in which K, V and T stand for a key, a value and a number."""
    return [{b"K": key, b"V": value, b"T": ttl, b"T0": ttl + b"000"}.get(word, word) for word in line.split()]


_USES: dict[str, list[list[bytes]]] = {
    "covered": [
        [b"SET K V EX T", b"SET K V PX T0", b"set K V ex T NX", b"SETEX K T V"],
        [b"GET K", b"GETEX K EX T", b"STRLEN K", b"MGET K K"],
    ],
    "string": [
        [b"SET K V EX T", b"SET K V", b"INCR K", b"SET K V KEEPTTL", b"SET K V EXAT 1764239999"],
        [b"GET K", b"APPEND K V", b"EXPIRE K T", b"PERSIST K"],
    ],
    "hash": [
        [b"HSET K V V", b"HSET K V V V V V V V V", b"HINCRBY K V 1"],
        [b"EXPIRE K T", b"PEXPIRE K T0", b"PERSIST K", b"HGETALL K"],
    ],
    "list": [[b"LPUSH K V", b"RPUSH K" + b" V" * 40], [b"LRANGE K 0 -1", b"BLPOP K 1"]],
    "zset": [[b"ZADD K 1 V 2 V", b"ZADD K NX 1 V", b"ZADD K" + b" 1 V" * 20], [b"ZRANGE K 0 10 WITHSCORES"]],
    "bits": [[b"SETBIT K T 1", b"SETRANGE K T V", b"BITFIELD K SET u8 #900 1"]],
    "stream": [[b"XADD K MAXLEN ~ 1000 * V V"], [b"EVALSHA V 1 K V", b"XLEN K"]],
}
"""By kind of a family: the commands of which each of its keys gets one of every line."""


def _uses(random: Random, kind: str, key: bytes, usual: int) -> Iterator[list[bytes]]:
    for lines in (*_USES[kind], [b"DEL K", b"EXISTS K", b"TYPE K", b"UNLINK K K"]):
        yield _words(random.choice(lines), key, _value(random), _ttl(random, usual))


ODD = [
    *([b"PING"], [b"CONFIG", b"GET", b"maxmemory"], [b"KEYS", b"*"], [b"NEW.COMMAND", b"a"], [b"STRANGE", b"b"]),
    *([b"MULTI"], [b"SCAN", b"0"], [b"MSET", b"one:1", b"v", b"two:2", b"w"], [b"RENAME", b"old:1", b"new:1"]),
    *([b"EVAL", b"return 1", b"3", b"k"], [b"SET", b"HOSTILE", b"v"], [b"GET", b"HOSTILE"]),
]


def _client_names(random: Random, number: int) -> Callable[[], str]:
    return random.choice(
        [
            lambda: "",
            lambda: f"worker-{number}-{random.randrange(99)}",
            lambda: f"rq:{number}:{UUID(int=random.getrandbits(128))}",
        ]
    )


def make_traffic(random: Random, most_families: int = 12) -> Traffic:
    """A few applications, each with some families of keys, and a few odd commands."""
    traffic = Traffic()
    for number in range(random.randint(1, 5)):
        user = random.choice(["default", f"svc-{number}", f"Team {number}", f"üser{number}"])
        if user != "default" and random.random() < 0.5:
            traffic.apps[user] = f"app-{number}"
        name = _client_names(random, number)
        for _ in range(random.randint(1, most_families)):
            words = [random.choice(WORDS).encode() for _ in range(4)]
            kinds = random.choices(KINDS, k=random.randint(0, 3))
            its_type, usual = random.choice([*_USES]), int(10 ** random.randint(1, 5))
            for _ in range(random.randint(1, 12)):
                ids = (
                    word if kind == "word" else _id(random, kind) for word, kind in zip(words[1:], kinds, strict=False)
                )
                for argv in _uses(random, its_type, b":".join((words[0], *ids)), usual):
                    traffic.sent.append(Sent(user, name(), argv))
        for line in random.sample(ODD, random.randrange(len(ODD))):
            argv = [random.choice(HOSTILE) if word == b"HOSTILE" else word for word in line]
            traffic.sent.append(Sent(user, name(), argv))
    return traffic


def traffic_of(*lines: str, user: str = "default", client_name: str = "", app: str = "") -> Traffic:
    """The commands of one client, as typed."""
    return Traffic(
        [Sent(user, client_name, [word.encode() for word in line.split()]) for line in lines],
        {user: app} if app else {},
    )
