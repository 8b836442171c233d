"""The zones of a policy: which one an address is in, and errors that name line, path and value."""

from __future__ import annotations

import pytest

from proxy.policy.zones import NO_ZONES
from tests.policy.given import policy, problems

RULE = 'rules: {catalog: {replica_reads: {keys: ["catalog:*"], prefer: [same-zone]}}}'


def test_an_address_is_in_the_zone_of_its_network() -> None:
    zones = policy(f"""
        zones: {{eu-1a: [10.0.1.0/24, 10.0.9.7], eu-1b: [10.0.2.0/24, "fd00:2::/64"]}}
        {RULE}
    """).zones
    for host, zone in (
        ("10.0.1.200", "eu-1a"),
        ("10.0.9.7", "eu-1a"),
        ("10.0.2.1", "eu-1b"),
        ("fd00:2::9", "eu-1b"),
        ("::ffff:10.0.2.1", "eu-1b"),
        ("fd00:2::9%eth0", "eu-1b"),
        ("10.0.3.1", ""),
        ("redis.example", ""),
        ("", ""),
    ):
        assert zones.of(host) == zone, host
    assert not NO_ZONES
    assert NO_ZONES.of("10.0.1.1") == ""


@pytest.mark.parametrize(
    ("zones", "problem"),
    [
        ("{a: [10.0.1.7/24]}", "2: zones.a[0]: found '10.0.1.7/24', expected a network such as 10.0.1.0/24"),
        ("{a: [nowhere]}", "2: zones.a[0]: found 'nowhere', expected a network such as 10.0.1.0/24"),
        ("{a: []}", "2: zones.a: found an empty list, expected a list such as [A, B]"),
        ("{a b: [10.0.1.0/24]}", "2: zones.a b: found 'a b', expected a name of letters, digits"),
        ("{}", "2: zones: found an empty mapping, expected a mapping such as {eu-1a: [10.0.1.0/24]}"),
        (
            "{a: [10.0.0.0/16], b: [10.0.1.0/24]}",
            "2: zones.b[0]: found '10.0.1.0/24', expected a network apart from 10.0.0.0/16 of zone a",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(zones: str, problem: str) -> None:
    (found,) = problems(f"zones: {zones}\n{RULE}")
    assert found.startswith(problem)


def test_zones_that_no_rule_asks_for_are_an_error() -> None:
    (found,) = problems("zones: {a: [10.0.1.0/24]}\nrules: {r: {refuse: [KEYS]}}")
    assert found == (
        "2: zones: found zones that no rule asks for, "
        "expected a rule that asks for them: replica_reads with prefer: [same-zone]"
    )
