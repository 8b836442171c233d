"""The app of a client, and the mode of a rule for it: the list of precedence, line by line."""

from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path

import pytest

from proxy.commands.table import STANDARD
from proxy.policy.apps import App, Caller, Match, identify, matches_one
from proxy.policy.compile import needs_of
from proxy.policy.expectations import run_tests
from proxy.policy.load import load_policy
from proxy.policy.model import Mode, Policy
from proxy.policy.precedence import effective_mode, in_share, spent
from proxy.policy_yaml.errors import PolicyError, Where
from tests.policy.given import compile_policy, policy, policy_files, problems
from tests.rules.given import command, context

HERE = Where("test")
APPS = """
    apps:
      checkout: {team: checkout, contact: "#checkout", match: {user: checkout}}
      reports: {team: data, match: {client_name: "spark-*"}}
"""
RULES = """
    rules:
      no-flush: {refuse: [FLUSHALL], locked: true}
      no-keys: {refuse: [KEYS]}
      lazy: {replace: {DEL: UNLINK}}
"""
BEFORE, AFTER = (datetime(2027, 1, day, tzinfo=UTC).timestamp() for day in (14, 15))


def mode(loaded: Policy, rule: str, app: str = "", paused: bool = False) -> str:
    found = next(each for each in loaded.rules if each.name == rule)
    return str(effective_mode(loaded, found, app_of(loaded, app), paused).stage)


def app_of(loaded: Policy, name: str) -> App | None:
    return next((app for app in loaded.apps if app.name == name), None)


def verdict(loaded: Policy, line: str, app: str = "", now: float = BEFORE) -> list[tuple[str, str]]:
    moment = context()
    moment.now = now
    bound = compile_policy(loaded, STANDARD, app=app_of(loaded, app))
    return [(hit.rule, hit.mode.value) for hit in bound.judge(command(line), moment).hits]


def problem_of(tmp_path: Path, files: dict[str, str]) -> str:
    with pytest.raises(PolicyError) as caught:
        policy_files(tmp_path, files)
    return str(caught.value).replace(f"{tmp_path}/", "")


def test_proven_apps_are_found_before_claimed_ones_and_a_name_proves_nothing() -> None:
    apps: tuple[App, ...] = (
        App("named", HERE, match=Match(client_name=("web-*",))),
        App("user", HERE, match=Match(user=("web", "shop"))),
        App("both", HERE, match=Match(user=("admin",), client_name=("web-*",))),
        App("listener", HERE, match=Match(listener=("127.0.0.1:6390",))),
        App("certificate", HERE, match=Match(certificate=("*.web.example",))),
    )
    apps += (App("address", HERE, match=Match(address=(ip_network("10.1.0.0/16"), ip_network("fd00:1::/64")))),)
    assert [app.proven for app in apps] == [False, True, False, True, True, True]

    def found(**caller: str) -> str:
        app = identify(apps, Caller(**{"user": "default", **caller}))
        return "" if app is None else app.name

    assert found() == ""
    assert found(client_name="web-1") == "named"
    assert found(user="web", client_name="web-1") == "user"
    assert found(user="other", client_name="web-1") == "named"
    assert found(user="admin") == ""
    assert found(user="admin", client_name="web-1") == "both"
    assert found(listener="127.0.0.1:6390", client_name="web-1") == "listener"
    assert found(certificate="a.web.example") == "certificate"
    assert found(user="shop", client_name="web-1") == "user"
    for address in ("10.1.2.3", "::ffff:10.1.2.3", "fd00:1::9", "fd00:1::9%eth0"):
        assert found(address=address, client_name="web-1") == "address"
    for address in ("10.2.0.1", "fd00:2::9", "unix", "", "10.1.2.3.4"):
        assert found(address=address) == ""
    assert found(address="10.1.2.3", user="shop") == "user"  # of equals the first


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [("a*c", "abc", True), ("a*c", "ab", False), ("a.c", "abc", False), ("*", "", True), ("a*", "a\nb", True)],
)
def test_only_the_star_is_special(pattern: str, text: str, fits: bool) -> None:
    assert matches_one((pattern,), text) is fits


def test_what_comes_first_holds() -> None:
    loaded = policy(f"""
    defaults: {{mode: warn}}
    {APPS}
    {RULES}
    rollout:
      no-flush: enforce
      no-keys: {{default: enforce, checkout: audit, reports: audit}}
    """)
    assert mode(loaded, "no-flush", paused=True) == "enforce"
    assert mode(loaded, "no-keys") == "enforce"
    assert mode(loaded, "no-keys", "checkout") == "audit"
    assert mode(loaded, "no-keys", "reports") == "enforce"  # it only says that it is
    assert mode(loaded, "no-keys", paused=True) == "audit"
    assert mode(loaded, "lazy") == "warn"
    assert mode(loaded, "lazy", paused=True) == "warn"
    assert [each.partition(": ")[2] for each in loaded.warnings] == [
        "rollout.no-keys.reports: reports is only claimed (by its client name), never exempted, so this has no effect"
    ]


def test_a_claimed_app_may_be_judged_more_strictly() -> None:
    loaded = policy(f"{APPS}{RULES}    rollout: {{no-keys: {{default: audit, reports: enforce}}}}")
    assert mode(loaded, "no-keys", "reports") == "enforce"
    assert loaded.warnings == ()


def test_an_apps_own_file_tightens_for_itself_alone(tmp_path: Path) -> None:
    loaded = policy_files(
        tmp_path,
        {
            "redis.yaml": f"    keyrail: 1\n    include: [apps/*.yaml]\n{APPS}{RULES}",
            "apps/checkout.yaml": """
                app: checkout
                rules: {no-scan: {refuse: [SCAN], mode: enforce}}
                rollout: {no-keys: enforce}
                tests: [{send: "KEYS *", refused_by: no-keys}]
            """,
        },
    )
    assert mode(loaded, "no-keys", "checkout") == "enforce"
    assert mode(loaded, "no-keys", "checkout", paused=True) == "audit"
    assert mode(loaded, "no-keys") == "audit"
    assert verdict(loaded, "SCAN 0", "checkout") == [("no-scan", "enforce")]
    assert verdict(loaded, "SCAN 0") == []
    assert [(test.app, test.refused_by) for test in loaded.tests] == [("checkout", "no-keys")]
    assert [Path(file).name for file in loaded.files] == ["redis.yaml", "checkout.yaml"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("app: nosuch", "checkout.yaml:1: app: found 'nosuch', expected an app: checkout, reports"),
        ("app: checkout\nrollout: {no-flush: audit}", "rollout.no-flush: found audit, expected enforce or stricter"),
        ("app: checkout\nrollout: {lazy: enforce 5%}", "found enforce 5%, expected enforce 20% or stricter"),
        ("app: checkout\nrollout: {no-keys: {reports: enforce}}", "found modes of apps, expected one mode"),
        ("app: checkout\nrollout: {nosuch: enforce}", "rollout.nosuch: found 'nosuch', expected a rule: no-flush"),
        ("app: checkout\nrules: {x: {refuse: [GET], locked: true}}", "expected a locked rule in the platform's file"),
        ("app: checkout\nexceptions: []", "exceptions: found an unknown key, expected one of"),
        ("app: checkout\napps: {}", "apps: found an unknown key"),
        ("app: checkout\ninclude: [x.yaml]", "include: found an unknown key"),
        ("rules: {no-keys: {refuse: [SCAN]}}", "rules.no-keys: found a second time, expected it once (first in redis"),
        ("rollout: {no-keys: off}", "rollout: found rollout in an included file, expected the file that includes"),
        ("apps: {eve: {match: {user: x}}}", "apps: found apps in an included file, expected the file that includes"),
        ("cross_slot: split", "cross_slot: found cross_slot in an included file, expected the file that includes"),
        ("tenants: {prefix: x, apps: [checkout]}", "tenants: found tenants in an included file"),
        ("exceptions: [{rule: lazy, app: checkout, because: x}]", "exceptions: found exceptions in an included file"),
        ("keyrail: 2", "keyrail: found '2', expected 1"),
        ("[", "checkout.yaml:1: found the end of the file, expected a value"),
    ],
)
def test_what_an_included_file_may_not_say(tmp_path: Path, text: str, problem: str) -> None:
    first = f"    keyrail: 1\n    include: [apps/*.yaml]\n{APPS}{RULES}    rollout: {{lazy: enforce 20%}}"
    assert problem in problem_of(tmp_path, {"redis.yaml": first, "apps/checkout.yaml": text})


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("include: [nosuch.yaml]", "found 'nosuch.yaml', expected a file that is there"),
        ("include: [/etc/*.yaml]", "expected a file or pattern below this file's own folder"),
        ("include: [../other.yaml]", "expected a file or pattern below this file's own folder"),
        ("include: ['**x/*.yaml']", "expected a pattern such as apps/*.yaml"),
        ("app: checkout", "found an app's own file, expected the platform's file"),
        ("apps: {Bad: {match: {user: x}}}", "apps.Bad: found 'Bad', expected a name of lower-case letters"),
        ("apps: {unknown: {match: {user: x}}}", "apps.unknown: found 'unknown', expected a name of lower-case letters"),
        ("apps: {default: {match: {user: x}}}", "at most 64, and not unknown or default"),
        ("apps: {a: {team: x}}", "apps.a.match: found nothing, expected how its clients are recognised"),
        ("apps: {a: {match: {}}}", "apps.a.match: found nothing, expected at least one of user"),
        ("apps: {a: {match: {ip: x}}}", "apps.a.match.ip: found an unknown key"),
        ("apps: {a: {match: {user: x}}, b: {match: {user: x}}}", "apps.b.match: found the same clients, expected"),
        ("apps: {a: {match: {user: [x, y]}}, b: {match: {user: [y, x]}}}", "b.match: found the same clients"),
        (
            "apps: {a: {match: {user: [x, x]}}}",
            "apps.a.match.user[1]: found 'x', expected a value that x does not cover",
        ),
        ("apps: {a: {match: {user: []}}}", "apps.a.match.user: found an empty list, expected a list such as"),
        ("apps: {a: {match: {user: {b: c}}}}", "apps.a.match.user: found a mapping, expected text of at most"),
        (
            "apps: {a: {match: {address: 10.0.0.1/8}}}",
            "a.match.address: found '10.0.0.1/8', expected a network such as",
        ),
        (
            "apps: {a: {match: {address: ['::1', x]}}}",
            "a.match.address[1]: found 'x', expected a network such as 10.0.1.0/",
        ),
        ("apps: {a: {match: {address: 'fe80::1%eth0'}}}", "apps.a.match.address: found 'fe80::1%eth0', expected a net"),
        ("apps: {a: {match: {address: '::ffff:10.0.0.0/104'}}}", "expected the network as IPv4, such as 10.0.0.0/32"),
        (
            "apps: {a: {match: {address: [10.0.0.0/8, 10.1.0.0/16]}}}",
            "apps.a.match.address[1]: found '10.1.0.0/16', expected a value that 10.0.0.0/8 does not cover already",
        ),
        (
            "apps: {a: {match: {address: [10.1.0.0/16, '::1']}}, b: {match: {address: ['::1', 10.1.0.0/16]}}}",
            "apps.b.match: found the same clients, expected other conditions than those of a",
        ),
        ("rollout: {no-flush: audit}", "rollout.no-flush: found audit, expected enforce, since the rule is locked"),
        ("rollout: {no-keys: {nosuch: warn}}", "rollout.no-keys.nosuch: found 'nosuch', expected an app: apps names"),
        ("rollout: {no-keys: sometimes}", "rollout.no-keys: found 'sometimes', expected off, audit, warn, enforce or"),
        ("rollout: {no-keys: audit 10%}", "found 'audit 10%', expected off, audit, warn, enforce or enforce 10% (a sh"),
        ("rollout: {no-keys: enforce 0%}", "found 'enforce 0%', expected"),
        ("rollout: {no-keys: {}}", "rollout.no-keys: found an empty mapping, expected modes such as"),
        ("exceptions: [{rule: no-flush, keys: a, because: x}]", "found no-flush, which is locked, expected a rule"),
        ("exceptions: [{rule: no-keys, because: x}]", "exceptions[0]: found neither app nor keys, expected app"),
        ("exceptions: [{rule: no-keys, keys: a}]", "exceptions[0].because: found nothing, expected the reason"),
        ("exceptions: [{rule: no-keys, keys: 'a?', because: x}]", "expected a pattern of keys in which only * is"),
        ("exceptions: [{rule: no-keys, keys: a, because: x, until: soon}]", "found 'soon', expected a day such as"),
        ("exceptions: [{rule: no-keys, keys: a, because: x, then: warn}]", "found then without until, expected"),
        ("exceptions: {}", "exceptions: found an empty mapping, expected a list such as"),
        ("tests: [{send: KEYS, refused_by: nosuch}]", "tests[0].refused_by: found 'nosuch', expected a rule"),
        ("tests: [{send: KEYS, refused_by: off}]", "tests[0].refused_by: found off, which is off"),
        ("tests: [{send: KEYS}]", "tests[0]: found no outcome, expected one of refused_by, asked_by, answ"),
        (
            "tests: [{send: KEYS, refused_by: no-keys, unchanged: true}]",
            "tests[0]: found refused_by and unchanged, expected one of refused_by, asked_by, answered_by, warned_by; ",
        ),
        (
            "tests: [{send: KEYS, becomes: A, unchanged: true}]",
            "tests[0]: found becomes and unchanged, expected one of",
        ),
        (
            "tests: [{send: KEYS, followed_by: [no-keys, nosuch]}]",
            "tests[0].followed_by: found 'nosuch', expected a rule",
        ),
        ("tests: [{unchanged: true}]", "tests[0].send: found nothing, expected a command"),
        ("tests: [{send: 'GET \"a', unchanged: true}]", "expected a command as typed into redis-cli"),
        ("tests: [{send: GET, unchanged: true, app: nosuch}]", "tests[0].app: found 'nosuch', expected an app"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, line: str, problem: str) -> None:
    rules = RULES.replace("no-keys: {", "off: {refuse: [SAVE], mode: off}\n      no-keys: {")
    assert problem in problem_of(tmp_path, {"redis.yaml": f"    keyrail: 1\n    {line}\n{rules}"})


def test_modes_are_in_one_place_only() -> None:
    with pytest.raises(PolicyError, match=r"rules\.no-keys\.mode: found warn, expected no mode here"):
        policy("rules: {no-keys: {refuse: [KEYS], mode: warn}}\nrollout: {no-keys: audit}")


def test_a_share_is_of_keys_and_the_rest_is_audited() -> None:
    loaded = policy(f"{RULES}    rollout: {{lazy: enforce 30%}}")
    modes = {name: verdict(loaded, f"DEL {name}") for name in (f"user:{i}" for i in range(200))}
    inside, outside = ([name for name in modes if modes[name] == [("lazy", mode)]] for mode in ("enforce", "audit"))
    assert 35 <= len(inside) <= 85
    assert len(outside) == 200 - len(inside)
    assert verdict(loaded, f"DEL {inside[0]} {inside[1]}") == [("lazy", "enforce")]
    assert verdict(loaded, f"DEL {inside[0]} {outside[0]}") == [("lazy", "audit")]
    assert not in_share(command("KEYS *"), 0.99)


def test_an_exception_ends_on_its_day() -> None:
    loaded = policy(f"""
    defaults: {{mode: enforce}}
    {APPS}
    {RULES}
    exceptions:
      - {{rule: no-keys, app: checkout, keys: "lock:*", because: DATA-412, until: 2027-01-15, then: warn}}
      - {{rule: lazy, keys: "tmp:*", because: DATA-413, until: 2027-01-15}}
    """)
    assert verdict(loaded, "KEYS lock:*", "checkout") == []
    assert verdict(loaded, "KEYS lock:a?", "checkout") == []
    assert verdict(loaded, "KEYS lock:*", "checkout", AFTER) == [("no-keys", "warn")]
    assert verdict(loaded, "KEYS *", "checkout") == [("no-keys", "enforce")]
    assert verdict(loaded, "KEYS lock", "checkout") == [("no-keys", "enforce")]
    assert verdict(loaded, "KEYS lock:*") == [("no-keys", "enforce")]
    assert verdict(loaded, "DEL tmp:1") == []
    assert verdict(loaded, "DEL tmp:1 user:1") == [("lazy", "enforce")]
    assert verdict(loaded, "DEL tmp:1", now=AFTER) == [("lazy", "enforce")]
    assert spent(loaded, BEFORE) == []
    assert [each.because for each in spent(loaded, AFTER)] == ["DATA-413"]


def test_the_kill_switch_takes_away_what_follows_an_exception_too() -> None:
    loaded = policy(f"""
    {RULES}
    exceptions: [{{rule: lazy, keys: "tmp:*", because: DATA-413, until: 2027-01-15, then: enforce}}]
    """)
    moment = context()
    moment.now = AFTER
    for paused, expected in ((False, Mode.ENFORCE), (True, Mode.AUDIT)):
        hits = compile_policy(loaded, STANDARD, paused=paused).judge(command("DEL tmp:1"), moment).hits
        assert [hit.mode for hit in hits] == [expected]


def test_what_any_app_may_need_is_probed() -> None:
    loaded = policy(f"{APPS}{RULES}    rollout: {{lazy: {{default: off, checkout: enforce}}}}")
    assert needs_of(loaded, STANDARD) == {"DEL", "UNLINK"}
    assert compile_policy(loaded, STANDARD).needs == frozenset()
    assert needs_of(policy(f"{RULES}    rollout: {{lazy: off}}"), STANDARD) == frozenset()


def test_an_included_file_that_cannot_be_read_is_no_silent_miss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"redis.yaml": "    keyrail: 1\n    include: [apps/*.yaml]\n    rules: {}", "apps/a.yaml": "rules: {}"}
    policy_files(tmp_path, files)
    (tmp_path / "apps/b.yaml").symlink_to("nowhere")
    (tmp_path / "apps/c.yaml").mkdir()
    with pytest.raises(PolicyError) as caught:
        load_policy(tmp_path / "redis.yaml")
    (problem,) = caught.value.problems
    assert (problem.where.file, problem.found) == (
        f"{tmp_path}/apps/b.yaml",
        "no file to read (No such file or directory)",
    )

    def denied(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_dir", denied)  # as in a folder that may be listed and not entered
    with pytest.raises(PolicyError) as caught:
        load_policy(tmp_path / "redis.yaml")
    (problem,) = caught.value.problems
    assert (problem.where.line, problem.path) == (2, "include[0]")
    assert problem.found.endswith(": Permission denied)")


WARNED = """
apps: {shop: {match: {user: shop}}, reports: {match: {user: reports}}}
rules:
  no-keys: {refuse: [KEYS]}
  lazy: {replace: {DEL: UNLINK}}
  small: {collections: {members: 5}}
  names: {names: {max_length: 9}}
rollout:
  no-keys: {default: warn, shop: enforce, reports: audit}
  lazy: warn
  small: warn
  names: enforce
"""


@pytest.mark.parametrize(
    ("test", "got"),
    [
        ('{send: "KEYS *", warned_by: no-keys}', ""),
        ('{send: "DEL a", warned_by: lazy}', ""),
        ('{send: "KEYS *", app: shop, warned_by: no-keys}', "refused by no-keys"),
        ('{send: "KEYS *", app: reports, warned_by: no-keys}', "refused by no-keys, in mode audit"),
        ('{send: "DEL a:long:name", warned_by: lazy}', "refused by names"),
        ('{send: "GET a", warned_by: lazy}', "no hit of a rule in its own mode"),
        ('{send: "DEL a", warned_by: no-keys}', "rewritten by lazy, in mode warn"),
        ('{send: "HSET a b c", warned_by: small}', "no hit of a rule in its own mode"),
        ('{send: "DEL a", becomes: "UNLINK a"}', ""),
    ],
)
def test_a_test_may_say_who_warns(test: str, got: str) -> None:
    (outcome,) = run_tests(policy(f"{WARNED}tests: [{test}]"), BEFORE).outcomes
    assert outcome.got == got


def test_who_warns_is_reached_and_must_be_a_rule_that_is_on() -> None:
    report = run_tests(policy(f'{WARNED}tests: [{{send: "KEYS *", warned_by: no-keys}}]'), BEFORE)
    assert report.unreached == ("lazy", "small", "names")
    assert str(report.outcomes[0]).endswith("KEYS *: warned of by no-keys")
    for test, problem in (
        ('{send: "KEYS *", warned_by: nosuch}', "tests[0].warned_by: found 'nosuch', expected a rule: no-keys"),
        ('{send: "KEYS *", warned_by: no-keys, unchanged: true}', "tests[0]: found warned_by and unchanged, expected"),
    ):
        (found,) = problems(f"{WARNED}tests: [{test}]")
        assert problem in found
