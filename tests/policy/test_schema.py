"""The schema section: its settings, all its errors at once, and the files that share it."""

from pathlib import Path

import pytest

from proxy.cli import main
from proxy.policy_yaml.errors import PolicyError
from proxy.rules.verdict import PASS
from proxy.schema.bounds import Bounds
from proxy.schema.entries import NO_SCHEMA, KeySize
from tests.policy.given import compiled, policy, policy_files
from tests.rules.given import command, context

SCHEMA = """
schema:
  cart: {key: "cart:{user:int}", type: hash, ttl: {default: 2h, max: 7d, sliding: true}, about: open basket}
  page: {key: "cache:{path...}", type: string, ttl: {default: 5m, min: 10s, jitter: 10%}, size: {max: 10KB}}
  jobs:
    key: "queue:{name}"
    type: list
    ttl: none
    size: {members: 500, members_per_write: 50, max: 1MB, lists: trim, unknown: refuse}
  code: {key: "code:{id}", ttl: {required: true, max: 1h}, size: 1KB}
  lock: {key: "lock:{id}", ttl: 30s}
  both: {key: "both:{id}", ttl: {default: 1d, required: true, jitter_stated: 20%}}
"""
RULES = "rules: {ttl: {schema: ttl, mode: off}, size: {schema: size, mode: off}, "


def problems(text: str) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        policy(text)
    return [str(problem).partition(": ")[2] for problem in caught.value.problems]


def problem(body: str) -> str:
    """The one thing that is wrong with an entry."""
    found = problems("schema:\n  e: {" + body + "}\nrules: {type: {schema: type, mode: off}}\n")
    assert len(found) == 1, found
    return found[0]


def test_all_that_can_be_said() -> None:
    found = policy(SCHEMA + RULES + "types: {schema: type}}")
    cart, page, jobs, code, lock, both = found.schema.entries
    assert (cart.name, cart.type, cart.about, cart.app) == ("cart", "hash", "open basket", "")
    assert cart.lifetime == Bounds(default=7200, most=604_800, sliding=True)
    assert page.lifetime == Bounds(default=300, least=10, jitter=0.1)
    assert jobs.lifetime == Bounds()
    assert code.lifetime == Bounds(most=3600, required=True)
    assert lock.lifetime == Bounds(default=30)
    assert both.lifetime == Bounds(default=86_400, required=True, jitter_stated=0.2)
    assert [each.size for each in (cart, page, jobs, code)] == [
        None, KeySize(10_240), KeySize(1 << 20, 500, 50, trims=True, unknown=False), KeySize(1024),
    ]  # fmt: skip
    assert cart.place.endswith("policy.yaml:4")
    assert found.schema.owner_of(b"cache:a:b") is page
    assert policy("rules: {}").schema is NO_SCHEMA


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("type: hash", "schema.e.key: found nothing, expected a pattern of keys"),
        ("key: [a]", "schema.e.key: found a list, expected a pattern of keys"),
        ('key: "a:{id"', "schema.e.key: found 'a:{id' at character 3, expected a } behind it"),
        ("key: a, example: b", "schema.e.example: found 'b', which no entry owns, expected a key such as a"),
        ("key: a, relates_to: [b]", "schema.e.relates_to: found 'b', expected the name of another entry"),
        ("key: a, relates_to: [e]", "schema.e.relates_to: found 'e', expected the name of another entry"),
        ("key: a, relates_to: b", "schema.e.relates_to: found 'b', expected a list such as [A, B]"),
        ("key: a, type: map", "schema.e.type: found 'map', expected one of string, hash, list, set, zset, stream"),
        ("key: a, ttl: [1]", "schema.e.ttl: found a list, expected none, a time such as 5m, or a mapping"),
        ("key: a, ttl: 5", "schema.e.ttl: found '5', expected a time with its unit"),
        ("key: a, ttl: {}", "schema.e.ttl: found no lifetime, expected default, min, max or required"),
        ("key: a, ttl: {max: 1d, jitter: 5%}", "schema.e.ttl.jitter: found jitter without a default"),
        ("key: a, ttl: {max: 1d, sliding: true}", "schema.e.ttl.sliding: found sliding without a default"),
        ("key: a, ttl: {required: false}", "schema.e.ttl: found no lifetime, expected default, min, max or required"),
        (
            "key: a, ttl: {min: 2h, max: 1h, required: true}",
            "schema.e.ttl.min: found 2h, expected at most max, which is 1h",
        ),
        ("key: a, ttl: {default: 1h, max: 1h, jitter: 10%}", "schema.e.ttl.default: found 54m to 1h6m"),
        ("key: a, ttl: {default: 1h, min: 2h}", "schema.e.ttl.default: found 1h"),
        ("key: a, size: [1]", "schema.e.size: found a list, expected a size such as 10KB"),
        (
            "key: a, size: {}",
            "schema.e.size: found an empty mapping, expected at least one of max, members, members_per_write",
        ),
        ("key: a, size: 10", "schema.e.size: found '10', expected a size with its unit"),
        ("key: a, type: string, size: {members: 5}", "schema.e.size.members: found members of a string, expected max"),
        (
            "key: a, type: string, size: {members_per_write: 5}",
            "schema.e.size.members_per_write: found members of a string, expected max",
        ),
        (
            "key: a, size: {members: 5, members_per_write: 5}",
            "schema.e.size.members_per_write: found 5, expected less than members (5)",
        ),
        ("key: a, size: {max: 1KB, lists: trim}", "schema.e.size.lists: found this, expected members beside it"),
        ("key: a, size: {max: 1KB, unknown: pass}", "schema.e.size.unknown: found this, expected members beside it"),
        (
            "key: a, type: set, size: {members: 5, lists: trim}",
            "schema.e.size.lists: found lists, of a set, expected type: list, or no type",
        ),
        ("key: a, size: {members: 0}", "schema.e.size.members: found '0', expected a whole number from 1"),
        ("key: a, tll: 5m", "schema.e.tll: found an unknown key, expected one of key, type, ttl, size, about, app"),
        ("key: a, app: nobody", "schema.e.app: found 'nobody', expected an app"),
    ],
)
def test_what_is_wrong_is_told(body: str, said: str) -> None:
    assert said in problem(body)


def test_patterns_that_do_not_settle_whose_a_key_is() -> None:
    found = problems("""
        schema:
          Bad: {key: "x"}
          one: {key: "a:{x}"}
          two: {key: "a:{y}"}
          words: {key: "{e:p|q}"}
          p: {key: p}
          q: {key: q}
        rules: {}
        """)
    assert len(found) == 3
    assert "schema.Bad: found 'Bad', expected a name of lower-case letters" in found[0]
    assert "schema.two.key: found 'a:{y}', expected a pattern that is more or less specific than that of" in found[1]
    assert found[1].endswith("policy.yaml:5): both match a:b")
    assert (
        "schema.words.key: found '{e:p|q}', expected a pattern that owns some key; more specific patterns" in found[2]
    )
    intricate = "".join(f'  {letter}: {{key: "{{x}}{letter}{{y}}:{letter}"}}\n' for letter in "abcdefghijklmnopq")
    assert "expected patterns that need at most 50000 states" in problems("schema:\n" + intricate + "rules: {}")[0]


def test_a_rule_about_a_schema_needs_one() -> None:
    expected = "rules.types.schema: found a rule about the schema, expected a schema; this policy has none"
    assert problems("rules: {types: {schema: type}}") == [expected]
    assert problems("rules: {known: {names: {in_schema: true}}}")[0].startswith("rules.known.names.in_schema: found a")
    assert policy("rules: {known: {names: {in_schema: true}, mode: off}}").rules
    assert "rules.types.schema: found 'typ', expected one of type, size" in problems("rules: {types: {schema: typ}}")[0]


def test_teams_add_their_keys(tmp_path: Path) -> None:
    files = {
        "main.yaml": """
            keyrail: 1
            include: [apps/*.yaml]
            apps:
              cart: {match: {user: cart}}
              shop: {match: {user: shop}}
            schema: {other: {key: "{any...}", app: shop}}
            rules: {}
            """,
        "apps/cart.yaml": """
            app: cart
            schema: {page: {key: "cart:{path...}"}}
            """,
        "apps/shop.yaml": """
            app: shop
            schema: {page: {key: "shop:{path...}"}}
            """,
    }
    found = policy_files(tmp_path, files)
    assert [entry.title for entry in found.schema.entries] == ["shop/other", "cart/page", "shop/page"]
    files["apps/shop.yaml"] = """
        app: shop
        schema: {page: {key: "cart:{path...}", app: cart}}
        """
    with pytest.raises(PolicyError) as caught:
        policy_files(tmp_path, files)
    told = [str(each).removeprefix(str(tmp_path)) for each in caught.value.problems]
    assert len(told) == 2
    assert told[0].startswith("/apps/shop.yaml:3: schema.page.app: found an unknown key")
    assert "schema.page.key: found 'cart:{path...}', expected a pattern that is more or less specific" in told[1]
    assert "than that of cart/page" in told[1]


def test_names_are_unique_within_what_one_app_owns(tmp_path: Path) -> None:
    schema = 'schema: {page: {key: "%s"}}'
    files = {
        "main.yaml": "keyrail: 1\ninclude: [more.yaml]\nrules: {}\n" + schema % "a",
        "more.yaml": schema % "b",
    }
    with pytest.raises(PolicyError, match=r"more.yaml:1: schema.page: found a second time, expected each name once"):
        policy_files(tmp_path, files)


def test_a_rule_reads_the_schema() -> None:
    bound = compiled(SCHEMA + RULES + "types: {schema: type, applies_to: all, mode: enforce}}")
    for text, passes in (("LPUSH cart:1 x", False), ("GET cart:1", False), ("HGET cart:1 f", True), ("GET x", True)):
        assert (bound.judge(command(text), context()).verdict == PASS) is passes, text


def test_keys_of_an_app_that_is_only_claimed_are_nobodys_own() -> None:
    text = """
        apps: {checkout: {match: {user: checkout}}, spark: {match: {client_name: "spark-*"}}}
        schema:
          cart: {key: "cart:{id}", app: checkout}
          job: {key: "job:{id}", app: spark}
          task: {key: "task:{id}", app: spark}
        rules: {known-keys: {names: {in_schema: %s}, mode: enforce}}
        """
    (warning,) = policy(text % "owned").warnings  # once for each app
    assert "policy.yaml:6: schema.job.key: spark is only claimed (by its client name), never exempted, so" in warning
    assert policy(text % "true").warnings == ()
    judge = compiled(text % "owned").judge
    assert judge(command("SET job:1 x"), context()).verdict == PASS
    assert judge(command("SET cart:1 x"), context()).verdict != PASS


@pytest.mark.parametrize(
    ("size", "noted"),
    [
        ("{members: 5}", True),
        ("{members: 5, members_per_write: 2}", False),
        ("{members_per_write: 2}", False),
        ("10KB", False),
    ],
)
def test_check_says_what_members_means(
    size: str, noted: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "policy.yaml"
    schema = f'schema: {{cart: {{key: "cart:{{id}}", size: {size}}}}}'
    file.write_text(f"keyrail: 1\n{schema}\nrules: {{sizes: {{schema: size}}}}\n", encoding="utf-8")
    assert main(["check", str(file)]) == 0
    said = "policy.yaml:2: cart: members limits the collection; members_per_write limits one write\n"
    assert (said in capsys.readouterr().out) is noted
