"""Incidents about clients in words: who it is, what it does, and what to do about it.

worker-7 at 10.0.0.5 KEYS LOOP 12/s, 80 ms each at Redis since 02:47:03 UTC
id c3f9a1b27, app checkout, redis-py 5.0.1
advice: walk the keys with SCAN, or keep their names in a set; …
remedy: keyrail remedy --client c3f9a1b27 --command KEYS --refuse --for 30m --because INC-9
"""

from typing import NamedTuple

from proxy.traffic import advice
from proxy.traffic.advice import Advised
from proxy.traffic.client_figures import TimeAtRedis
from proxy.traffic.client_ids import id_of, name_of
from proxy.traffic.figures import percent, short, two_digits
from proxy.traffic.hotspots import IncidentKind
from proxy.traffic.labels import UNKNOWN_APP, Client
from proxy.traffic.misuse import KEYS, ClientFigures

KEYS_LOOP, RECONNECTING, BUSY = "KEYS LOOP", "RECONNECTING", "BUSY"
_USER_OF_MOST = "default"


class ClientWords(NamedTuple):
    """An incident about a client."""

    state: str
    rate: float
    amount: str
    details: tuple[str, ...]
    advised: Advised


def who(client: Client) -> str:
    """A client in a few words: ``worker-7 at 10.0.0.5``."""
    _, user, name, _, host = client
    return f"{name or ('a client' if user == _USER_OF_MOST else user)} at {host or 'a unix socket'}"


def more_of(client: Client) -> str:
    """What is known of it beside that."""
    app, user, name, library, _ = client
    known = [f"id {id_of(name_of(client))}"]
    known += [f"app {app}"] if app != UNKNOWN_APP else []
    known += [f"user {user}"] if user != _USER_OF_MOST and name else []
    return ", ".join([*known, *([library] if library else [])])


def words_of(kind: IncidentKind, its: ClientFigures, name: str, options: str) -> ClientWords:
    """An incident about this client; `name` is the incident's, `options` lead to the route."""
    client = its.client
    if kind is IncidentKind.KEYS_LOOP:
        rate = its.keys.count / its.seconds
        amount = f"{short(rate)}/s{_each(its.keys)}"
        said = advice.KEYS_LOOP, advice.of_client(client, KEYS, "--refuse", name, options)
        command, state = KEYS, KEYS_LOOP
    elif kind is IncidentKind.RECONNECTS:
        rate, command, state = its.ended.connections / its.seconds, "", RECONNECTING
        amount = (
            f"{short(rate)}/s, {two_digits(its.ended.commands / its.ended.connections)} commands on each connection"
        )
        cap = f"--cap {advice.half_of(its.ended.commands / its.seconds)}/s"
        said = advice.RECONNECTS, advice.of_client(client, "", cap, name, options)
    else:
        rate, command, state = its.busy, "", BUSY
        slowest = ", ".join(f"{each} {short(took.count / its.seconds)}/s{_each(took)}" for each, took in its.slowest())
        amount = f"{percent(rate)} of each second at Redis: {slowest}"
        most = max(1.0, sum(took.count for _, took in its.slowest()) / its.seconds)
        said = advice.BUSY_CLIENT, advice.of_client(client, "", f"--cap {advice.half_of(most)}/s", name, options)
    return ClientWords(state, rate, amount, (more_of(client),), Advised(said, client=client, command=command))


def _each(took: TimeAtRedis) -> str:
    return f", {two_digits(took.seconds / took.count * 1000)} ms each" if took.seconds else ""
