"""The advice of an incident: a cap for a hot key that leaves its normal uses alone, and remedies for large values.

A cap is above twice the rate that the key had before the incident, and never below the rate from which a key is hot.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from proxy.traffic.alerts import Hot
from proxy.traffic.client_ids import ClientName, id_of, name_of
from proxy.traffic.figures import percent, short
from proxy.traffic.key_text import shown
from proxy.traffic.labels import Client
from proxy.traffic.redaction import Redaction

ADVICE, REMEDY, IN_FORCE = "advice: ", "remedy: ", "in force: "
"""How lines of advice begin, and those about remedies that are in force."""

_NORMAL = 2
"""A cap is at least this multiple of the normal rate."""
_WORDS_OF_REMEDY = ("list", "undo")
_KB, _MB = 1 << 10, 1 << 20


@dataclass(frozen=True, slots=True)
class Cap:
    """Uses of a key per second that a remedy should allow, and why."""

    rate: int
    reason: str


class InForce(NamedTuple):
    """A remedy in force: the limit of a `key`, or its local cache (`caches`); or the limit of commands of a `client`,
    of one `command`, or of an `app`, as far as they are given."""

    text: str
    key: bytes = b""
    caches: bool = False
    app: str = ""
    client: ClientName | None = None
    command: str = ""

    def does(self, advised: "Advised") -> bool:
        """Whether it does what is advised."""
        if advised.client:
            return self.is_about(advised.client, advised.command)
        same = bool(advised.key) and (self.key, self.caches) == (advised.key, advised.caches)
        return same and self.app in ("", advised.app)

    def is_about(self, client: Client, command: str = "") -> bool:
        """Whether it is about the client: about all that it does, or about this command."""
        its = self.client in (None, name_of(client)) and self.app in ("", client[0])
        named = self.client is not None or bool(self.app) or bool(self.command)
        return not self.key and named and its and self.command in ("", command)

    @property
    def line(self) -> str:
        """It in a line."""
        return IN_FORCE + self.text


class Advised(NamedTuple):
    """Lines of advice, and the remedy in the last of them, if there is one: a limit of a `key` for an `app` ("all"
    stands for all), its local cache (`caches`), or a limit of what a `client` does, or of its `command`."""

    lines: tuple[str, ...]
    key: bytes = b""
    caches: bool = False
    app: str = ""
    client: Client = ()
    command: str = ""


def not_in_force(advised: Sequence[Advised], in_force: Sequence[InForce], key: bytes) -> list[str]:
    """The lines about remedies that are in force, for a `key` or as advised, and the advice that is left."""
    standing = [each for each in in_force if (key and each.key == key) or any(map(each.does, advised))]
    left = [each for each in advised if not any(remedy.does(each) for remedy in standing)]
    return [*(each.line for each in standing), *(line for each in left for line in each.lines)]


def cap_of(hot: Hot, others: float, before: float | None, peak: float) -> Cap:
    """The cap for a hot key: `others` are the uses per second of all other keys, `before` was its own rate.

    `before` is None if the key has been as busy in all known figures; then its `peak` may be normal.
    """
    of_all = others * hot.share / (1 - hot.share) if hot.share < 1 else 0.0
    calm = _down(max(hot.rate, of_all))
    normal = _up(_NORMAL * (peak if before is None else before))
    if before is None and normal > calm:
        return Cap(normal, "twice its peak, since Keyrail does not know its rate before")
    if normal > calm:
        return Cap(normal, f"twice its rate before, {short(before or 0.0)}/s")
    limit = f"{percent(hot.share)} of all uses" if of_all > hot.rate else f"{short(hot.rate)}/s"
    usual = f"; its {short(before)}/s before pass" if before else ""
    return Cap(calm, f"a key is hot from {limit}{usual}")


def of_hot_key(app: str, cap: Cap) -> str:
    """The cap in a line."""
    whom = "all clients" if app == "all" else f"app {app}"
    return f"{ADVICE}cap {whom} at {short(cap.rate)}/s: {cap.reason}"


def remedy(redaction: Redaction, key: bytes, app: str, rate: int, name: str, options: str) -> str:
    """The command that puts a cap in force; `name` is the incident's, `options` lead to the route."""
    which = _which(redaction, key, name)
    return f"{REMEDY}keyrail remedy {which} --cap {app}={rate}/s --for 30m --because {name}{options}"


def of_read_key() -> str:
    """A local cache in a line."""
    return f"{ADVICE}answer its reads from memory: no client is refused anything"


def cache(redaction: Redaction, key: bytes, name: str, options: str) -> str:
    """The command that answers reads of the key from memory."""
    return f"{REMEDY}keyrail remedy {_which(redaction, key, name)} --local-cache --for 2h --because {name}{options}"


def _which(redaction: Redaction, key: bytes, name: str) -> str:
    text = shown(key)
    # A redacted key cannot be typed, but the incident knows the key.
    typed = text == redaction.of(key) and not text.startswith("-") and text not in _WORDS_OF_REMEDY
    return shlex.quote(text) if typed else f"--incident {name}"


SPARED = f"{ADVICE}no remedy: its reads are answered from memory, which spares Redis"
MISSING_KEY = f"{ADVICE}a cap relieves Redis, but the key does not exist: let one client write it"
HOT_SLOT = f"{ADVICE}keys with the same {{hash tag}} share a slot, and so a node of a cluster: use several hash tags"


def of_large_value(limit: int, *, compressed: bool = False) -> str:
    """The advice against values of at least ``limit`` bytes; ``compressed``: this one is stored so."""
    size = (
        f"{limit // _KB // _KB}MB" if limit % (_KB * _KB) == 0 else f"{limit // _KB}KB" if limit >= _KB else f"{limit}B"
    )
    ways = "split it over several keys" + ("" if compressed else ", or read parts of it (GETRANGE, HSCAN, LRANGE)")
    ways = ways if compressed else f"compress it, {ways}"
    return f"{ADVICE}{ways}; a rule `sizes: {{value: {size}}}` finds larger writes"


def of_client(client: Client, command: str, how: str, name: str, options: str) -> str:
    """The command that stops or caps a client (`how`), or one command of it."""
    which = f"--client {id_of(name_of(client))}" + (f" --command {command}" if command else "")
    return f"{REMEDY}keyrail remedy {which} {how} --for 30m --because {name}{options}"


def half_of(rate: float) -> int:
    """A cap of about half of a rate."""
    return max(1, _down(rate / 2))


KEYS_LOOP = f"{ADVICE}walk the keys with SCAN, or keep their names in a set; a rule `keys_by_scan` answers KEYS by SCAN"
RECONNECTS = f"{ADVICE}keep connections open: one client object for each process, with a pool"
BUSY_CLIENT = f"{ADVICE}make its slowest commands smaller: others wait behind them"


def _down(number: float) -> int:
    """The nearest number below that is one, two or five times a power of ten."""
    power = 10 ** (len(str(max(1, int(number)))) - 1)
    return int(max(each for each in (1, 2, 5) if each * power <= max(1, number)) * power)


def _up(number: float) -> int:
    """The nearest such number above."""
    power = 10 ** (len(str(max(1, int(number)))) - 1)
    return int(min(each for each in (1, 2, 5, 10) if each * power >= number) * power)
