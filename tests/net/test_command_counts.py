"""Commands are counted by name and by client, with the ids of any command table."""

from __future__ import annotations

from collections import Counter

from proxy.commands.table import STANDARD, Table
from proxy.net.policy import command_counts as module
from proxy.net.policy.command_counts import CommandCounts
from proxy.session.ports.client_identity import Names, Origin
from proxy.traffic.evidence_rows import CommandKey, Identity
from proxy.traffic.rule_totals import MOVABLE
from tests.session.given import Client, FakeRoute


def someone(name: str = "", address: str = "10.0.0.7:51234") -> Client:
    client = Client(FakeRoute())
    client.names, client.origin = Names(name.encode()), Origin("", address)
    return client


def test_names_over_tables() -> None:
    counts, client = CommandCounts(), someone()
    get, name = STANDARD.find("GET"), STANDARD.find("CLIENT SETNAME")
    assert get is not None
    assert name is not None
    for number in (get.id, get.id, 0):
        counts.of(STANDARD, client).add(number)
    for n in range(20):
        other = Table([*STANDARD.specs[: name.id + 1], *STANDARD.specs[:0]])
        counts.of(other, client).add(name.id)
        assert counts.figures() == {"GET": 2, "unknown": 1, "CLIENT SETNAME": n + 1}
        assert counts.totals({"shop": 9}) == {"shop": 9, MOVABLE: 2}


def test_clients_are_told_apart_by_name_without_its_ids_or_by_address() -> None:
    counts, get = CommandCounts(), STANDARD.find("GET")
    assert get is not None
    for client in (
        someone("rq:worker:17"),
        someone("rq:worker:18", "10.0.0.8:1"),
        someone(),
        someone("", "10.0.0.8:2"),
    ):
        counts.of(STANDARD, client).add(get.id)
    assert counts.news() == {
        CommandKey(Identity("unknown", "default", "rq:worker:{int}"), "GET"): 2,
        CommandKey(Identity("unknown", "default", address="10.0.0.7"), "GET"): 1,
        CommandKey(Identity("unknown", "default", address="10.0.0.8"), "GET"): 1,
    }
    assert counts.news() == {}, "each is told once"


def test_many_identities_lose_no_count_and_room_is_made_for_others() -> None:
    counts, get = CommandCounts(), STANDARD.find("GET")
    assert get is not None
    stays, sent = someone("stays"), Counter[str]()
    stays.intake.calls = counts.of(STANDARD, stays)
    for number in range(3 * module.MOST_IDENTITIES):
        passing = someone("", f"10.0.{number // 250}.{number % 250}:1")
        counts.of(STANDARD, passing).add(get.id)
        stays.intake.calls.add(get.id)
        counts.release([stays])
    for key, number in counts.news().items():
        sent[key.who.name] += number
    assert sent == {"stays": 3 * module.MOST_IDENTITIES, "": 3 * module.MOST_IDENTITIES}
