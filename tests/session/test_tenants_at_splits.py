"""Each command of a tenant has the prefix before each name and nothing else changed, wherever its request is cut: in
RESP2 and RESP3, alone, in a pipeline and in a transaction."""

from __future__ import annotations

import pytest

from proxy.hotpath.intake.intake import WAITING
from proxy.session.ports.pool_key import PoolKey
from proxy.session.state import POOLED
from proxy.tenants import requests
from tests.policy.given import policy as policy_of
from tests.session.given import Client, call
from tests.session.test_tenants import RULES, TenantRoute
from tests.tenants.invocations import INVOCATIONS, PREFIX, sent

POLICY = policy_of(RULES[: RULES.index("rules:")] + "rules: {}\n")
OWN_ANSWERS = (
    "AUTH",
    "DBSIZE",
    "EVAL",
    "EVALSHA",
    "FLUSHDB",
    "HELLO",
    "KEYS",
    "RANDOMKEY",
    "RESET",
    "QUIT",
    "SCRIPT",
    "SELECT",
)
"""What Keyrail answers, asks about first, or sends when all before it has been answered."""
LINES = [words for words in INVOCATIONS if words[0] not in (*OWN_ANSWERS, "MULTI", "EXEC")]
OTHERWISE = {"CLIENT", "CLUSTER", "GET", "PUBSUB", "SCAN", "SORT", "WAIT", "WAITAOF"}
"""Get a pattern, too, or an escaped one, are refused, or wait for something."""
NOT_INSIDE = {"DISCARD", *(f"{kind}SUBSCRIBE" for kind in ("", "P", "S", "UN", "PUN", "SUN"))}
"""Of a transaction."""
BEHIND = [["SET", "{b}", "acme:v"], ["MGET", "{b}", "{acme:b}"]]


def data(lines: list[list[str]], prefix: str = "") -> bytes:
    return b"".join(call(*sent(words, prefix)) for words in lines)


def connected(protocol: int) -> Client:
    route = TenantRoute(POLICY)
    route.known_users |= {"acme"}
    route.upstream(PoolKey("acme", 0, protocol))
    return Client(route, PoolKey("acme", 0, protocol))


def reaches_redis(client: Client, *pieces: bytes) -> bytes:
    for piece in pieces:
        client.send(piece)
    return b"".join(upstream.taken() for upstream in client.route.all_upstreams())


@pytest.mark.parametrize("way", ["alone", "pipeline", "transaction"])
@pytest.mark.parametrize("protocol", [2, 3])
def test_each_request_has_its_prefix_at_every_split(protocol: int, way: str) -> None:
    otherwise = set()
    for words in LINES:
        lines = {"alone": [words], "pipeline": [words, *BEHIND], "transaction": [["MULTI"], words, ["EXEC"]]}[way]
        asked, client = data(lines), connected(protocol)
        whole = reaches_redis(client, asked)
        if whole != data(lines, PREFIX):
            otherwise.add(words[0])
            if way == "transaction":
                continue  # what is aborted has left, or has not, as it arrives
        for cut in range(1, len(asked), 1 if way == "alone" else 7):
            if way == "transaction" or client.state is not POOLED or client.intake.phase == WAITING:
                client = connected(protocol)
            assert reaches_redis(client, asked[:cut], asked[cut:]) == whole, (words, cut)
    assert otherwise <= (OTHERWISE | NOT_INSIDE if way == "transaction" else OTHERWISE)


def test_a_name_without_its_prefix_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    places = requests._places
    monkeypatch.setattr(requests, "_places", lambda command, offer: places(command, offer)[:-1])
    with pytest.raises(AssertionError):
        test_each_request_has_its_prefix_at_every_split(2, "transaction")
