"""Parts of a policy without effect are an error: rules with commands that earlier rules refuse, shares and exceptions
for keys that no command has, apps that no client can match. Similar parts with an effect pass."""

import random
from ipaddress import ip_network
from itertools import product
from pathlib import Path

import pytest

from proxy.policy.apps import App, Caller, Match, covers_text, identify
from proxy.policy.networks import contains
from proxy.policy_yaml.errors import PolicyError, Where
from tests.conftest import seeds
from tests.policy.given import policy_files, problems

FIELDS = ("user", "client_name", "address")
NETWORKS = ("", "", "", "10.0.0.0/24", "10.0.0.0/16", "10.0.0.1/32", "0.0.0.0/0", "fd00::/64")
PATTERNS = ("", "", "a", "b", "ab", "a*", "*b", "*")
ALLOWED = "allow: {allow_only: [GET, SET]}"


@pytest.mark.parametrize(
    ("rule", "more"),
    [
        ("{replace: {DEL: UNLINK}}", ""),
        ("{whole_collections: {commands: [HGETALL]}}", ""),
        ("{refuse: [FLUSHALL], mode: off}", "replace: {replace: {DEL: UNLINK}}"),
    ],
)
def test_a_rule_to_which_nothing_is_left(rule: str, more: str) -> None:
    found = problems(f"rules:\n  {ALLOWED}\n  other: {rule}\n  {more}\n")
    assert len(found) == 1
    assert "found a rule that can never apply, expected a command that no earlier rule " in found[0]
    assert "; allow (" in found[0]


@pytest.mark.parametrize(
    ("first", "second", "acts"),
    [
        ("refuse: [FLUSHALL]", "refuse: [FLUSHALL ASYNC]", False),
        ("refuse: [FLUSHALL ASYNC]", "refuse: [FLUSHALL]", True),
        ("refuse: [FLUSHALL], mode: audit", "refuse: [FLUSHALL ASYNC]", True),
        ("refuse: [CONFIG]", "refuse: [CONFIG GET maxmemory]", False),
        ("refuse: [CONFIG], allow: [CONFIG GET]", "refuse: [CONFIG GET maxmemory]", True),
    ],
)
def test_of_two_lists_the_first_may_leave_nothing_to_the_second(first: str, second: str, acts: bool) -> None:
    found = problems(f"defaults: {{mode: enforce}}\nrules: {{a: {{{first}}}, b: {{{second}}}}}")
    assert len(found) == (not acts)
    assert all("rules.b: found a rule that can never apply, expected a command" in each for each in found)


@pytest.mark.parametrize(
    "rest",
    [
        "rules: {ALLOWED, del: {replace: {DEL: UNLINK}, mode: enforce}}",  # the list is only audited yet
        "rules: {ALLOWED, ttl: {lifetime: {default: 5m}}}",
        "rules: {ALLOWED, keys: {refuse: [KEYS]}}",  # its own words come first
        "rules: {allow: {allow_only: [GET, UNLINK, DEL x]}, del: {replace: {DEL: UNLINK}}}",
        "rules: {maintenance: {read_only: true}, ttl: {lifetime: {default: 5m}}}",  # it comes and goes
        """
        apps: {a: {match: {user: a}}}
        rules: {ALLOWED, del: {replace: {DEL: UNLINK}}}
        rollout: {allow: {default: off, a: audit}, del: audit}
        """,
        """
        rules: {ALLOWED, del: {replace: {DEL: UNLINK}}}
        exceptions: [{rule: allow, keys: "x:*", because: why not}]
        """,
    ],
)
def test_a_rule_to_which_something_is_left(rest: str) -> None:
    assert problems(rest.replace("ALLOWED", ALLOWED)) == []


def test_a_share_of_keys_where_there_are_none() -> None:
    rules = "rules: {none: {refuse: [FLUSHALL]}, walks: {refuse: [KEYS]}, some: {refuse: [SORT]}}\n"
    found = problems(rules + "rollout: {none: enforce 10%, walks: enforce 10%, some: enforce 10%}")
    assert [each.partition(": ")[2].partition(",")[0] for each in found] == [
        "rollout.none: found enforce 10%",
        "rollout.walks: found enforce 10%",
    ]
    assert "rules.none.mode: found enforce 10%" in problems("rules: {none: {refuse: [PING], mode: enforce 10%}}")[0]


def test_exceptions_that_never_hold() -> None:
    text = """
    apps: {a: {match: {user: a}}}
    rules: {none: {refuse: [PING]}, walks: {refuse: [KEYS]}, ttl: {lifetime: {default: 5m, keys: ["c:*", d]}}}
    exceptions:
      - {rule: %s, because: x}
    """
    one = " because: x}\n      - {rule: "
    for said, problem in (
        ('none, keys: "x:*",', "exceptions[0].keys: found x:*, expected no keys: the commands of none have"),
        ('ttl, keys: "x:*",', "exceptions[0].keys: found x:*, expected some of the keys that ttl is about: c:*, d"),
        (
            f"ttl, app: a,{one}ttl, app: a,",
            "exceptions[1]: found an exception that can never apply, expected",
        ),
        (f'ttl, keys: "c:*",{one}ttl, app: a, keys: "c:1*",', "exceptions[1]: found an exception that can never apply"),
        (f"ttl, app: a, until: 2030-01-01, then: warn,{one}ttl, app: a,", "exceptions[1]: found an exception that"),
        (f"ttl, app: a, until: 2030-01-02,{one}ttl, app: a, until: 2030-01-01,", "exceptions[1]: found an exception"),
    ):
        found = problems(text % said.removesuffix(","))
        assert len(found) == 1, said
        assert problem in found[0]
    for said in (
        'walks, keys: "x:*",',
        'ttl, keys: "c*",',
        f'ttl, app: a, keys: "c:1*",{one}ttl, keys: "c:*",',
        f"ttl, app: a, until: 2030-01-01,{one}ttl, app: a,",
        f"ttl, app: a, until: 2030-01-01,{one}ttl, app: a, until: 2030-01-02,",
        f"ttl, app: a,{one}walks, app: a,",
    ):
        assert problems(text % said.removesuffix(",")) == [], said


@pytest.mark.parametrize("seed", seeds(3))
def test_an_app_is_an_error_if_and_only_if_no_client_is_found_to_be_of_it(seed: int) -> None:
    chance = random.Random(seed)
    hosts = ("10.0.0.1", "10.0.1.1", "10.9.9.9", "fd00::1", "unix")
    who = product(("a", "b", "ab", "c"), ("a", "b", "ab", "c"), hosts)
    callers = [Caller(user, name, address=host) for user, name, host in who]
    for _ in range(100):
        found = [tuple(_some_of(chance, values) for values in (PATTERNS, PATTERNS, NETWORKS)) for _ in range(4)]
        listed = [dict(zip(FIELDS, each, strict=True)) for each in dict.fromkeys(found) if any(each)]
        apps = policy_apps(listed)
        matches = ", ".join(
            f"app{at}: {{match: {{{', '.join(f'{what}: {list(given)}' for what, given in each.items() if given)}}}}}"
            for at, each in enumerate(listed)
        )
        told = str(problems(f"apps: {{{matches}}}\nrules: {{}}"))
        never = {app.name for app in apps if f"apps.{app.name}.match: found an app" in told}
        reached = {each.name for caller in callers if (each := identify(apps, caller)) is not None}
        assert never.isdisjoint(reached)
        assert {app.name for app in apps if app.match.is_exact} <= never | reached


def _some_of(chance: random.Random, values: tuple[str, ...]) -> tuple[str, ...]:
    """Up to two of them, none of which has all that another one has."""
    first, second = chance.choice(values), chance.choice(values)
    apart = first and second and not (covers(first, second) or covers(second, first)) and chance.random() < 0.3
    return tuple(sorted((first, second))) if apart else (first,) * bool(first)


def covers(one: str, other: str) -> bool:
    if "." in one or ":" in one:
        return contains(ip_network(one), ip_network(other))
    return covers_text(one, other)


def policy_apps(listed: list[dict[str, tuple[str, ...]]]) -> tuple[App, ...]:
    return tuple(
        App(
            f"app{at}",
            Where(""),
            match=Match(
                user=each["user"], client_name=each["client_name"], address=tuple(map(ip_network, each["address"]))
            ),
        )
        for at, each in enumerate(listed)
    )


def test_an_app_that_is_never_found() -> None:
    found = problems('apps: {one: {match: {user: "*"}}, two: {match: {user: two}}}\nrules: {}')
    assert "apps.two.match: found an app that no client can match, expected clients that one (" in found[0]
    found = problems('apps: {one: {match: {client_name: "a-*"}}, two: {match: {user: "*"}}}\nrules: {}')
    assert "apps.one.match: found an app that no client can match" in found[0]
    for apps in (
        "one: {match: {user: [a, b]}}, two: {match: {user: b}}",
        "one: {match: {address: [10.0.0.0/8, 11.0.0.0/8]}}, two: {match: {address: [11.1.0.0/16, 10.0.0.1]}}",
        "one: {match: {address: 10.0.0.0/8}}, two: {match: {address: 10.0.0.1}}",
    ):
        (found_one,) = problems(f"apps: {{{apps}}}\nrules: {{}}")
        assert "apps.two.match: found an app that no client can match" in found_one
    for apps in (
        'one: {match: {user: one}}, two: {match: {user: "*"}}',
        'one: {match: {user: "a*"}}, two: {match: {user: "*a"}}',
        'one: {match: {user: "*"}}, two: {match: {user: two, listener: "*:6380"}}',
        'one: {match: {user: a, client_name: b}}, two: {match: {client_name: "*"}}',
        "one: {match: {user: [a, b]}}, two: {match: {user: [b, c]}}",
        "one: {match: {address: 10.1.0.0/16}}, two: {match: {address: 10.0.0.0/8}}",
        "one: {match: {address: 0.0.0.0/0}}, two: {match: {address: '::/0'}}",
        "one: {match: {address: 10.0.0.0/8}}, two: {match: {user: a}}",
    ):
        assert problems(f"apps: {{{apps}}}\nrules: {{}}") == [], apps


def test_prefixes_with_which_no_name_passes() -> None:
    for names, said in (
        ('segments: 1, prefixes: ["shop:"]', "rules.n.names.prefixes: found 'shop:', expected one that leaves names"),
        ('max_length: 3, prefixes: ["shop:"]', "found 'shop:', expected one that fits into max_length, which is 3"),
        ('characters: word-ascii, prefixes: ["a b:"]', "found 'a b:', expected one of word-ascii characters"),
        ('segments: 2.., prefixes: ["a::b"]', "found 'a::b', expected one without an empty segment"),
    ):
        found = problems(f"rules: {{n: {{names: {{{names}}}}}}}")
        assert len(found) == 1
        assert said in found[0]
    assert problems('rules: {n: {names: {segments: 2, max_length: 6, prefixes: ["shop:"]}}}') == []


@pytest.mark.parametrize(
    ("key", "names", "passes"),
    [
        ("cart", "segments: 2..", False),
        ("cart:{user}", "segments: 3", False),
        ("cart:{path...}", "segments: 3", True),
        ("cart:{path...}", "segments: 1", False),
        ("sh\u00f6p:{id}", "characters: printable-ascii", False),
        ("shop:{id}", "characters: printable-ascii", True),
        ("a-long-beginning:{id}", "max_length: 17", False),
        ("a-long-beginning:{id}", "max_length: 18", True),
        ("cart::{id}", "segments: 2..", False),
        ("cart::{id}", "segments: 2.., empty_segments: allow", True),
        ("cart:{id}", "min_length: 200", True),
        ("cart:{id:date}", "min_length: 30", False),
        ("temp:{id}", "banned_segments: [Temp]", False),
        ("temp:{id}", "banned: [temp]", True),
        ("cart:{id}", "segment_types: [int]", False),
        ("cart:{id:hex}", "segment_types: [any, int]", True),
        ("cart:{{{id:int}}}", "hash_tags: refuse", False),
        ("cart:{{{id}", "hash_tags: refuse", True),
        ("cart:{id}", "prefixes: {a: ['a:'], default: ['x:', 'b:']}", False),
        ("cart:{id}", "prefixes: {a: ['cart:'], default: ['x:']}", True),
        ("cart:{id}", "prefixes: {a: ['cart:']}", True),
        ("cart:{id}", "segments: 100..", False),
        ("cart:{id...}", "segments: 100..", True),
    ],
)
def test_a_pattern_whose_keys_no_name_may_be(key: str, names: str, passes: bool) -> None:
    text = f"""
    apps: {{a: {{match: {{user: a}}}}}}
    schema: {{other: {{key: "x:y:z"}}, mine: {{key: "{key}"}}, any: {{key: "{{any...}}"}}}}
    rules: {{n: {{names: {{{names}}}, mode: enforce}}}}
    """
    found = [each for each in problems(text) if "schema.mine" in each]
    assert len(found) == (not passes)
    assert all("expected a pattern with a key that n (" in each for each in found)
    assert problems(text.replace("enforce", "audit")) == []
    assert problems(text.replace("mode: enforce", "mode: enforce, applies_to: reads")) == []


def test_a_pattern_is_told_whatever_rules_refuse_its_keys_together() -> None:
    text = """
    apps: {a: {match: {user: a}}}
    schema: {mine: {key: "cart:{id:int}"}, other: {key: "x:{id}:{of}"}}
    rules:
      short: {names: {max_length: 6}}
      tall: {names: {min_length: 6}}
      mixed: {names: {banned_segments: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]}}
    rollout: {short: enforce, tall: enforce, mixed: {default: enforce, %s}}
    """
    found = problems(text % "a: enforce")
    assert len(found) == 1
    assert "schema.mine.key: found 'cart:{id:int}', expected a pattern with a key that short (" in found[0]
    assert ") and tall (" in found[0]
    assert problems(text % "a: audit") == []  # who is not held to it may have such keys


def test_keys_of_a_rule_that_no_name_may_be() -> None:
    text = """
    rules:
      names: {names: {characters: word-ascii, segments: 2.., banned_segments: [tmp]}, mode: %s}
      ttl: {lifetime: {default: 5m, keys: ["cache:*", %s]}}
      rate: {limits: {rate: 5/s, keys: %s}}
      other: {limits: {rate: 5/s, keys: "flat"}, mode: off}
    """
    found = problems(text % ("enforce", "'cache*home'", '"tmp:*"'))
    assert len(found) == 1
    assert "rules.rate: found 'tmp:*', expected a pattern with a key that names (" in found[0]
    found = problems(text % ("enforce", '"flat"', '"*:tmp*"'))
    assert len(found) == 1
    assert "rules.ttl: found 'flat', expected a pattern with a key that names (" in found[0]
    assert problems(text % ("audit", '"flat"', '"tmp:*"')) == []
    assert problems(text % ("enforce, applies_to: writes", '"flat"', '"tmp:*"')) == []  # others may be read


def test_a_schema_that_leaves_its_keys_alone_is_not_taken_for_one_about_none() -> None:
    text = 'schema: {a: {key: "a:{id}", ttl: none}}\nrules: {ttl: {schema: ttl}}\nrollout: {ttl: enforce 10%}'
    assert problems(text) == []


def test_an_exception_from_the_own_rule_of_another_app(tmp_path: Path) -> None:
    files = {
        "redis.yaml": """
            keyrail: 1
            include: [a.yaml]
            apps: {a: {match: {user: a}}, b: {match: {user: b}}}
            rules: {}
            exceptions: [{rule: own, app: %s, because: x}]
        """,
        "a.yaml": "app: a\nrules: {own: {refuse: [SET]}}",
    }
    with pytest.raises(PolicyError, match=r"exceptions\[0\].app: found b, expected a; own is a rule of that app"):
        policy_files(tmp_path, files | {"redis.yaml": files["redis.yaml"] % "b"})
    assert policy_files(tmp_path, files | {"redis.yaml": files["redis.yaml"] % "a"}).exceptions
