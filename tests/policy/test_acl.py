"""Which users, commands and keys an ACL has that backs a policy up; `tests/guardrails/test_acl.py` asks engines."""

from __future__ import annotations

import pytest

from proxy.commands.table import STANDARD
from proxy.policy.acl import VERSIONS, Acl, AclUser, acl_of
from proxy.policy.acl.own_commands import AS_KEYRAIL
from tests.policy.given import policy

NOW = 1_800_000_000.0
APPS = """
apps:
  checkout: {match: {user: [checkout, "c-*"]}}
  reports: {match: {user: reports, listener: "*:6381"}}
  batch: {match: {client_name: "batch-*"}}
"""
CLOSED = "scripts: {scripts: {commands: follow_rules, dynamic_calls: refuse, undeclared_keys: refuse}}\n"


def made(rules: str, version: str = "redis-7.0", *, apps: str = "", more: str = "", scripts_too: bool = False) -> Acl:
    text = f"defaults: {{mode: enforce}}\n{apps}\nrules:\n  {rules}\n{more}"
    return acl_of(policy(text), VERSIONS[version], NOW, scripts_too=scripts_too)


def login(rules: str, version: str = "redis-7.0", more: str = "", *, scripts_too: bool = False) -> AclUser:
    return made(rules, version, more=more, scripts_too=scripts_too).users[0]


def commands(user: AclUser) -> list[str]:
    """The words about commands."""
    return [word for word in user.words if word[0] in "+-"]


def keys(user: AclUser) -> list[str]:
    return [word for word in user.words if word[0] in "~%"]


def whys(user: AclUser, rule: str, command: str) -> list[str]:
    return [each.why for each in user.wider if each.rule == rule and command in each.commands]


def test_what_keyrail_sends_are_commands() -> None:
    assert [name for name in AS_KEYRAIL if STANDARD.find(name) is None] == []


def test_apps_that_name_users_are_users() -> None:
    found = made("a: {refuse: [SAVE]}", apps=APPS)
    assert [(user.name, user.apps) for user in found.users] == [
        ("default", ("checkout", "reports", "batch", "")),
        ("checkout", ("checkout",)),
        ("reports", ("reports", "batch", "")),
    ]
    assert found.untold == (
        "checkout: Redis cannot tell its clients by their user pattern",
        "reports: Redis cannot tell its clients by their listener",
        "batch: Redis cannot tell its clients by their client name",
    )


def test_the_first_app_that_always_matches_hides_the_others() -> None:
    apps = "apps: {a: {match: {user: u}}, b: {match: {user: 'u*'}}, port: {match: {user: u, listener: '*:1'}}}"
    assert made("a: {refuse: [SAVE]}", apps=apps).users[1].apps == ("port", "a")


def test_a_user_may_do_what_any_of_its_apps_may() -> None:
    found = made("a: {refuse: [SAVE, SHUTDOWN], apps: [reports]}\n  b: {refuse: [SHUTDOWN]}", apps=APPS)
    default, checkout, reports = found.users
    assert [commands(user) for user in (default, checkout, reports)] == [["+@all", "-shutdown"]] * 3
    assert whys(reports, "a", "SAVE") == ["Redis cannot tell the clients of reports from others of this user"]
    assert whys(checkout, "a", "SAVE") == []


@pytest.mark.parametrize(
    ("rule", "more"),
    [
        ("a: {refuse: [SAVE], mode: audit}", ""),
        ("a: {refuse: [CLIENT KILL TYPE]}", ""),
        ("a: {refuse: [SHUTDOWN]}", "exceptions: [{rule: a, app: checkout, because: x}]\n" + APPS),
        ("a: {refuse: [XGROUP DESTROY], keys: 'a*'}", ""),
        ("a: {refuse: [BGSAVE], allow: [BGSAVE SCHEDULE]}", ""),
        ("a: {refuse: [SUBSTR]}", "rollout: {a: enforce 10%}"),
    ],
)
def test_what_passes_for_somebody_is_not_denied(rule: str, more: str) -> None:
    assert commands(login(rule, more=more)) == ["+@all"]


def test_an_exception_that_is_over_counts_no_more() -> None:
    until = "exceptions: [{rule: a, app: checkout, because: x, until: %s}]\n" + APPS
    assert commands(login("a: {refuse: [SAVE]}", more=until % "2020-01-01")) == ["+@all", "-save"]
    assert commands(login("a: {refuse: [SAVE]}", more=until % "2090-01-01")) == ["+@all"]


def test_subcommands() -> None:
    rule = "a: {refuse: [CONFIG SET, MODULE]}"
    assert commands(login(rule, scripts_too=True)) == ["+@all", "-config|set", "-module"]
    old = commands(login(rule, "redis-6.2", scripts_too=True))
    assert old[:2] == ["+@all", "-config"]
    assert "+config|get" in old
    assert "+config|set" not in old
    assert old[-1] == "-module"


def test_only_commands_of_the_version_are_named() -> None:
    rule = "a: {refuse: [MSETEX, FT.SEARCH, FUNCTION LOAD, SAVE]}"
    old, new = login(rule, "redis-6.2"), login(rule, "valkey-9", scripts_too=True)
    assert commands(old) == ["+@all", "-save"]
    assert commands(new) == ["+@all", "-function|load", "-msetex", "-save"]
    assert new.elsewhere == ("-ft.search",)


def test_an_allow_list_adds_to_nothing() -> None:
    user = login("a: {allow_only: [GET, CONFIG GET, JSON.GET]}", scripts_too=True)
    assert commands(user)[0] == "-@all"
    assert {"+get", "+config|get", "+ping", "+multi"} <= set(user.words)
    assert not {"+set", "+config", "+config|set", "+flushall", "-set"} & set(user.words)
    assert user.elsewhere == ("+client|no-touch", "+client|setinfo", "+hpttl", "+json.get")


def test_modules_commands_of_allowed_categories_may_pass() -> None:
    assert commands(login("a: {allow_only: ['@read', '@hash', SET]}", scripts_too=True))[:3] == [
        "-@all",
        "+@hash",
        "+@read",
    ]
    assert commands(login("a: {read_only: true}", scripts_too=True))[:2] == ["-@all", "+@read"]
    assert commands(login("a: {refuse: [SAVE]}"))[:1] == ["+@all"]


def test_transactions() -> None:
    user = login("a: {transactions: refuse}")
    assert commands(user) == ["+@all", "-watch"]
    assert whys(user, "a", "MULTI") == ["Keyrail sends it itself"]


@pytest.mark.parametrize(
    ("more", "denied"),
    [
        ("", False),
        ("b: {scripts: {commands: follow_rules, dynamic_calls: warn}}", False),
        ("b: {scripts: {commands: follow_rules, dynamic_calls: refuse}, mode: audit}", False),
        ("b: {scripts: {commands: follow_rules, dynamic_calls: refuse}}", True),
        ("b: {refuse: [EVAL, EVALSHA, EVAL_RO, EVALSHA_RO, FCALL, FCALL_RO]}", True),
        ("b: {refuse: [EVAL, EVALSHA, EVAL_RO, EVALSHA_RO, FCALL]}", False),
    ],
)
def test_what_scripts_may_call_is_not_denied(more: str, denied: bool) -> None:
    rules = f"a: {{refuse: [FLUSHALL]}}\n  {more}"
    user = login(rules)
    assert ("-flushall" in user.words) is denied
    assert bool(whys(user, "a", "FLUSHALL")) is not denied
    assert "-flushall" in login(rules, scripts_too=True).words


def test_a_rule_that_only_counts_calls_of_scripts() -> None:
    rules = "a: {refuse: [KEYS], in_scripts: audit}\n  " + CLOSED
    assert "-keys" not in login(rules).words
    assert "-keys" in login("c: {allow_only: ['@string', '@scripting'], locked: true}\n  " + rules).words
    assert "-keys" in login(rules, scripts_too=True).words


def test_prefixes() -> None:
    rule = 'own: {names: {prefixes: ["a:", "a:b:", "x*[y]\\\\z:", "ü "]}}\n  ' + CLOSED
    user = login(rule)
    assert keys(user) == ["~a:*", "~x\\*\\[y]\\\\z:*", "~???*", "%R~keyrail:*"]
    assert "~keyrail:*" in keys(login(rule, "redis-6.2"))
    assert user.words[-1] == "(+sort +sort_ro ~*)"
    assert whys(user, "own", "GET") == ["an ACL knows only how names begin"], "three bytes stand for others"


def test_prefixes_say_all() -> None:
    user = login("own: {names: {prefixes: ['a:']}}\n  " + CLOSED)
    assert whys(user, "own", "GET") == []
    assert whys(user, "own", "PFMERGE") == ["Redis does not check the key of a PFMERGE of one key"]
    assert whys(user, "own", "SORT") == ["the patterns of BY and GET need a selector with all keys"]


def test_several_rules_about_prefixes() -> None:
    rules = "one: {names: {prefixes: ['a:', 'b:c:']}}\n  two: {names: {prefixes: ['b:', 'a:x:', 'z']}}\n  " + CLOSED
    assert keys(login(rules))[:-1] == ["~a:x:*", "~b:c:*"]


def test_rules_about_writes_or_reads() -> None:
    writes = "own: {names: {prefixes: ['a:']}, applies_to: writes}\n  " + CLOSED
    assert keys(login(writes)) == ["~a:*", "%R~*"]
    assert keys(login(writes, "redis-6.2")) == ["~*"]
    assert keys(login("own: {names: {prefixes: ['a:']}, applies_to: reads}\n  " + CLOSED)) == ["~*"]
    sliding = writes + "  ttl: {lifetime: {default: 5m, sliding: true}}"
    assert keys(login(sliding)) == ["~*"], "Keyrail renews the TTL of what is read"


def test_the_schema() -> None:
    schema = """
schema:
  cart: {key: "cart:{id:int}"}
  tagged: {key: "t:{{{id}}}:x"}
  rest: {key: "cart:9:{path...}"}
"""
    rules = "known: {names: {in_schema: true}}\n  " + CLOSED
    user = login(rules, more=schema)
    assert keys(user)[:-1] == ["~cart:*", "~t:{*}:x"]
    assert whys(user, "known", "GET") == ["an ACL knows only how names begin"]
    own = "own: {names: {prefixes: {default: ['c', 't:{'], other: ['x']}}}\n  "
    apps = "apps: {other: {match: {user: other}}}\n"
    assert keys(made(own + rules, more=schema, apps=apps).users[1]) == []


@pytest.mark.parametrize("more", ["", "walks: {keys_by_scan: {keys: 10}}\n  " + CLOSED])
def test_keys_that_scripts_or_keyrail_may_touch(more: str) -> None:
    user = login("own: {names: {prefixes: ['a:']}}\n  " + more)
    assert keys(user) == ["~*"]
    assert len(whys(user, "own", "GET")) == 1


def test_rules_that_nobody_is_under() -> None:
    assert made("a: {refuse: [SAVE], mode: audit}\n  b: {refuse: [KEYS]}").not_enforced == ("a",)


TENANTS = """
apps:
  acme: {match: {user: [acme, "acme:b"]}}
  web: {match: {user: web}}
  port: {match: {user: acme2, listener: "*:1"}}
tenants: {prefix: "PREFIX", apps: [acme, port]}
"""


def of_tenants(prefix: str, rules: str = "{}", version: str = "redis-7.0", scripts: str = "judged") -> Acl:
    more = f", scripts: {scripts}" if scripts != "judged" else ""
    text = TENANTS.replace('"PREFIX"', f'"{prefix}"{more}')
    return acl_of(policy(f"defaults: {{mode: enforce}}\n{text}\nrules: {rules}"), VERSIONS[version], NOW)


def test_users_of_tenants_have_their_names_alone() -> None:
    found = {each.name: each for each in of_tenants("{app}:").users}
    default, acme, other, web, both = (found[name] for name in ("default", "acme", "acme:b", "web", "acme2"))
    assert keys(acme) == keys(other) == ["~acme:*"]
    told = {"&__keyspace@?__:acme:*", "&__keyspace@??__:acme:*", "&__redis__:invalidate"}
    assert {word for word in acme.words if word[0] == "&"} == {"&acme:*", "&keyrail:*", *told}
    for each in (default, web, both):
        assert keys(each) == ["~*"], "its clients may be of no tenant"
        assert "&*" in each.words
        assert commands(each) == ["+@all"]
        assert each.narrower == ()
    assert "Redis cannot tell the clients of port from others of this user" in whys(both, "tenants", "FLUSHALL")


def test_commands_that_are_not_offered_to_tenants_are_denied() -> None:
    acme = of_tenants("{app}:").users[1]
    words = set(commands(acme))
    assert "-@all" in words
    assert words >= {"+get", "+eval", "+scan", "+client|id", "+script|load"}
    assert words.isdisjoint({"+keys", "+flushdb", "+monitor", "+client", "+client|list", "+script|flush", "+fcall"})
    assert whys(acme, "tenants", "SCAN") == ["Redis limits it to no keys and channels: it tells of all"]
    assert whys(acme, "tenants", "ASKING") == ["Keyrail sends it itself"]
    refusing = set(commands(of_tenants("{app}:", scripts="refuse").users[1]))
    assert refusing.isdisjoint({"+eval", "+evalsha", "+fcall"})
    trusting = of_tenants("{app}:", scripts="trusted").users[1]
    assert {"+eval", "+fcall"} <= set(commands(trusting))
    assert keys(trusting) == ["~acme:*"], "Redis holds scripts to them"
    assert [each.commands for each in trusting.narrower] == [
        *(("SORT", "SORT_RO"), ("PSUBSCRIBE",), ("SUBSCRIBE",)),
        ("EVAL", "EVALSHA", "EVALSHA_RO", "EVAL_RO", "FCALL", "FCALL_RO"),
    ]


def test_a_prefix_with_names_of_a_client() -> None:
    acme, other = of_tenants("v1/{user}:").users[1:3]
    assert (keys(acme), keys(other)) == (["~v1/acme:*"], []), "acme:b can be in no prefix, so its clients have no keys"
    assert [word for word in other.words if word[0] == "&"] == []
    acme = of_tenants("{app}@{listener}/").users[1]
    assert keys(acme) == ["~acme@*/*"]
    assert "for news.* of clients, add &PREFIXnews.*" in acme.narrower[1].why
    assert whys(acme, "tenants", "GET") == [
        "Redis cannot tell at which listener a client is, so keys of other listeners match, too"
    ]


def test_rules_about_names_of_tenants() -> None:
    rules = (
        "{own: {names: {prefixes: {acme: ['cart:', 'x[']}}, applies_to: writes}, "
        + CLOSED.strip().replace("scripts: {scripts", "s: {scripts")
        + "}"
    )
    acme = of_tenants("{app}:", rules).users[1]
    assert keys(acme) == ["~acme:cart:*", "~acme:x\\[*", "%R~acme:*"]
    acme = of_tenants("{app}@{listener}/", rules, "redis-6.2").users[1]
    assert keys(acme) == ["~acme@*/*"]
    assert "SORT" not in {name for each in acme.narrower for name in each.commands}
    assert "Redis does not check the keys that BY and GET find" in whys(acme, "tenants", "SORT")
