"""The plan of a tenant's clients puts the prefix where ``requests.prefixed`` would, or leaves it to the rules."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.commands.tenant_commands import DECISIONS, Offer, RequestNames, goes_at_once
from proxy.hotpath.counting.counters import Counters
from proxy.hotpath.plan.plan import EDIT, JUDGE, REFUSE, Plan
from proxy.hotpath.plan.plan import PREFIX as WITH_PREFIX
from proxy.hotpath.upstream.splice import Splice
from proxy.policy.compile import CompiledPolicy
from proxy.policy.tenants import StoredNames
from proxy.rules.rates import Rate
from proxy.rules.verdict import Rewrite
from proxy.server.remedies import Remedy
from proxy.tenants.requests import prefixed
from proxy.wire.encode import encode_command
from proxy.wire.request import COMPLETE, Request, RequestLimits
from tests.policy.given import compile_policy, policy
from tests.rules.given import context
from tests.tenants.invocations import INVOCATIONS, sent

TENANTS = """
apps: {acme: {match: {user: acme}}}
tenants: {prefix: "{app}:", apps: [acme]}
defaults: {mode: enforce}
rules: RULES
"""
PREFIX = b"acme:"
LIMITS = RequestLimits(1 << 20, 1 << 29, 1 << 29)


def compiled(rules: str) -> CompiledPolicy:
    loaded = policy(TENANTS.replace("RULES", rules))
    return compile_policy(loaded, STANDARD, app=loaded.apps[0])


BARE = compiled("{}")
RULES = compiled("{lazy: {replace: {DEL: UNLINK}}, none: {refuse: [APPEND]}}")


class Tried:
    """What the plan makes of a request, which stands among others in the client's bytes."""

    def __init__(self, plan: Plan, argv: list[bytes], prefix: bytes = PREFIX) -> None:
        data = b"PING\r\n" + encode_command(argv) + b"*1\r\n$4\r\nPING\r\n"
        request, counters = Request(), Counters()
        assert request.scan(data, 6, LIMITS) == COMPLETE
        command_id = Command(STANDARD, argv).spec.id
        plan.editor.prefix = prefix
        self.decision = plan.decide(command_id, request, data, STANDARD.keys, counters)
        self.written = b""
        if self.decision in (EDIT, WITH_PREFIX):
            splice = Splice()
            plan.editor.write(splice, data, request.start, request, STANDARD.keys, plan.found)
            self.written = splice.take()
        goes_on = self.decision in (EDIT, WITH_PREFIX)
        self.counted = {each.key for each in counters.harvest(100).key_counts} if goes_on else set()


def expected(policy_of_app: CompiledPolicy, argv: list[bytes]) -> list[bytes]:
    verdict = policy_of_app.judge(Command(STANDARD, argv), context()).verdict
    own = Command(STANDARD, verdict.argv) if isinstance(verdict, Rewrite) else Command(STANDARD, argv)
    if not own.spec.takes(len(own.argv)):
        # Redis looks at nothing of it, and no reply of Keyrail's own is needed.
        keys = {key.index for key in own.keys}
        return [PREFIX + word if at in keys else word for at, word in enumerate(own.argv)]
    return list(prefixed(own, PREFIX).argv)


KNOWN = [sent(words) for words in INVOCATIONS if len(words) > 1]


@pytest.mark.parametrize("argv", [argv for argv in KNOWN if goes_at_once(argv[0].decode())], ids=repr)
def test_what_goes_at_once_has_its_prefix(argv: list[bytes]) -> None:
    for policy_of_app in (BARE, RULES):
        tried = Tried(policy_of_app.plan, argv)
        if policy_of_app is RULES and argv[0] == b"APPEND":
            assert tried.decision == REFUSE
            continue
        assert tried.decision == (EDIT if policy_of_app is RULES and argv[0] == b"DEL" else WITH_PREFIX)
        assert tried.written == encode_command(expected(policy_of_app, argv))
        assert tried.counted == {key.name for key in Command(STANDARD, expected(policy_of_app, argv)).keys}


texts = st.one_of(
    st.sampled_from([b"", b"acme:", b"acme:x", b"a\r\nb", b"1", b"EX", b"x" * 1030]), st.binary(max_size=9)
)
names = st.sampled_from(sorted(name.encode() for name, offer in DECISIONS.items() if "|" not in name and offer))


@given(name=st.one_of(names, st.sampled_from([b"mget", b"Set", b"MSET", b"DEL"])), rest=st.lists(texts, max_size=6))
def test_any_request_has_its_prefix_or_is_left_to_the_rules(name: bytes, rest: list[bytes]) -> None:
    argv = [name, *rest]
    for policy_of_app in (BARE, RULES):
        tried = Tried(policy_of_app.plan, argv)
        if tried.decision in (JUDGE, REFUSE):
            continue
        assert tried.decision in (EDIT, WITH_PREFIX), "nothing of a tenant goes on as it is"
        assert tried.written == encode_command(expected(policy_of_app, argv))


def test_a_ttl_is_put_behind() -> None:
    with_ttl = compiled("{ttl: {lifetime: {default: 5m, jitter: 0%}}}")
    assert Tried(with_ttl.plan, [b"SET", b"k", b"v"]).written == encode_command(
        [b"SET", b"acme:k", b"v", b"EX", b"300"]
    )


def test_names_only_get_there_by_a_prefix() -> None:
    for argv in ([b"GET", b"k"], [b"MGET", b"k", b"l"]):
        assert Tried(BARE.plan, argv, prefix=b"").decision == JUDGE


def test_only_offered_commands_without_other_names_go_at_once() -> None:
    assert goes_at_once("GET")
    for name, offer in DECISIONS.items():
        if goes_at_once(name):
            assert isinstance(offer, Offer)
            assert offer == Offer(RequestNames.KEYS, in_scripts=True), name


def test_the_key_of_a_remedy_is_left_to_the_rules() -> None:
    loaded = policy(TENANTS.replace("RULES", "{}"))
    remedy = Remedy(1, "default", b"acme:hot", "acme", Rate(1, 1, 1), 0.0, 1.0, "INC-1")
    its = replace(loaded, rules=(remedy.rule(StoredNames(loaded.tenants)),))
    plan = compile_policy(its, STANDARD, app=loaded.apps[0]).plan
    assert Tried(plan, [b"GET", b"hot"]).decision == JUDGE
    assert Tried(plan, [b"MGET", b"a", b"hot"]).decision == JUDGE
    assert Tried(plan, [b"GET", b"cold"]).decision == WITH_PREFIX
