"""A limit refuses commands over its subject's limit and no others, and says when to retry; the plan spends from the
same tokens as the rule."""

from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import product
from typing import Any

import pytest

from proxy.commands.table import STANDARD
from proxy.hotpath.plan.automaton import NOBODY
from proxy.hotpath.plan.plan import Plan
from proxy.hotpath.upstream.in_flight import ReplySink
from proxy.rules.context import Context
from proxy.rules.key_globs import key_glob, none_fits
from proxy.rules.limits.rule import LimitRule, LimitsSettings, Per
from proxy.rules.limits.token_buckets import TokenBuckets
from proxy.rules.lowering import Lowering
from proxy.rules.memory import Memory
from proxy.rules.one_key import OneKey
from proxy.rules.rates import Rate
from proxy.rules.rule import Binding, Wording
from proxy.rules.shared_state import Lease
from proxy.rules.verdict import PASS, Refuse, Verdict
from tests.rules.given import NO_WORDS, command, context, spec, spend

TWO_A_SECOND = LimitsSettings(rate=Rate(2, 1, 2))


def limits(settings: LimitsSettings, wording: Wording = NO_WORDS, memory: Memory | None = None) -> LimitRule:
    return LimitRule("fair", settings, wording, Binding(STANDARD, memory=memory or Memory()))


def caller(now: float = 0.0, known: dict[str, Any] | None = None) -> Context:
    return replace(context(), now=now, **known or {})


def error(verdict: Verdict) -> str:
    assert isinstance(verdict, Refuse)
    return verdict.error.decode()


def test_the_error_says_what_is_too_much_and_when_to_come_back() -> None:
    rule = limits(TWO_A_SECOND)
    assert [rule.judge(command("GET a"), caller()) for _ in range(2)] == [PASS, PASS]
    refused = rule.judge(command("GET a"), caller())
    assert error(refused) == "-DENIED keyrail/fair: more than 2 commands/s in all; retry after 500 ms\r\n"
    assert rule.judge(command("GET a"), caller(0.5)) == PASS


def test_only_the_beginning_of_a_client_name_is_kept() -> None:
    rule = limits(replace(TWO_A_SECOND, per=Per.CLIENT_NAME))
    names = [{"client_name": "n" * 1000 + end} for end in "abc"]
    assert [rule.judge(command("GET a"), caller(0.0, name)) for name in names[:2]] == [PASS, PASS]
    assert isinstance(rule.judge(command("GET a"), caller(0.0, names[2])), Refuse), "it is the same subject"


def test_the_authors_words_are_added() -> None:
    rule = limits(LimitsSettings(rate=Rate(1, 60, 1), per=Per.APP), Wording("it is shared", "use MGET"))
    rule.judge(command("GET a"), caller())
    assert error(rule.judge(command("GET a"), caller())) == (
        "-DENIED keyrail/fair: more than 1 commands/m from this app, and it is shared; "
        "use MGET; retry after 60000 ms\r\n"
    )


def test_the_error_names_the_pattern() -> None:
    rule = limits(LimitsSettings(rate=Rate(1, 60, 1), keys=("product:*", "part:*")))
    assert rule.judge(command("GET other"), caller()) is PASS
    rule.judge(command("GET product:1"), caller())
    for key in ("product:2", "part:1"):
        assert error(rule.judge(command(f"GET {key}"), caller())) == (
            "-DENIED keyrail/fair: more than 1 commands/m about product:*, part:* in all; retry after 60000 ms\r\n"
        )


def test_bytes_are_those_of_the_request() -> None:
    rule = limits(LimitsSettings(rate=Rate(100, 1, 100), bytes=Rate(1000, 1, 1000), per=Per.ADDRESS))
    assert rule.judge(command("SET a", b"v" * 950), caller()) == PASS
    refused = rule.judge(command("SET a", b"v" * 950), caller())
    assert error(refused).startswith("-DENIED keyrail/fair: more than 1000 bytes/s from this address; retry after 9")


def test_commands_under_way() -> None:
    rule = limits(LimitsSettings(per=Per.USER, concurrency=1))
    presence = rule.enter(caller())
    assert rule.judge(command("GET a"), caller()) == PASS
    client = ReplySink()
    client.pending_replies = 1
    assert presence.members is not None
    presence.members.add(client)
    refused = rule.judge(command("GET a"), caller())
    assert error(refused) == (
        "-DENIED keyrail/fair: more than 1 commands in flight from this user; retry after 10 ms\r\n"
    )


@pytest.mark.parametrize(
    ("per", "one", "other"),
    [
        (Per.APP, {"app": "a"}, {"app": "b"}),
        (Per.USER, {"user": "a"}, {"user": "b"}),
        (Per.ADDRESS, {"address": "10.0.0.1"}, {"address": "10.0.0.2"}),
        (Per.CLIENT_NAME, {"client_name": "a"}, {"client_name": "b"}),
    ],
)
def test_subjects_have_a_limit_each(per: Per, one: dict[str, str], other: dict[str, str]) -> None:
    rule = limits(replace(TWO_A_SECOND, per=per))
    verdicts = [rule.judge(command("GET a"), caller(known=one)) for _ in range(3)]
    assert [isinstance(verdict, Refuse) for verdict in verdicts] == [False, False, True]
    assert rule.judge(command("GET a"), caller(known=other)) == PASS


def test_only_the_commands_and_keys_that_it_names() -> None:
    scans = limits(replace(TWO_A_SECOND, commands=("SCAN", "PING")))
    assert [scans.touches(spec(name)) for name in ("SCAN", "PING", "GET")] == [True, True, False]
    products = limits(replace(TWO_A_SECOND, keys=("product:*",)))
    assert not products.touches(spec("INFO"))
    for text in ("GET user:1", "GET product", "MGET a:b c"):
        assert [products.judge(command(text), caller()) for _ in range(3)] == [PASS] * 3
    verdicts = [products.judge(command("MGET user:1 product:1"), caller()) for _ in range(3)]
    assert isinstance(verdicts[2], Refuse)


@pytest.mark.parametrize("name", ["HELLO", "AUTH", "CLIENT SETINFO", "PING", "MULTI", "EXEC", "UNSUBSCRIBE", "INFO"])
def test_what_a_client_cannot_do_without_is_free(name: str) -> None:
    assert not limits(TWO_A_SECOND).touches(spec(name))


def test_what_is_not_known_is_counted() -> None:
    assert limits(TWO_A_SECOND).touches(STANDARD.specs[0])


@pytest.mark.parametrize(("per", "may_still_log_in"), [(Per.ALL, False), (Per.ADDRESS, False), (Per.USER, True)])
def test_one_client_too_many(per: Per, may_still_log_in: bool) -> None:
    rule = limits(LimitsSettings(per=per, connections=2))
    full = []
    for _ in range(3):
        presence = rule.enter(caller())
        full.append(presence.full)
        assert presence.members is not None
        presence.members.add(ReplySink())
    assert full == [False, False, True]
    surplus = replace(caller(), surplus=frozenset({"fair"}))
    assert rule.judge(command("GET a"), caller()) == PASS
    refused = rule.judge(command("GET a"), surplus)
    assert isinstance(refused, Refuse)
    assert refused.close
    assert "more than 2 connections" in error(refused)
    assert (rule.judge(command("AUTH x"), surplus) == PASS) is may_still_log_in


def test_connections_of_other_workers_count() -> None:
    memory = Memory(workers=2)
    settings = LimitsSettings(connections=2)
    rule = limits(settings, memory=memory)
    assert not rule.enter(caller()).full
    memory.each(TokenBuckets)["fair"].lease({"": Lease(0.5, 2)}, 0.0)
    assert rule.enter(caller()).full


def test_a_reload_forgets_nothing_unless_the_limit_is_another() -> None:
    memory = Memory()
    for settings, passes in ((TWO_A_SECOND, 2), (TWO_A_SECOND, 0), (replace(TWO_A_SECOND, per=Per.USER), 2)):
        rule = limits(settings, memory=memory)
        assert sum(rule.judge(command("GET a"), caller()) == PASS for _ in range(5)) == passes
    memory.retain(frozenset())
    assert limits(TWO_A_SECOND, memory=memory).judge(command("GET a"), caller()) == PASS


def lowered(rule: LimitRule, name: str) -> tuple[bool, bytes]:
    """Whether the plan leaves the command to the rule, and the token sets that it pays from."""
    lowering, plan = Lowering(spec(name)), Plan(len(STANDARD.specs))
    lowering.token_set = 3
    rule.lower(spec(name), lowering)
    lowering.apply(spec(name).id, plan, {}, {})
    return lowering.settled, plan.token_sets[plan.token_sets_of[spec(name).id]]


def test_the_plan_pays_by_itself_where_no_key_has_a_say() -> None:
    assert lowered(limits(TWO_A_SECOND), "GET") == (False, b"\3")
    assert lowered(limits(LimitsSettings(per=Per.USER, connections=2)), "GET") == (False, b"\3")
    assert lowered(limits(LimitsSettings(connections=2)), "PING") == (True, b"")
    assert lowered(limits(replace(TWO_A_SECOND, keys=("a:*",))), "GET") == (False, b"")


@pytest.mark.parametrize(
    "parts", [(b"a:b",), (b"a", b""), (b"", b"ab", b""), (b"", b"aab"), (b"ab", b"ba"), (b"", b"")]
)
def test_the_plan_knows_which_keys_count(parts: tuple[bytes, ...]) -> None:
    glob = key_glob(parts)
    language = none_fits(frozenset({glob}))
    assert language is not None
    names = [bytes(name) for length in range(6) for name in product(b"ab:", repeat=length)]
    assert {name for name in names if glob.fits(name)} == {
        name for name in names if fnmatchcase(name.decode(), "*".join(part.decode() for part in parts))
    }
    assert [language.owner(name) == NOBODY for name in names] == [glob.fits(name) for name in names]


def test_one_key_whatever_its_bytes() -> None:
    rule = limits(replace(TWO_A_SECOND, key=OneKey(b"a*\xff\n")))
    assert rule.judge(command("GET", b"a*\xff\n"), caller()) == PASS
    assert rule.judge(command("GET", b"a*\xff\n"), caller()) == PASS
    assert isinstance(rule.judge(command("GET", b"a*\xff\n"), caller()), Refuse)
    assert rule.judge(command("GET", b"ab\xff\n"), caller()) == PASS
    assert lowered(rule, "GET") == (False, b"")
    assert lowered(limits(replace(TWO_A_SECOND, key=OneKey(b"k" * 5000))), "GET") == (True, b""), (
        "so long a key is judged"
    )


def test_one_key_of_a_tenant_is_told_by_the_prefix_of_who_names_it() -> None:
    rule = limits(replace(TWO_A_SECOND, rate=Rate(1, 1, 1), key=OneKey(b"acme:a", b"a")))
    acme, globex, none = (caller(known={"tenant": prefix}) for prefix in (b"acme:", b"globex:", b""))
    others = [("a", globex), ("a", none), ("acme:a", acme), ("acme:a", globex), ("b", acme)]
    assert [rule.judge(command(f"GET {name}"), who) for name, who in others] == [PASS] * 5
    assert rule.judge(command("GET a"), acme) == PASS
    assert isinstance(rule.judge(command("MGET b a"), acme), Refuse)
    assert isinstance(rule.judge(command("GET acme:a"), none), Refuse), "it is the same key"
    assert [rule.judge(command(f"GET {name}"), who) for name, who in others] == [PASS] * 5
    assert lowered(rule, "GET") == (False, b"")


def test_the_plan_and_the_rule_spend_the_same_tokens() -> None:
    rule = limits(replace(TWO_A_SECOND, bytes=Rate(100, 1, 100)))
    token_set = rule.enter(caller()).token_set
    assert spend(token_set, 60)
    assert not spend(token_set, 60)
    assert rule.judge(command("GET a"), caller()) == PASS
    assert not spend(token_set, 1)
    assert isinstance(rule.judge(command("GET a"), caller()), Refuse)


def test_a_rehearsal_costs_nothing() -> None:
    rule = limits(TWO_A_SECOND, memory=Memory(rehearsal=True))
    assert [rule.judge(command("GET a"), caller()) for _ in range(9)] == [PASS] * 9
