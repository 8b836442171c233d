"""The load: keys that the policy allows, replies of constant length, and one refusal in twenty."""

import random
from pathlib import Path

from loadtest.workloads import get_probes, mixed_key, mixed_probes, set_probes
from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.policy.load import load_policy
from proxy.rules.context import Context
from proxy.rules.verdict import Refuse
from tests.policy.given import compile_policy

BENCH = Path(__file__).resolve().parents[2] / "policies" / "bench.yaml"


def refused(argv: tuple[bytes, ...]) -> bool:
    policy = compile_policy(load_policy(BENCH), STANDARD, seed=1)
    context = Context(user="", client_name="", database=0, in_transaction=False, now=0.0, random=lambda: 0.5)
    return isinstance(policy.judge(Command(STANDARD, list(argv)), context).verdict, Refuse)


def test_the_mix_has_keys_of_many_lengths_and_no_two_alike() -> None:
    keys = [mixed_key(n) for n in range(2000)]
    assert len(set(keys)) == 2000
    assert len({len(key) for key in keys}) > 60
    assert all(2 <= key.count(b":") + 1 <= 6 for key in keys)


def test_bench_policy_refuses_what_should_be_refused_and_nothing_else() -> None:
    chance = random.Random(1)
    for probe in get_probes(chance, 5) + set_probes(chance, 5, lifetime=True):
        assert not refused(probe.argv)
    for probe in mixed_probes(chance, 100, refusals=True):
        assert refused(probe.argv) == probe.right(Exception("DENIED keyrail/some-rule: because"))


def test_one_command_in_twenty_is_refused() -> None:
    probes = mixed_probes(random.Random(2), 10_000, refusals=True)
    share = sum(probe.right(Exception("DENIED keyrail/x")) for probe in probes) / len(probes)
    assert 0.04 < share < 0.06


def test_a_bare_set_has_no_lifetime() -> None:
    chance = random.Random(3)
    assert [len(probe.argv) for probe in set_probes(chance, 2, lifetime=False)] == [3, 3]
    assert set_probes(chance, 1, lifetime=True)[0].argv[3:] == (b"EX", b"300")


def test_probes_are_encoded_as_redis_reads_them() -> None:
    probe = get_probes(random.Random(4), 1)[0]
    assert probe.encoded() == b"*2\r\n$3\r\nGET\r\n$22\r\n" + probe.argv[1] + b"\r\n"
