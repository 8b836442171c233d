"""ACLs made of policies, on the engines that they are for: Redis runs all that Keyrail passes and sends. It refuses all
that Keyrail refuses, or the list says that it is wider there.

They are asked as `keyrail acl --prove` asks them, about many more commands.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterator, Sequence

import pytest

from proxy.cli.acl_prove import prove
from proxy.commands.command import Command
from proxy.commands.spec import Spec
from proxy.commands.table import STANDARD
from proxy.net.config.address import parse_upstream
from proxy.policy.acl import VERSIONS, AclUser, Version, acl_of
from proxy.policy.acl.proof import Request, questions
from proxy.policy.compile import PolicyCompiler
from proxy.policy.load import load_policy
from proxy.policy.model import Policy
from proxy.policy_yaml.shipped import packaged
from proxy.rules.context import Context
from proxy.rules.verdict import Pass
from tests.commands.invocations import INVOCATIONS
from tests.conftest import Fleet, rest_is_long
from tests.engines import Engine
from tests.policy.given import policy as policy_of
from tests.resp import Wire

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
    "tenants": """
        defaults: {mode: enforce}
        apps:
          acme: {match: {user: [acme, acme2]}}
          globex: {match: {user: globex}}
          legacy: {match: {listener: "*:6381"}}
        tenants: {prefix: "v1/{user}:{app}:", apps: [acme, globex, legacy], flush: walk, only_keyrail: yes}
        rules:
          own: {names: {prefixes: {globex: ["cart:", "order:"]}}}
          lazy: {replace: {DEL: UNLINK}}
          ttl: {lifetime: {default: 5m, sliding: true}}
          whole: {whole_collections: {max: 10}}
          scripts: {scripts: {commands: follow_rules, dynamic_calls: refuse, undeclared_keys: refuse}}
    """,
    "trusting-tenants": """
        defaults: {mode: enforce}
        apps:
          acme: {match: {user: acme}}
          web: {match: {user: web}}
        tenants: {prefix: "{app}:{listener}/", apps: [acme], scripts: trusted}
        rules: {no-save: {refuse: [SAVE]}}
    """,
}
"""What the packaged policies do not have."""
NAMES = [*sorted(path.stem for path in packaged("default").parent.glob("*.yaml")), *OURS]
EXTRA = ("x:", "cart:", "order:{", "a*[b]:", "aXb:", "report:", "rq:", "user:", "w:", "page:", "cache:", "other")


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
        if spec.id and version.has(spec) and tells_keys(argv):
            yield argv
            if spec.may_have_keys:
                yield from (with_keys(argv, prefix.encode()) for prefix in EXTRA)


ON_EACH = pytest.mark.parametrize("version", rest_is_long("valkey-9", "redis-6.2", "redis-7.0", "redis-8.2"))


@pytest.mark.parametrize("name", NAMES)
@ON_EACH
def test_redis_agrees_with_keyrail(version: str, name: str, fleet: Fleet) -> None:
    policy, its = loaded(name), VERSIONS[version]
    acls = [acl_of(policy, its, NOW, scripts_too=deny_scripts) for deny_scripts in (False, True)]
    asked = [Request(tuple(argv)) for argv in requests(policy, its)]
    engine, found = parse_upstream(fleet.engine(its.engine, "of-acls").url), list[str]()
    for acl in acls if acls[0].users != acls[1].users else acls[:1]:
        proof = asyncio.run(prove(acl, its, [*questions(policy, acl, its, asked, NOW)], engine))
        found += proof.faults
        assert proof.questions - proof.unknown > 1000
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
