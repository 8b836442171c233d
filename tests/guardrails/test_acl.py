"""ACLs made of policies, on the engines that they are for: Redis runs all that Keyrail passes and sends. It refuses all
that Keyrail refuses, or the list says that it is wider there.

From Redis 7.0 on, ACL DRYRUN says what a user may run. Before, Redis says it when it queues a command in MULTI; what
ends a transaction, or begins one, is run.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

import pytest

from proxy.commands.command import Command
from proxy.commands.spec import Spec
from proxy.commands.table import STANDARD
from proxy.policy.acl import VERSIONS, AclUser, Version, acl_of
from proxy.policy.compile import CompiledPolicy, PolicyCompiler
from proxy.policy.decision import Decision
from proxy.policy.explain import refused_alone
from proxy.policy.load import load_policy
from proxy.policy.model import Policy
from proxy.policy_yaml.shipped import packaged
from proxy.rules.context import Context
from proxy.rules.verdict import Answer, Pass, Procedure, Refuse, Rewrite
from tests.commands.invocations import INVOCATIONS
from tests.conftest import Fleet, rest_is_long
from tests.engines import Engine
from tests.policy.given import policy as policy_of
from tests.resp import Wire, pack

NOW = 1_800_000_000.0
OURS = {
    "prefixes": """
        defaults: {mode: enforce}
        apps:
          checkout: {match: {user: [checkout, checkout2]}}
          reports: {match: {user: reports, address: 10.0.0.0/8}}
          batch: {match: {user: "batch-*"}}
          legacy: {match: {listener: "*:6381"}}
        schema:
          cart: {key: "cart:{id:int}", type: hash}
          order: {key: "order:{{{id}}}:{what}", type: hash}
        rules:
          own:
            names:
              prefixes: {checkout: ["cart:", "order:", "a*[b]:"], reports: ["report:"], batch: ["b:"], default: ["x:"]}
          narrower: {names: {prefixes: {checkout: ["cart:", "order:{"]}}, applies_to: writes}
          types: {schema: type}
          no-scripts: {refuse: [EVAL, EVALSHA, EVAL_RO, EVALSHA_RO, FCALL, FCALL_RO, OBJECT, CLIENT KILL]}
          no-transactions: {transactions: refuse}
          lazy: {replace: {DEL: UNLINK}}
    """,
    "a-list": """
        defaults: {mode: enforce}
        apps:
          web: {match: {user: web}}
        schema:
          cart: {key: "cart:{id:int}", type: hash, ttl: 2h}
          page: {key: "page:{path...}", type: string, ttl: 5m}
        rules:
          few: {allow_only: ["@read", "@hash", SET, CONFIG GET, CLIENT KILL TYPE, FLUSHALL ASYNC, LPUSH], apps: web}
          known: {names: {in_schema: true}}
          types: {schema: type}
          lifetimes: {schema: ttl}
          walks: {keys_by_scan: {keys: 100}, mode: audit}
    """,
    "reads": """
        defaults: {mode: enforce}
        apps:
          web: {match: {user: web}}
          admin: {match: {user: admin}}
        rules:
          maintenance: {read_only: true}
          own: {names: {prefixes: {web: ["w:"]}}}
          no-config: {refuse: [CONFIG, "SCRIPT FLUSH"]}
          scripts: {scripts: {commands: follow_rules, dynamic_calls: refuse, undeclared_keys: refuse}}
        exceptions:
          - {rule: maintenance, app: admin, because: somebody has to}
          - {rule: own, keys: "w2:*", because: it was so before, until: 2020-01-01}
    """,
    "writes": """
        defaults: {mode: enforce}
        apps:
          web: {match: {user: web}}
        rules:
          own: {names: {prefixes: {web: ["w:"]}}, applies_to: writes}
          no-scripts: {refuse: [EVAL, EVALSHA, EVAL_RO, EVALSHA_RO, FCALL, FCALL_RO]}
    """,
    "rewrites": """
        defaults: {mode: enforce}
        apps:
          web: {match: {user: web}}
        rules:
          own: {names: {prefixes: {web: ["w:"]}}, applies_to: writes}
          ttl: {lifetime: {default: 5m, sliding: true}}
          no-expire: {refuse: [EXPIRE, TTL, EXISTS, LTRIM, HLEN, MULTI, SCAN]}
          no-scripts: {refuse: [EVAL, EVALSHA, EVAL_RO, EVALSHA_RO, FCALL, FCALL_RO]}
          caps: {collections: {members: 10, lists: trim}}
          whole: {whole_collections: {max: 10}}
    """,
}
"""What the packaged policies do not have."""
NAMES = [*sorted(path.stem for path in packaged("default").parent.glob("*.yaml")), *OURS]
EXTRA = ("x:", "cart:", "order:{", "a*[b]:", "aXb:", "report:", "rq:", "user:", "w:", "page:", "cache:", "other")
IN_NO_QUEUE = frozenset({"MULTI", "EXEC", "DISCARD", "WATCH", "QUIT", "RESET"})
LEFT_OUT = frozenset({"QUIT", "POST", "HOST:"})
"""These close the connection, whoever sends them."""


def loaded(name: str) -> Policy:
    return policy_of(OURS[name]) if name in OURS else load_policy(packaged(name))


def made(spec: Spec) -> Iterator[list[bytes]]:
    """A request with as many arguments as Redis takes, for each of two numbers."""
    words = [word.encode() for word in spec.display.split()]
    for more in (0, 1):
        argv = [*words, *[b"1"] * (abs(spec.arity) - len(words) + (more if spec.arity < 0 else 0))]
        if spec.takes(len(argv)):
            yield argv


def tells_keys(argv: Sequence[bytes]) -> bool:
    return STANDARD.keys_of(STANDARD.spec_of(argv), argv) is not None


def with_keys(argv: Sequence[bytes], prefix: bytes) -> list[bytes]:
    """The same request, about keys with this prefix."""
    places = {key.index for key in Command(STANDARD, argv).keys}
    return [prefix + word if place in places else word for place, word in enumerate(argv)]


def requests(policy: Policy, version: Version) -> Iterator[list[bytes]]:
    """What the policy's own tests send, and each command of the engine with each kind of key. Where the keys cannot be
    told, a rule about names refuses a request, and Redis does not take it."""
    yield from (list(test.send) for test in policy.tests)
    argvs = [[word.encode() for word in shlex.split(line)] for line, _ in INVOCATIONS]
    argvs += (argv for spec in STANDARD.specs if spec.id and not spec.container for argv in made(spec))
    for argv in argvs:
        spec = STANDARD.spec_of(argv)
        if spec.id and version.has(spec) and spec.name not in LEFT_OUT and tells_keys(argv):
            yield argv
            if spec.may_have_keys:
                yield from (with_keys(argv, prefix.encode()) for prefix in EXTRA)


def sent(argv: Sequence[bytes], decision: Decision) -> Iterator[Sequence[bytes]]:
    """What Keyrail sends for a command that it does not refuse."""
    match decision.verdict:
        case Rewrite(argv=rewritten):
            yield rewritten
        case Procedure(steps=steps):
            yield from next(steps())
            yield argv
        case Answer():
            return
        case _:
            yield argv
    for each in decision.hidden:
        surround = each.surround
        yield from (*surround.before, *surround.after)
        lines = [b":0\r\n"] * len(surround.before) + [b"+hash\r\n"] * len(surround.after)
        yield from surround.conclude(b":1\r\n", lines)


class Users:
    """The users of an ACL on an engine, under names that nobody else has there."""

    def __init__(self, engine: Engine, version: Version, users: Sequence[AclUser]) -> None:
        self._version = version
        self._wires: dict[str, Wire] = {}
        self._told: dict[tuple[str, tuple[bytes, ...]], bool | None] = {}
        self._admin = Wire(engine.address)
        for user in users:
            name = f"acl-{user.name}"
            self._admin.ask("ACL", "DELUSER", name)
            assert self._admin.ask("ACL", "SETUSER", name, *user.words) == b"+OK\r\n", user.words
            if not version.selectors:
                assert self._admin.ask("ACL", "SETUSER", name, "nopass") == b"+OK\r\n"
                self._wires[name] = Wire(engine.address)
                assert self._wires[name].ask("AUTH", name, "any") == b"+OK\r\n"

    def may_run(self, user: str, argv: Sequence[bytes]) -> bool | None:
        """Whether the user may run this; None if the engine does not have it."""
        asked = user, tuple(argv)
        if asked not in self._told:
            self._told[asked] = self._ask(user, argv)
        return self._told[asked]

    def _ask(self, user: str, argv: Sequence[bytes]) -> bool | None:
        if self._version.selectors:
            told = self._admin.ask("ACL", "DRYRUN", f"acl-{user}", *argv)
            if told == b"+OK\r\n":
                return True
            return None if b"not found" in told or b"wrong number" in told else not told.startswith(b"$")
        return self._queued(self._wires[f"acl-{user}"], argv)

    def _queued(self, wire: Wire, argv: Sequence[bytes]) -> bool | None:
        if STANDARD.spec_of(argv).name in IN_NO_QUEUE:
            told = wire.ask(*argv)
            wire.ask("DISCARD")
            if argv[0].upper() == b"RESET":
                wire.ask("AUTH", next(name for name, each in self._wires.items() if each is wire), "any")
            return b"NOPERM" not in told
        wire.send(pack("MULTI") + pack(*argv) + pack("DISCARD"))
        begun, told, _ended = (wire.frame() for _ in range(3))
        assert begun == b"+OK\r\n"
        return None if b"unknown command" in told or b"wrong number" in told else b"NOPERM" not in told

    def close(self) -> None:
        for wire in (self._admin, *self._wires.values()):
            wire.close()


def available(version: Version) -> frozenset[str]:
    """The commands that rules may send: before 7.0, EXPIRE has no options."""
    names = {spec.display for spec in STANDARD.specs if spec.id and version.has(spec)}
    return frozenset(names if version.selectors else names - {"EXPIRE"})


def faults(compiled: CompiledPolicy, app: str, user: AclUser, users: Users, version: Version) -> Iterator[str]:
    listed = {(each.rule, name) for each in user.wider for name in each.commands}
    for argv in requests(compiled.policy, version):
        command = Command(STANDARD, argv)
        if not command.spec.id or not version.has(command.spec):
            continue
        decision = compiled.judge(command, Context("", "", 0, False, NOW, lambda: 0.5, app))
        alone = refused_alone(command, decision)[1]
        if isinstance(decision.verdict, Refuse) or alone:
            rule = alone or decision.hits[-1].rule
            if users.may_run(user.name, argv) and (rule, command.spec.name) not in listed:
                yield f"{user.name}, of app {app}: {rule} refuses {argv}, and Redis does not"
        else:
            refused = (each for each in sent(argv, decision) if users.may_run(user.name, each) is False)
            yield from (f"{user.name}, of app {app}: Keyrail sends {each} for {argv}" for each in refused)


ON_EACH = pytest.mark.parametrize("version", rest_is_long("valkey-9", "redis-6.2", "redis-7.0", "redis-8.2"))


@pytest.mark.parametrize("name", NAMES)
@ON_EACH
def test_redis_agrees_with_keyrail(version: str, name: str, fleet: Fleet) -> None:
    policy, its = loaded(name), VERSIONS[version]
    apps = {app.name: app for app in policy.apps}
    compiler = PolicyCompiler(policy, STANDARD, available(its))
    acls = [acl_of(policy, its, NOW, scripts_too=deny_scripts).users for deny_scripts in (False, True)]
    found: list[str] = []
    for acl in acls if acls[0] != acls[1] else acls[:1]:
        users = Users(fleet.engine(its.engine), its, acl)
        for user in acl:
            for app in user.apps:
                found += faults(compiler.bind(apps.get(app)), app, user, users, its)
        users.close()
    assert found == []


def as_user(engine: Engine, user: AclUser, *argvs: Sequence[str]) -> list[bytes]:
    """What Redis answers to such a user."""
    with Wire(engine.address) as admin, Wire(engine.address) as wire:
        assert admin.ask("ACL", "SETUSER", "acl-one", *user.words, "nopass") == b"+OK\r\n"
        assert wire.ask("AUTH", "acl-one", "any") == b"+OK\r\n"
        return [wire.ask(*argv) for argv in argvs]


@ON_EACH
def test_sort_finds_keys_by_patterns(version: str, fleet: Fleet) -> None:
    """Redis asks for more rights when it runs SORT than ACL DRYRUN says."""
    its = VERSIONS[version]
    user = next(each for each in acl_of(loaded("prefixes"), its, NOW).users if each.name == "checkout")
    sort = ("SORT", "cart:1", "BY", "cart:w:*", "GET", "cart:o:*")
    found = as_user(fleet.engine(its.engine), user, sort, (*sort, "STORE", "cart:2"), ("GET", "user:1"))
    assert found[:2] == [b"*0\r\n", b":0\r\n"]
    assert found[2].startswith(b"-NOPERM")


@pytest.mark.parametrize(("deny_scripts", "runs"), [(False, True), (True, False)])
@ON_EACH
def test_a_script_that_keyrail_passes_may_run(version: str, deny_scripts: bool, runs: bool, fleet: Fleet) -> None:
    policy, its = loaded("default"), VERSIONS[version]
    script = ("EVAL", "return redis.call(string.lower(ARGV[1]), 'no-such-key*')", "0", "KEYS")
    decision = (
        PolicyCompiler(policy, STANDARD)
        .bind(None)
        .judge(Command(STANDARD, [word.encode() for word in script]), Context("", "", 0, False, NOW, lambda: 0.5))
    )
    assert isinstance(decision.verdict, Pass)
    user = acl_of(policy, its, NOW, scripts_too=deny_scripts).users[0]
    (told,) = as_user(fleet.engine(its.engine), user, script)
    assert (told == b"*0\r\n") is runs
