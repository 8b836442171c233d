"""Every refusal names its rule, the fault, by how much a limit is missed, what to do instead and a contact, in one line
of bounded length that shows keys as the policy's ``redact`` allows."""

import pytest

from proxy.commands.table import STANDARD
from proxy.rules.breaker.rule import Breaker
from proxy.rules.guardrails import GUARDRAILS
from proxy.rules.memory import Memory
from proxy.rules.quota.rule import Quota
from proxy.rules.refusals import LONGEST
from proxy.rules.shared_state import OwnedKeys, Stored
from proxy.rules.verdict import InspectReply, Procedure, Refuse, Surround, Verdict
from tests.policy.given import compile_policy, policy
from tests.rules.given import command, context

SCHEMA = """
defaults: {mode: enforce, contact: "#redis"}
apps: {shop: {contact: "#shop", match: {user: shop}}}
schema:
  cart: {key: "cart:{user:int}", type: hash, ttl: 1h, size: {max: 8B, members: 2}, app: shop}
  form: {key: "form:{id}", type: hash, fields: {age: int}, app: shop}
  lock: {key: "lock:{what...}", ttl: {default: 30s, max: 1m}}
"""
PARTS = ("type", "ttl", "size", "fields")
ROWS = (
    (
        "refuse",
        "{refuse: [KEYS]}",
        "KEYS *",
        "KEYS is refused",
        "use SCAN with MATCH and COUNT",
    ),
    (
        "allow_only",
        "{allow_only: [GET]}",
        "SET k v",
        "SET is not among the commands",
        "ask the operators of this Redis",
    ),
    (
        "unknown_commands",
        "{unknown_commands: refuse}",
        "ACME.X k",
        "the command ACME.X",
        "ask the operators",
    ),
    (
        "read_only",
        "{read_only: true}",
        "SET k v",
        "SET may write, and this policy allows only reads",
        "only read from here",
    ),
    (
        "databases",
        "{databases: [0]}",
        "SELECT 7",
        "names database 7, and this policy allows 0",
        "use database 0",
    ),
    (
        "transactions",
        "{transactions: refuse}",
        "MULTI",
        "MULTI begins a transaction",
        "use one command",
    ),
    (
        "one_slot",
        "{one_slot: true}",
        "MGET a b",
        "the key 'b' (argument 2 of MGET) is in slot 3300",
        "the same hash tag",
    ),
    (
        "scripts",
        "{scripts: {dynamic_calls: refuse}}",
        "EVAL redis.call(ARGV[1]) 0",
        "Keyrail cannot tell",
        "name each",
    ),
    (
        "limits",
        "{limits: {rate: 1/m}}",
        "GET k",
        "more than 1 commands/m in all",
        "retry after 60000 ms",
    ),
    (
        "breaker",
        "{breaker: {failing_for: 1s}}",
        "GET k",
        "Redis is failing",
        "retry after ",
    ),
    (
        "compress",
        "{compress: {keys: ['doc:*']}}",
        "APPEND doc:1 x",
        "values of doc:* are stored compressed, and APPEND is refused for these keys: it changes a part of the plain",
        "read the whole value, change it and write it back",
    ),
    (
        "quota",
        "{quota: {keys: 5, per: owner}}",
        "SET cart:1 v",
        "SET may create a key, and shop is over its quota of 5 keys: the scan of 1970-01-01T00:00:00Z found 9 keys",
        "delete keys that nobody needs",
    ),
    (
        "names",
        "{names: {max_length: 6}}",
        "GET user:12",
        "the key 'user:12' (argument 1 of GET) is 7 bytes long, 1 more than the limit of 6",
        "name it with at most 6 bytes",
    ),
    (
        "names",
        "{names: {segments: 2..3}}",
        "GET user",
        "has 1 segment, and the policy requires 2 to 3, separated by ':'",
        "name it with",
    ),
    (
        "names",
        "{names: {in_schema: true}}",
        "GET card:1",
        "the key 'card:1' (argument 1 of GET) is not in the schema; the nearest entry is shop/cart (cart:{user:int})",
        "name it with a pattern of the schema",
    ),
    (
        "names",
        "{names: {in_schema: owned}}",
        "GET cart:1",
        "the key 'cart:1' (argument 1 of GET) belongs to shop/cart (cart:{user:int}), and the client is of no app",
        "contact: #shop",
    ),
    (
        "sizes",
        "{sizes: {value: 3B}}",
        "SET k abcde",
        "the value in argument 2, for the key 'k' (argument 1 of SET), has 5 bytes, 2 more than the limit of 3",
        "keep it small",
    ),
    (
        "sizes",
        "{sizes: {members: 1}}",
        "SADD k a b c",
        "the command writes 3 members to the key 'k' (argument 1 of SADD), 2 more than the limit of 1",
        "in batches of at most 1",
    ),
    (
        "values",
        "{values: {refuse: [php]}}",
        "SET k a:1:{i:0;i:7;}",
        "the value in argument 2, for the key 'k' (argument 1 of SET), is a value of PHP's serialize()",
        "write JSON",
    ),
    (
        "fan_out",
        "{fan_out: {max: 1}}",
        "MGET a b c",
        "MGET names 3 keys, 2 more than the limit of 1",
        "in pieces of at",
    ),
    (
        "ranges",
        "{ranges: {max: 5}}",
        "LRANGE k 0 9",
        "asks for up to 10 elements of the key 'k' (argument 1 of LRANGE), 5 more than the limit of 5",
        "ask for at most 5",
    ),
    (
        "scan_counts",
        "{scan_counts: {max: 9}}",
        "SCAN 0 COUNT 10",
        "the COUNT of SCAN (argument 3) is 10, 1 more than the limit of 9",
        "walk in steps",
    ),
    (
        "collections",
        "{collections: {members: 10}}",
        "RPUSH k a b c",
        "the list 'k' (argument 1 of RPUSH) has 9 elements and would get 3 more, 2 more than the limit of 10",
        "remove elements",
    ),
    (
        "whole_collections",
        "{whole_collections: {max: 5}}",
        "HGETALL k",
        "would read 9 members of the key 'k' (argument 1 of HGETALL), 4 more than the limit of 5",
        "walk it with HSCAN",
    ),
    (
        "keys_by_scan",
        "{keys_by_scan: {keys: 1}}",
        "KEYS *",
        "more than 1 keys match",
        "use SCAN with MATCH and COUNT",
    ),
    (
        "schema",
        "{schema: type}",
        "LPUSH cart:1 x",
        "is for a list, and the key 'cart:1' (argument 1 of LPUSH) belongs to shop/cart (cart:{user:int}), of type",
        "contact: #shop",
    ),
    (
        "schema",
        "{schema: size}",
        "HSET cart:1 f 123456789",
        "has 9 bytes, 1 more than the limit of 8 for shop/cart",
        "contact: #shop",
    ),
    (
        "schema",
        "{schema: fields}",
        "HSET form:1 age x",
        "argument 3 of HSET is no int, as this field of shop/form (form:{id}) has",
        "contact: #shop",
    ),
    (
        "schema",
        "{schema: ttl, outside: refuse}",
        "SET lock:a v EX 90",
        "the TTL of 'lock:a' (EX, argument 4 of SET) is 1m30s, 30s more than the limit of 1m",
        "state a shorter one",
    ),
    (
        "lifetime",
        "{lifetime: {default: 5m, min: 10s, outside: refuse}}",
        "EXPIRE k 4",
        "the TTL of 'k' (argument 2 of EXPIRE) is 4s, 6s less than the minimum of 10s",
        "state a longer one",
    ),
)
NEVER = {"local_cache", "replace", "replica_reads", "replies"}
"""Guardrails that refuse nothing."""


def answered(verdict: Verdict) -> Verdict:
    """The verdict of a procedure where Redis reports nine members, and keys without an end."""
    if not isinstance(verdict, Procedure):
        return verdict
    steps = verdict.steps()
    asked = next(steps)
    replies = {b"SCAN": b"*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n"}
    try:
        while True:
            asked = steps.send([replies.get(bytes(argv[0]), b":9\r\n") for argv in asked])
    except StopIteration as ended:
        found: Verdict = ended.value
        return found


def refused(rule: str, text: str, words: str = "") -> str:
    """The error that the client reads for a command that such a rule refuses, sooner or later."""
    off = "".join(f"  off-{part}: {{schema: {part}, mode: off}}\n" for part in PARTS if f"schema: {part}" not in rule)
    given = policy(f"{SCHEMA}rules:\n{off}  rule: {{{words}{rule[1:-1]}}}\n")
    compiled = compile_policy(given, STANDARD, memory=Memory())
    sent = command(text)
    asked = next(step.rule for step in compiled.steps if step.rule.name == "rule" and step.rule.touches(sent.spec))
    if isinstance(asked, Breaker):
        for now in (0.0, 2.0):
            asked._circuits.observe(0, now, None)
    if isinstance(asked, Quota):
        asked._holdings.learn(Stored(0.0, "", {"shop": OwnedKeys(9, 900)}), 0.0)
    for _ in range(3):
        verdict = answered(asked.judge(sent, context()))
        if isinstance(verdict, InspectReply):
            verdict.at(b":9\r\n")
        if isinstance(verdict, Refuse):
            return verdict.error.decode()
        assert not isinstance(verdict, Surround)
    raise AssertionError(f"{text} is never refused by {rule}")


@pytest.mark.parametrize(("guardrail", "rule", "text", "what", "instead"), ROWS)
def test_a_refusal_says_all_that_helps(guardrail: str, rule: str, text: str, what: str, instead: str) -> None:
    error = refused(rule, text)
    assert error.startswith("-DENIED keyrail/rule: ")
    assert what in error
    assert instead in error
    assert "contact: #" in error
    assert guardrail in rule
    worded = refused(rule, text, "because: it hurts, instead: do less, contact: '#us', ")
    assert "it hurts" in worded
    assert "; do less; " in worded
    assert "contact: #shop" in error or "; contact: #us" in worded


def test_no_rule_is_forgotten() -> None:
    assert {row[0] for row in ROWS} == GUARDRAILS.keys() - NEVER


@pytest.mark.parametrize(("redact", "shown"), [("none", "42:x y'"), ("shape", "'user:{int}:x"), ("hash", "'user:{i")])
def test_keys_are_shown_as_the_policy_allows(redact: str, shown: str) -> None:
    given = policy(f"traffic: {{redact: {redact}}}\nrules: {{n: {{names: {{segments: 2}}}}}}")
    (step,) = compile_policy(given, STANDARD).steps
    verdict = step.rule.judge(command("GET", b"user:42:x y"), context())
    assert isinstance(verdict, Refuse)
    assert shown in verdict.error.decode()
    assert ("42" in verdict.error.decode()) == (redact == "none")


@pytest.mark.parametrize("key", [b"\r\n-ERR x\r\n", "\u2028\x85é".encode(), b"\xff" * 3000, b"a" * 70_000, b"'; DROP"])
def test_an_error_is_one_line_that_is_not_long(key: bytes) -> None:
    words = f"because: {'b' * 200}, instead: {'i' * 200}, contact: {'c' * 200}, "
    given = policy(f"rules: {{n: {{{words}names: {{max_length: 3}}}}}}")
    (step,) = compile_policy(given, STANDARD).steps
    verdict = step.rule.judge(command("GET", key), context())
    assert isinstance(verdict, Refuse)
    assert len(verdict.error) <= LONGEST + 3
    assert verdict.error.endswith(b"\r\n")
    assert len(verdict.error.decode().splitlines()) == 1


@pytest.mark.parametrize(
    ("key", "library", "pattern"),
    [
        ("LIMITS:LIMITER/10.0.0.1/index/5/1/minute", "Flask-Limiter", "LIMITS:*"),
        ("sess:7", "connect-redis", "sess:*"),
        ("lock-signal:a", "python-redis-lock", "lock-signal:*"),
    ],
)
def test_what_a_library_sends_is_told_with_its_exemption(key: str, library: str, pattern: str) -> None:
    rules = "rules: {n: {names: {banned: [a], segments: 9}, mode: enforce}}\n"
    compiled = compile_policy(policy(rules), STANDARD)
    verdict = compiled.judge(command(f"GET {key}"), context()).verdict
    assert isinstance(verdict, Refuse)
    said, _, lines = verdict.error.decode().rstrip().partition(f"if this is {library}, this in the policy exempts it: ")
    assert said
    assert lines == f'exceptions: [{{rule: n, keys: "{pattern}", because: {library}}}]'
    exempt = compile_policy(policy(rules + lines), STANDARD)
    assert not isinstance(exempt.judge(command(f"GET {key}"), context()).verdict, Refuse)
    locked = compile_policy(policy("rules: {n: {names: {segments: 9}, locked: true}}"), STANDARD)
    for bound, other in ((compiled, "mine:1"), (locked, key)):
        verdict = bound.judge(command(f"GET {other}"), context()).verdict
        assert isinstance(verdict, Refuse)
        assert b"exempts" not in verdict.error


@pytest.mark.parametrize(
    ("has", "rules"),
    [
        ("", ["n", "ttl", "slots"]),
        ("apps: {jobs: {match: {user: jobs}}}\n", ["n", "ttl", "slots"]),
        (
            "apps: {jobs: {match: {user: jobs}}}\nexceptions: [{rule: slots, app: jobs, because: RQ}]\n",
            ["n", "ttl"],
        ),
        ("apps: {jobs: {match: {user: jobs}}}\nexceptions: [{rule: n, app: jobs, because: RQ}]\n", []),
    ],
)
def test_a_queue_is_told_all_rules_that_it_needs_to_be_exempt_from(has: str, rules: list[str]) -> None:
    text = "rules: {n: {names: {segments: 9}}, ttl: {lifetime: {default: 5m}}, slots: {one_slot: true}, off: {MORE}}\n"
    more = "names: {segments: 8}, mode: off"
    text = f"defaults: {{mode: enforce}}\n{text.replace('MORE', more)}"
    verdict = compile_policy(policy(text + has), STANDARD).judge(command("SADD rq:queues mail"), context()).verdict
    assert isinstance(verdict, Refuse)
    hint = verdict.error.decode().rstrip().partition("; if this is RQ, log in as the user jobs")[2]
    if not rules:
        assert hint == ": the policy exempts it"
        return
    apps = "" if has else "apps: {jobs: {match: {user: jobs}}} and "
    lines = ", ".join(f"{{rule: {rule}, app: jobs, because: RQ}}" for rule in rules)
    assert hint == f", whom this in the policy exempts: {apps}exceptions: [{lines}]"


def test_what_libraries_send_while_they_connect_keeps_redis_own_words() -> None:
    compiled = compile_policy(policy("rules: {r: {refuse: [INFO], contact: '#us', mode: enforce}}"), STANDARD)
    verdict = compiled.judge(command("INFO"), context()).verdict
    assert verdict == Refuse(b"-NOPERM this user has no permissions to run the 'info' command\r\n")


def test_what_a_policy_lists_makes_no_error_long_or_break_it() -> None:
    prefixes = ", ".join(f'"{"p" * 40}{i}\\u2028:"' for i in range(60))
    (step,) = compile_policy(policy(f"rules: {{n: {{names: {{prefixes: [{prefixes}]}}}}}}"), STANDARD).steps
    verdict = step.rule.judge(command("GET k"), context())
    assert isinstance(verdict, Refuse)
    assert len(verdict.error) <= LONGEST + 3
    assert verdict.error.decode().endswith("…\r\n")
    assert len(verdict.error.decode().splitlines()) == 1
