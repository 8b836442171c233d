"""A policy comes into force at once for all clients, without a pause in serving them."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from proxy.commands.table import STANDARD, Table
from proxy.hotpath.counters import Counters
from proxy.hotpath.sampler import Sampler
from proxy.net.engine import Engine
from proxy.net.policies import Policies
from proxy.policy.apps import App, Caller, identify
from proxy.policy.compile import CompiledPolicy, PolicyCompiler, needs_of
from proxy.policy.model import Mode, Policy
from proxy.rules.limits.token_buckets import TokenBuckets
from proxy.session.ports import EffectivePolicy, PoolKey
from tests.policy.given import policy
from tests.resp import PATIENCE_SECONDS

TEXT = """
defaults: {mode: enforce}
apps: {shop: {match: {user: shop}}, till: {match: {user: till}}}
rules:
  no-keys: {refuse: [KEYS], because: it is slow}
  few: {limits: {per: user, rate: 10/s}}
"""


class Client:
    """A client of this user, as the policy sees it."""

    def __init__(self, policies: Policies, user: str | None) -> None:
        self.key = PoolKey(user, 0, 2)
        self.policies = policies
        self.effective_policy: EffectivePolicy

    def caller(self) -> Caller:
        return Caller(self.key.user or "default")

    def adopt(self) -> None:
        self.effective_policy = self.policies.effective_policy(self.key, self.caller())


class Bench:
    """Policies, what they know of Redis, two clients of different apps, and how many plans were made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made = 0
        self.compiling: Callable[[], None] = lambda: None
        self.table: Table = STANDARD
        self.able: dict[str | None, frozenset[str]] = {}
        self.clients: list[Any] = []
        capabilities = self.capabilities = SimpleNamespace(
            table=lambda: self.table, able=self.able, engine=Engine(version_text="7.0.15"), unknown=frozenset()
        )
        self.policies = Policies(
            policy(TEXT), 1, cast("Any", capabilities), Counters(1), Sampler(0), self.clients, workers=1, paused=False
        )
        self.clients += [Client(self.policies, user) for user in ("shop", "till", "shop")]

        def counted(*arguments: Any, **options: Any) -> CompiledPolicy:
            self.made += 1
            self.compiling()
            return compiled(*arguments, **options)

        compiled = PolicyCompiler.compile
        monkeypatch.setattr(PolicyCompiler, "compile", counted)
        for client in self.clients:
            client.adopt()

    def prepare(self, coming: Policy) -> None:
        asyncio.run(self.policies.prepare(coming, 2))

    def modes(self) -> list[Mode]:
        return [step.mode for client in self.clients for step in client.effective_policy.compiled.steps]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def test_clients_of_one_app_share_a_plan(bench: Bench) -> None:
    assert bench.made == 2
    shop, till, other = (client.effective_policy for client in bench.clients)
    assert shop is other
    assert shop is not till


def test_a_client_name_is_kept_only_if_it_is_short(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Caller] = []

    def counted(apps: Any, caller: Caller) -> App | None:
        asked.append(caller)
        return identify(apps, caller)

    monkeypatch.setattr("proxy.net.policies.identify", counted)
    shop = bench.clients[0]
    for name in ("short", "n" * 100_000):
        for _ in range(2):
            assert bench.policies.effective_policy(shop.key, Caller("shop", name)) is shop.effective_policy
    assert [len(caller.client_name) for caller in asked] == [5, 100_000, 100_000]


def test_what_is_learnt_of_one_user_makes_no_plan_anew_for_another(bench: Bench) -> None:
    till = bench.clients[1].effective_policy
    bench.able["shop"] = frozenset({"UNLINK"})
    for client in bench.clients:
        client.adopt()
    assert bench.made == 3
    assert bench.clients[1].effective_policy is till
    bench.table = Table(STANDARD.specs)
    for client in bench.clients:
        client.adopt()
    assert {client.effective_policy.table for client in bench.clients} == {bench.table}


def test_what_rules_need_is_found_out_once_however_often_it_is_asked(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each second, of each user: that must not cost more the more rules and users there are."""
    asked: list[Policy] = []

    def counted(of: Policy, table: Table) -> frozenset[str]:
        asked.append(of)
        return needs_of(of, table)

    monkeypatch.setattr("proxy.net.policies.needs_of", counted)
    for each in range(100):
        bench.able[f"user-{each}"] = frozenset()
        assert not bench.policies.lacks(f"user-{each}")
    assert len(asked) == 1
    bench.prepare(policy("rules: {lazy: {replace: {DEL: UNLINK}, mode: enforce}}"))
    assert bench.policies.commit(), "it needs what nobody has asked about"
    assert bench.policies.lacks("user-1") == {"DEL", "UNLINK"}
    assert len(asked) == 2
    bench.table = STANDARD.completed_by([])
    assert bench.policies.lacks("user-1") == {"DEL", "UNLINK"}
    assert len(asked) == 3


def test_a_command_that_redis_lacks_is_told_from_one_that_the_user_may_not_run(bench: Bench) -> None:
    bench.prepare(policy("rules: {short: {lifetime: {default: 1h}, mode: enforce}}"))
    bench.policies.commit()
    assert bench.policies.features_off == [], "nothing is known yet"
    bench.able[None] = frozenset({"EVAL", "EXPIRE", "PEXPIRE", "CLIENT"})
    lacked = bench.policies.lacks(None)
    assert "MSETEX" in lacked
    refused = [f"the user may not run {name}, which rules of the policy send" for name in sorted(lacked)]
    assert bench.policies.features_off == refused
    bench.capabilities.unknown = lacked
    told = "Redis 7.0.15 has no MSETEX; lifetimes on MSET and MSETNX use a follow-up EXPIRE instead"
    assert told in bench.policies.features_off
    assert all(" has no " in text for text in bench.policies.features_off)


def test_a_new_policy_is_made_beforehand_and_comes_into_force_at_once(bench: Bench) -> None:
    before = [client.effective_policy for client in bench.clients]
    bench.prepare(policy(TEXT.replace("[KEYS]", "[KEYS, FLUSHALL]")))
    assert [client.effective_policy for client in bench.clients] == before
    bench.made = 0
    bench.policies.commit()
    assert bench.made == 0
    assert {client.effective_policy.generation for client in bench.clients} == {2}
    assert bench.clients[0].effective_policy is bench.clients[2].effective_policy


def test_others_are_served_while_plans_are_made(bench: Bench) -> None:
    served = threading.Event()

    def compiling() -> None:
        served.clear()
        assert served.wait(PATIENCE_SECONDS), "nobody had a turn during the whole of it"

    async def prepare() -> None:
        loop = asyncio.get_running_loop()

        def serve() -> None:
            served.set()
            loop.call_soon(serve)

        serve()
        await bench.policies.prepare(policy(TEXT), 2)
        await bench.policies.pause(True)

    bench.made = 0
    bench.compiling = compiling
    asyncio.run(prepare())
    assert bench.made == 4, "each of two apps, twice"


def test_what_nobody_uses_is_not_compiled(bench: Bench) -> None:
    bench.made = 0
    others = "".join(f"app{number}: {{match: {{user: app{number}}}}}, " for number in range(20))
    coming = policy(TEXT.replace("apps: {", f"apps: {{{others}"))
    assert len(coming.apps) == 22
    bench.prepare(coming)
    assert bench.made == 2


def test_the_kill_switch_holds_for_a_policy_that_was_prepared_before(bench: Bench) -> None:
    asyncio.run(bench.policies.pause(True))
    assert set(bench.modes()) == {Mode.AUDIT}
    bench.prepare(policy(TEXT))
    asyncio.run(bench.policies.pause(False))
    assert set(bench.modes()) == {Mode.ENFORCE}
    bench.policies.commit()
    assert set(bench.modes()) == {Mode.ENFORCE}


def test_what_rules_remember_is_the_same_until_another_policy_is_in_force(bench: Bench) -> None:
    [few] = bench.policies.memory.each(TokenBuckets).values()
    bench.prepare(policy(TEXT.replace("10/s", "20/s")))
    assert list(bench.policies.memory.each(TokenBuckets).values()) == [few], "it was only prepared"
    bench.prepare(policy(TEXT.replace("[KEYS]", "[FLUSHALL]")))
    bench.policies.commit()
    assert list(bench.policies.memory.each(TokenBuckets).values()) == [few]
    bench.prepare(policy(TEXT.replace("10/s", "20/s")))
    bench.policies.commit()
    assert list(bench.policies.memory.each(TokenBuckets).values()) != [few]


def test_a_former_policy_is_kept_until_its_counts_are_taken_and_nobody_is_under_it(bench: Bench) -> None:
    in_transaction, other = bench.clients[:2]
    [refused] = other.effective_policy.compiled.lowered
    formers = [weakref.ref(client.effective_policy.compiled) for client in (in_transaction, other)]
    plans = [client.effective_policy.config.plan for client in (in_transaction, other)]
    in_transaction.adopt = lambda: None
    bench.clients[2].adopt = lambda: None
    bench.prepare(policy(TEXT))
    bench.policies.commit()
    counted: list[tuple[str, int]] = []
    verdicts = cast("Any", SimpleNamespace(add=lambda _hit, count, app: counted.append((app, count))))
    for plan in plans:
        plan.changed[refused] += 1
    del plan, plans
    gc.disable()
    try:
        bench.policies.count_into(verdicts)
        assert sorted(counted) == [("shop", 1), ("till", 1)]
        assert [former() is None for former in formers] == [False, True]
        in_transaction.effective_policy.config.plan.changed[refused] += 1
        bench.policies.count_into(verdicts)
        assert sorted(counted) == [("shop", 1), ("shop", 1), ("till", 1)]
        del in_transaction, bench.clients[:]
        bench.policies.count_into(verdicts)
        assert [former() is None for former in formers] == [True, True]
    finally:
        gc.enable()
