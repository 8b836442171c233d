"""The tenants of a policy: whose keys have which prefix, and errors that name line, path and value."""

from __future__ import annotations

from itertools import product

import pytest

from proxy.commands.tenant_commands import ScriptTerms
from proxy.policy.expectations import run_tests
from proxy.policy.tenants import OwnName, StoredNames, Tenant, Tenants, TenantTerms
from tests.policy.given import policy, problems

APPS = """
apps:
  acme: {match: {user: acme}}
  globex: {match: {listener: "*:6380"}}
  claimed: {match: {client_name: "x*"}}
  a_b: {match: {user: ab}}
rules: {}
"""


def tenants(prefix: str, apps: str = "[acme, globex]") -> Tenants:
    return policy(f"{APPS}tenants: {{prefix: {prefix!r}, apps: {apps}}}").tenants


def test_each_app_has_its_prefix_and_others_have_none() -> None:
    of = tenants("{app}:").of
    assert of("acme", "u", "l") == Tenant(b"acme:")
    assert of("globex", "u", "l") == Tenant(b"globex:")
    assert of("a_b", "u", "l") is None
    assert of("unknown", "acme", "l") is None
    assert policy(APPS).tenants.of("acme", "u", "l") is None
    trusting = policy(f"{APPS}tenants: {{prefix: x, apps: [acme], scripts: trusted}}").tenants
    assert trusting.of("acme", "u", "l") == Tenant(b"x", "", TenantTerms(ScriptTerms.TRUST))
    flushes = policy(f"{APPS}tenants: {{prefix: x, apps: [acme], flush: walk, only_keyrail: yes}}").tenants
    assert flushes.of("acme", "u", "l") == Tenant(b"x", "", TenantTerms(flushes=True))
    assert tenants("v2/{listener}/{user}:").of("acme", "ann", "1.2.3.4:6380") == Tenant(b"v2/1.2.3.4:6380/ann:")


def test_the_environment_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGION", "eu-1")
    of = tenants("${REGION}:{app}:").of
    monkeypatch.setenv("REGION", "us-1")
    assert of("acme", "u", "l") == Tenant(b"eu-1:acme:")
    monkeypatch.setenv("REGION", "eu 1")
    with pytest.raises(Exception, match="REGION in the environment with text of such characters: it has 'eu 1'"):
        tenants("${REGION}:{app}:")
    monkeypatch.delenv("REGION")
    with pytest.raises(Exception, match=r"REGION in the environment .*: it has nothing"):
        tenants("${REGION}:{app}:")


NAMES = ["a", "b", "a:b", "a*", "{a}", "", "a:", ":", "ab", "a-b", "a b", "a\n", "ä", "default", "?", "[a]", "a" * 129]


@pytest.mark.parametrize("prefix", ["{user}:", "{app}:{user}:", "{user}:{app}:", "x{user}::", "{user}-{listener}/"])
def test_no_prefix_begins_another_one(prefix: str) -> None:
    found = tenants(prefix)
    made = {
        names: tenant.prefix
        for names in product(("acme", "globex"), NAMES, NAMES)
        if (tenant := found.of(*names)) is not None and not tenant.problem
    }
    assert made
    used = sorted(set(made.values()))
    assert not [(one, other) for one in used for other in used if one != other and other.startswith(one)]
    assert not any(set(each) & set(b"{}*?[]\\ \r\n") for each in used)


@pytest.mark.parametrize("name", ["a:b", "a*", "{a}", "", "a b", "a\n", "ä", "?", "a" * 129])
def test_a_name_that_cannot_be_part_of_a_prefix_is_a_problem(name: str) -> None:
    tenant = tenants("{user}:").of("acme", name, "l")
    assert tenant is not None
    assert (tenant.prefix, bool(tenant.problem)) == (b"", True)


@pytest.mark.parametrize(
    ("prefix", "tells"),
    [("{app}:", True), ("{user}:", False), ("{user}:{app}:", True), ("x{app}{{user}::".replace("{{", "/{"), True)],
)
def test_a_stored_key_tells_whose_it_is(prefix: str, tells: bool) -> None:
    found, others = tenants(prefix), []
    stored = StoredNames(found)
    for app, user, rest in product(("acme", "globex"), NAMES, (b"", b"cart:1", b":", b"acme:x", b"\xff\r\n")):
        tenant = found.of(app, user, "l")
        assert tenant is not None
        if not tenant.problem:
            assert stored.own(tenant.prefix + rest) == OwnName(rest, app if tells else "")
        others.append(user.encode("utf-8", "surrogateescape") + b"#" + rest)
    assert not any(stored.own(each) for each in (b"", b"acm", b"acme", b"ACME:x", *others) if b":" not in each)
    assert StoredNames(tenants("v1:", "[acme]")).own(b"v1:x") == OwnName(b"x", "acme")
    assert StoredNames(policy(APPS).tenants).own(b"acme:x") is None


@pytest.mark.parametrize("name", ["__key", "__keyspace@0__", "__redis__"])
def test_no_prefix_begins_as_channels_of_the_server_do(name: str) -> None:
    tenant = tenants("{user}:").of("acme", name, "l")
    assert tenant is not None
    assert (tenant.prefix, "channels on which Redis itself sends" in tenant.problem) == (b"", True)


EXPECTED = 'expected a prefix such as "{app}:", of {app}, {user}, {listener}, ${VARIABLE} of the environment'


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("{prefix: '{acme}:', apps: [acme]}", f"9: tenants.prefix: found '{{acme}}:', {EXPECTED}"),
        ("{prefix: '{app}*', apps: [acme]}", f"9: tenants.prefix: found '{{app}}*', {EXPECTED}"),
        ("{prefix: '{app}', apps: [acme]}", "9: tenants.prefix: found '{app}', expected a character behind each {…}"),
        ("{prefix: '{app}{user}:', apps: [acme]}", "9: tenants.prefix: found '{app}{user}:', expected a character"),
        ("{prefix: '_', apps: [acme]}", "9: tenants.prefix: found '_', expected a prefix that does not begin channels"),
        ("{prefix: '__keys{app}:', apps: [acme]}", "9: tenants.prefix: found '__keys{app}:', expected a prefix that"),
        ("{prefix: '', apps: [acme]}", "9: tenants.prefix: found"),
        ("{apps: [acme]}", '9: tenants.prefix: found nothing, expected a prefix such as "{app}:"'),
        ("{prefix: '{app}:'}", "9: tenants.apps: found nothing, expected the apps that are tenants"),
        ("{prefix: '{app}:', apps: []}", "9: tenants.apps: found an empty list"),
        ("{prefix: '{app}:', apps: [acme, acme]}", "9: tenants.apps[0]: found 'acme', expected each app once"),
        ("{prefix: '{app}:', apps: [nobody]}", "9: tenants.apps: found nobody, expected an app: acme, globex"),
        ("{prefix: '{app}:', apps: [claimed]}", "9: tenants.apps: found claimed, which is matched by client_name"),
        ("{prefix: '{app}_', apps: [a_b]}", "9: tenants.apps: found a_b, expected a name that can be part"),
        ("{prefix: '{app}:', apps: [acme], slots: one}", "9: tenants.slots: found an unknown key, expected one of"),
        (
            "{prefix: '{app}:', apps: [acme], flush: walk}",
            "9: tenants.flush: found walk, expected only_keyrail: yes beside it, which says that these",
        ),
        ("{prefix: '{app}:', apps: [acme], flush: walk, only_keyrail: no}", "9: tenants.flush: found walk, expected"),
        ("{prefix: '{app}:', apps: [acme], flush: yes}", "9: tenants.flush: found 'yes', expected one of refuse, walk"),
        ("[acme]", "9: tenants: found a list, expected a mapping"),
    ],
)
def test_errors_name_the_place(body: str, problem: str) -> None:
    found = problems(f"{APPS}tenants: {body}")
    assert found
    assert found[0].startswith(problem), found


@pytest.mark.parametrize(
    ("test", "got"),
    [
        ("{send: FLUSHALL, app: acme, refused_by: tenants}", ""),
        ("{send: FLUSHALL, app: acme, unchanged: true}", "refused by tenants"),
        ("{send: FLUSHALL, app: acme, refused_by: no-flush}", "refused by tenants"),
        ("{send: FLUSHALL, app: a_b, refused_by: no-flush}", ""),
        ("{send: FLUSHALL, refused_by: tenants}", "refused by no-flush"),
        ("{send: FLUSHDB, app: acme, unchanged: true}", ""),
        ("{send: GET a, app: acme, refused_by: tenants}", "it unchanged"),
        (r"""{send: 'EVAL "return redis.call(\'GET\', ARGV[1])" 0 a', app: acme, refused_by: tenants}""", ""),
        (r"""{send: 'EVAL "return redis.call(\'GET\', KEYS[1])" 1 a', app: acme, unchanged: true}""", ""),
    ],
)
def test_tests_know_what_is_not_offered(test: str, got: str) -> None:
    tested = policy(
        APPS.replace("rules: {}", "rules: {no-flush: {refuse: [FLUSHALL], mode: enforce}}")
        + "tenants: {prefix: '{app}:', apps: [acme], flush: walk, only_keyrail: yes}\n"
        + f"tests: [{test.replace(chr(92) + chr(39), chr(39) * 2)}]\n"
    )
    assert [each.got for each in run_tests(tested, 0.0).outcomes] == [got]


def test_without_tenants_no_test_is_about_them() -> None:
    (problem,) = problems(f"{APPS}tests: [{{send: FLUSHALL, refused_by: tenants}}]")
    assert "tests[0].refused_by: found 'tenants', expected a rule" in problem
