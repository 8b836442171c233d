"""A policy comes into force at once for all clients, without a pause in serving them."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD, Table
from proxy.hotpath.counting.counters import Counters
from proxy.hotpath.counting.sampler import Sampler
from proxy.hotpath.plan.plan import Plan
from proxy.net.connection.engine import Engine, Probed, probe
from proxy.net.policy.plan_compiler import PlanCompiler, PlanUnavailableError, WantedPlans
from proxy.net.policy.policies import Policies
from proxy.net.policy.policy_generation import PolicyGeneration
from proxy.net.policy.rights import Rights
from proxy.policy.apps import App, Caller, identify
from proxy.policy.compile import CompiledPolicy, needs_of
from proxy.policy.lower_policy import LoweredPolicy
from proxy.policy.model import Mode, Policy
from proxy.policy.plan_tables import NewParts
from proxy.rules.limits.token_buckets import TokenBuckets
from proxy.rules.verdict import Refuse
from proxy.session.ports.client import EffectivePolicy
from proxy.session.ports.pool_key import SOLE_NODE, PoolKey
from tests.policy.given import policy
from tests.resp import PATIENCE_SECONDS
from tests.rules.given import context

T = TypeVar("T")

TEXT = """
defaults: {mode: enforce}
apps: {shop: {match: {user: shop}}, till: {match: {user: till}}}
rules:
  no-keys: {refuse: [KEYS], because: it is slow}
  few: {limits: {per: user, rate: 10/s}}
"""


def with_own_prefixes(*apps: str) -> str:
    """The same policy with some more apps, whose keys have prefixes of their own."""
    named = "".join(f"{app}: {{match: {{user: {app}}}}}, " for app in apps)
    prefixes = ", ".join(f'{app}: ["{app}:"]' for app in apps)
    return TEXT.replace("apps: {", f"apps: {{{named}") + f"  own: {{names: {{prefixes: {{{prefixes}}}}}}}\n"


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
            table=lambda: self.table, able=self.able, engine=Engine(version_text="7.0.15"), rights=Rights(lambda: 0.0)
        )
        capabilities.rights.able = self.able
        self.loop = asyncio.new_event_loop()
        first = policy(TEXT)
        self.policies = Policies(
            first,
            1,
            PlanCompiler(first).find,
            cast("Any", capabilities),
            Counters(1),
            Sampler(0),
            self.clients,
            workers=1,
            paused=False,
            start=self.loop.create_task,
        )
        self.clients += [Client(self.policies, user) for user in ("shop", "till", "shop")]

        def counted(of: CompiledPolicy) -> LoweredPolicy:
            self.made += 1
            self.compiling()
            return lowered(of)

        lowered = CompiledPolicy.lower
        monkeypatch.setattr(CompiledPolicy, "lower", counted)
        for client in self.clients:
            client.adopt()
        self.settle()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def settle(self) -> None:
        """Wait for the plans that are being made."""
        while tasks := asyncio.all_tasks(self.loop):
            self.run(cast("Any", asyncio.wait(tasks)))

    def prepare(self, coming: Policy) -> None:
        self.run(self.policies.prepare(coming, 2, PlanCompiler(coming).find))

    def commit(self) -> bool:
        return self.run(self.policies.commit())

    def meet(self, table: Table) -> None:
        """Redis is another engine than before."""

        async def met(*_: object) -> bool:
            self.table = table
            return True

        self.capabilities.meet = met
        self.capabilities.rights.due = lambda *_: False
        self.run(self.policies.learn_user(cast("Any", SimpleNamespace(key=PoolKey(None, 0, 2))), Engine()))
        self.settle()

    def modes(self) -> list[Mode]:
        return [step.mode for client in self.clients for step in client.effective_policy.compiled.steps]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    bench = Bench(monkeypatch)
    yield bench
    bench.settle()
    bench.loop.close()


def test_clients_of_one_app_share_a_plan_and_so_do_apps_that_no_rule_tells_apart(bench: Bench) -> None:
    assert bench.made == 1
    shop, till, other = (client.effective_policy for client in bench.clients)
    assert shop is other
    assert shop is not till


def test_a_client_name_is_kept_only_if_it_is_short(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Caller] = []

    def counted(apps: Any, caller: Caller) -> App | None:
        asked.append(caller)
        return identify(apps, caller)

    monkeypatch.setattr("proxy.net.policy.policy_generation.identify", counted)
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
    bench.settle()
    assert bench.made == 2
    assert bench.clients[1].effective_policy is till
    bench.meet(Table(STANDARD.specs))
    assert {client.effective_policy.table for client in bench.clients} == {bench.table}


def test_what_rules_need_is_found_out_once_however_often_it_is_asked(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each second, of each user: that must not cost more the more rules and users there are."""
    asked: list[Policy] = []

    def counted(of: Policy, table: Table) -> frozenset[str]:
        asked.append(of)
        return needs_of(of, table)

    monkeypatch.setattr("proxy.net.policy.policy_generation.needs_of", counted)
    for each in range(100):
        bench.able[f"user-{each}"] = frozenset()
        assert not bench.policies.lacks(f"user-{each}")
    assert len(asked) == 1
    bench.prepare(policy("rules: {lazy: {replace: {DEL: UNLINK}, mode: enforce}}"))
    assert bench.commit(), "it needs what nobody has asked about"
    assert bench.policies.lacks("user-1") == {"DEL", "UNLINK"}
    assert len(asked) == 2
    bench.meet(STANDARD.completed_by([]))
    assert bench.policies.lacks("user-1") == {"DEL", "UNLINK"}
    assert len(asked) == 3


def test_a_command_that_redis_lacks_is_told_from_one_that_the_user_may_not_run(bench: Bench) -> None:
    bench.prepare(policy("rules: {short: {lifetime: {default: 1h}, mode: enforce}}"))
    bench.commit()
    assert bench.policies.features_off == [], "nothing is known yet"
    bench.able[None] = frozenset({"EVAL", "EXPIRE", "PEXPIRE", "CLIENT"})
    lacked = bench.policies.lacks(None)
    assert "MSETEX" in lacked
    refused = [f"the user may not run {name}, which rules of the policy send" for name in sorted(lacked)]
    assert bench.policies.features_off == refused
    bench.capabilities.rights.tell(None, SOLE_NODE, bench.able[None], frozenset(), lacked)
    told = "Redis 7.0.15 has no MSETEX; lifetimes on MSET and MSETNX use a follow-up EXPIRE instead"
    assert told in bench.policies.features_off
    assert all(" has no " in text for text in bench.policies.features_off)


PERMISSION = b"-NOPERM User app has no permissions to run the 'x' command\r\n"
MOMENT = [f"-{word} not now\r\n".encode() for word in ("LOADING", "READONLY", "MASTERDOWN", "OOM", "MISCONF", "BUSY")]
ANSWERS = [PERMISSION, *MOMENT, b"-ERR unknown command\r\n"]


class Answering:
    """A Redis with this answer to one of the commands of a probe."""

    def __init__(self, name: str, answer: bytes) -> None:
        self.answers = {"MULTI": b"+OK\r\n", "DISCARD": b"+OK\r\n", name: answer}

    async def ask(self, argv: Sequence[str]) -> bytes:
        return self.answers.get(argv[0], b"+QUEUED\r\n")

    def abort(self) -> None:
        """It is closed."""


@pytest.mark.parametrize("name", ["MULTI", "SET", "DISCARD"])
@pytest.mark.parametrize("answer", ANSWERS)
def test_the_user_may_not_run_what_redis_says_so_of_and_nothing_else(bench: Bench, name: str, answer: bytes) -> None:
    bench.prepare(policy("rules: {short: {lifetime: {default: 1h}, mode: enforce}}"))
    bench.commit()
    needs = frozenset({"SET", "EXPIRE"})
    told = bench.run(probe(cast("Any", Answering(name, answer)), needs))
    bench.able[None] = bench.policies._current.needed - needs | told.able
    bench.capabilities.rights.tell(None, SOLE_NODE, *told)
    texts = bench.policies.features_off
    assert any("may not run SET," in text for text in texts) == (name == "SET" and answer == PERMISSION), texts
    assert any(text.startswith("it cannot be told") for text in texts) == (name != "SET" or answer in MOMENT), texts
    bench.capabilities.rights.tell(None, SOLE_NODE, needs, frozenset(), frozenset())
    assert not any(text.startswith("it cannot be told") for text in bench.policies.features_off)
    bench.capabilities.rights.tell(None, SOLE_NODE, *told)
    bench.capabilities.rights.leave(SOLE_NODE)
    assert not any(text.startswith("it cannot be told") for text in bench.policies.features_off)


def test_a_new_policy_is_made_beforehand_and_comes_into_force_at_once(bench: Bench) -> None:
    before = [client.effective_policy for client in bench.clients]
    bench.prepare(policy(TEXT.replace("[KEYS]", "[KEYS, FLUSHALL]")))
    assert [client.effective_policy for client in bench.clients] == before
    bench.made = 0
    bench.commit()
    assert bench.made == 0
    assert {client.effective_policy.generation for client in bench.clients} == {2}
    assert bench.clients[0].effective_policy is bench.clients[2].effective_policy


def test_others_are_served_while_plans_are_made(bench: Bench) -> None:
    served = threading.Event()

    def compiling() -> None:
        served.clear()
        assert served.wait(PATIENCE_SECONDS), "nobody had a turn during the whole of it"

    async def prepare() -> None:
        coming = policy(TEXT)
        loop = asyncio.get_running_loop()

        def serve() -> None:
            served.set()
            loop.call_soon(serve)

        serve()
        await bench.policies.prepare(coming, 2, PlanCompiler(coming).find)
        await bench.policies.pause(True)

    bench.made = 0
    bench.compiling = compiling
    bench.run(prepare())
    assert bench.made == 2, "with the kill switch off, and with it on"


def test_what_nobody_uses_is_not_compiled(bench: Bench) -> None:
    bench.made = 0
    others = [f"app{number}" for number in range(20)]
    coming = policy(with_own_prefixes(*others))
    assert len(coming.apps) == 22
    bench.prepare(coming)
    assert bench.made == 1, "that of two apps and of no app, whose keys have no prefix of others"


def test_the_kill_switch_holds_for_a_policy_that_was_prepared_before(bench: Bench) -> None:
    bench.run(bench.policies.pause(True))
    assert set(bench.modes()) == {Mode.AUDIT}
    bench.prepare(policy(TEXT))
    bench.run(bench.policies.pause(False))
    assert set(bench.modes()) == {Mode.ENFORCE}
    bench.commit()
    assert set(bench.modes()) == {Mode.ENFORCE}


def test_the_kill_switch_holds_for_a_policy_that_was_being_prepared(bench: Bench) -> None:
    coming = policy(TEXT)
    compiler, made, asked = PlanCompiler(coming), asyncio.Event(), asyncio.Event()

    async def find(wanted: WantedPlans) -> NewParts:
        asked.set()
        await made.wait()
        return await compiler.find(wanted)

    async def main() -> None:
        preparing = bench.loop.create_task(bench.policies.prepare(coming, 2, find))
        await asked.wait()
        await bench.policies.pause(True)
        assert set(bench.modes()) == {Mode.AUDIT}
        made.set()
        await preparing
        await bench.policies.commit()

    bench.run(main())
    assert {client.effective_policy.generation for client in bench.clients} == {2}
    assert set(bench.modes()) == {Mode.AUDIT}
    bench.settle()
    assert not any(judges_all(client.effective_policy) for client in bench.clients)


def test_two_threads_that_bind_a_rule_get_one_state(bench: Bench) -> None:
    memory, states = bench.policies.memory, [object(), object()]

    def second() -> object:
        return states[1]

    def first() -> object:
        assert memory.of("new", "settings", second) is states[1], "the other thread, which was faster"
        return states[0]

    assert memory.of("new", "settings", first) is states[1]
    assert memory.each(object)["new"] is states[1]
    assert memory.of("new", "others", first) is states[0]


def test_what_rules_remember_is_the_same_until_another_policy_is_in_force(bench: Bench) -> None:
    [few] = bench.policies.memory.each(TokenBuckets).values()
    bench.prepare(policy(TEXT.replace("10/s", "20/s")))
    assert list(bench.policies.memory.each(TokenBuckets).values()) == [few], "it was only prepared"
    bench.prepare(policy(TEXT.replace("[KEYS]", "[FLUSHALL]")))
    bench.commit()
    assert list(bench.policies.memory.each(TokenBuckets).values()) == [few]
    bench.prepare(policy(TEXT.replace("10/s", "20/s")))
    bench.commit()
    assert list(bench.policies.memory.each(TokenBuckets).values()) != [few]


def test_a_former_policy_is_kept_until_its_counts_are_taken_and_nobody_is_under_it(bench: Bench) -> None:
    in_transaction, other = bench.clients[:2]
    [refused] = other.effective_policy.compiled.lowered
    formers = [weakref.ref(client.effective_policy.compiled) for client in (in_transaction, other)]
    plans = [client.effective_policy.config.plan for client in (in_transaction, other)]
    in_transaction.adopt = lambda: None
    bench.clients[2].adopt = lambda: None
    bench.prepare(policy(TEXT))
    bench.commit()
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


# What is not there yet, and what cannot be had


def judges_all(policy: EffectivePolicy) -> bool:
    return list(policy.config.plan.operations) == list(Plan.judging(len(STANDARD.specs)).operations)


def test_the_first_client_of_an_app_is_judged_until_its_plan_is_there(bench: Bench) -> None:
    bench.prepare(policy(with_own_prefixes("rare")))
    bench.commit()
    bench.settle()
    made_in: list[threading.Thread] = []
    bench.made, bench.compiling = 0, lambda: made_in.append(threading.current_thread())
    rare = Client(bench.policies, "rare")
    bench.clients.append(rare)
    rare.adopt()
    assert judges_all(rare.effective_policy)
    decision = rare.effective_policy.compiled.judge(Command(STANDARD, [b"KEYS", b"*"]), context())
    assert isinstance(decision.verdict, Refuse)
    bench.settle()
    assert not judges_all(rare.effective_policy)
    assert rare.effective_policy.config.plan is rare.effective_policy.compiled.plan
    assert [thread is threading.main_thread() for thread in made_in] == [False]
    other = Client(bench.policies, "rare")
    other.adopt()
    assert other.effective_policy is rare.effective_policy
    assert bench.made == 1


class Plans:
    """Plans of a policy that cannot be had ``failing`` times."""

    def __init__(self, of: Policy, failing: int) -> None:
        self.find_plans = PlanCompiler(of).find
        self.failing = failing

    async def find(self, wanted: WantedPlans) -> NewParts:
        if self.failing > 0:
            self.failing -= 1
            raise PlanUnavailableError("no answer in 20 seconds")
        return await self.find_plans(wanted)


def test_a_plan_that_is_asked_for_twice_at_a_time_comes_once_and_keeps_its_counts(bench: Bench) -> None:
    bench.clients.append(late := Client(bench.policies, None))
    generation = bench.policies._current

    async def both() -> Plan:
        late.adopt()
        first, second = (bench.loop.create_task(generation.complete()) for _ in range(2))
        await asyncio.wait([first, second], return_when=asyncio.FIRST_COMPLETED)
        plan = late.effective_policy.config.plan
        await asyncio.gather(first, second)
        return plan

    assert bench.run(both()) is late.effective_policy.config.plan


def test_a_policy_whose_plans_cannot_be_had_is_not_prepared(bench: Bench) -> None:
    before = [client.effective_policy for client in bench.clients]
    coming = policy(TEXT)
    with pytest.raises(PlanUnavailableError, match="no answer"):
        bench.run(bench.policies.prepare(coming, 2, Plans(coming, 1).find))
    assert not bench.policies.prepared
    assert [client.effective_policy for client in bench.clients] == before


def test_a_plan_that_cannot_be_had_is_asked_for_again_and_commands_are_judged_meanwhile(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("proxy.net.policy.policies._AGAIN_SECONDS", 0.0)
    coming = policy(TEXT)
    plans = Plans(coming, 0)
    bench.run(bench.policies.prepare(coming, 2, plans.find))
    bench.commit()
    plans.failing = 2
    rare = Client(bench.policies, "of no app")
    bench.clients.append(rare)
    bench.able["of no app"] = frozenset({"UNLINK"})
    rare.adopt()
    assert judges_all(rare.effective_policy)
    bench.settle()
    assert plans.failing == 0
    assert not judges_all(rare.effective_policy)
    assert [record.getMessage() for record in caplog.records] == [
        "commands are judged without a plan for now: no answer in 20 seconds"
    ] * 2


def test_the_kill_switch_is_turned_even_if_no_plan_can_be_had(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.net.policy.policies._AGAIN_SECONDS", 0.0)
    coming = policy(TEXT)
    plans = Plans(coming, 0)
    bench.run(bench.policies.prepare(coming, 2, plans.find))
    bench.commit()
    plans.failing = 3
    bench.run(bench.policies.pause(True))
    assert set(bench.modes()) == {Mode.AUDIT}
    bench.settle()
    assert not any(judges_all(client.effective_policy) for client in bench.clients)


# Clients change over in slices


def test_clients_change_over_some_in_each_turn_and_each_is_under_one_policy(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.net.policy.policies._SLICE_SECONDS", -1.0)
    bench.clients += [Client(bench.policies, ("shop", "till")[number % 2]) for number in range(10)]
    for client in bench.clients:
        client.adopt()
    leaving = bench.clients[-1]
    bench.prepare(policy(TEXT.replace("[KEYS]", "[FLUSHALL]")))
    seen: list[list[int]] = []

    async def commit() -> None:
        committing = bench.loop.create_task(bench.policies.commit())
        while not committing.done():
            generations = [client.effective_policy.generation for client in bench.clients]
            seen.append(sorted(generations))
            for client in bench.clients:
                assert client.effective_policy.compiled.policy.rule_names == ("no-keys", "few")
            if leaving in bench.clients and 2 in generations:
                bench.clients.remove(leaving)
            await asyncio.sleep(0)

    bench.run(commit())
    mixed = [generations for generations in seen if len(set(generations)) == 2]
    assert len(mixed) > 5, "few at a time"
    assert {client.effective_policy.generation for client in bench.clients} == {2}
    assert leaving.effective_policy.generation == 1, "it left before its turn"


def test_a_user_that_may_run_more_changes_over_wholly_even_if_the_one_who_asked_gives_up(bench: Bench) -> None:
    async def met(*_: object) -> bool:
        return True

    async def probed(*_: object) -> Probed:
        return Probed(frozenset({"UNLINK"}))

    bench.capabilities.meet = met
    changing = asyncio.Event()
    bind = PolicyGeneration.bind

    async def noted(*arguments: Any) -> None:
        changing.set()
        await bind(*arguments)

    async def learn() -> None:
        upstream = cast("Any", SimpleNamespace(key=PoolKey("till", 0, 2)))
        await bench.policies.learn_user(upstream, Engine())
        learning = asyncio.create_task(bench.policies.settle("till"))
        await changing.wait()
        learning.cancel()
        await asyncio.wait([learning])

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("proxy.net.policy.policies.probe", probed)
        patched.setattr(PolicyGeneration, "bind", noted)
        bench.run(learn())
    bench.settle()
    assert bench.able["till"] == frozenset({"UNLINK"})
    till = bench.clients[1]
    before = till.effective_policy
    till.adopt()
    assert till.effective_policy is before, "it has followed already"
    assert not judges_all(before)


def test_what_a_rule_of_an_app_that_comes_later_remembers_is_known_to_the_route(bench: Bench) -> None:
    """Its share of the limit is dealt out by what the route knows."""
    text = TEXT + "  own: {limits: {per: user, rate: 3/s}}\n"
    coming = policy(text.replace("apps: {", "apps: {rare: {match: {user: rare}}, "))
    coming = replace(coming, rules=(*coming.rules[:-1], replace(coming.rules[-1], app="rare")))
    bench.prepare(coming)
    bench.commit()
    assert set(bench.policies.memory.each(TokenBuckets)) == {"few"}
    rare = Client(bench.policies, "rare")
    bench.clients.append(rare)
    rare.adopt()
    bench.settle()
    assert set(bench.policies.memory.each(TokenBuckets)) == {"few", "own"}
