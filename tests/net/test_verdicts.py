"""The report of a violation contains no part of a value, for any command and rule."""

from __future__ import annotations

from types import SimpleNamespace

from proxy.commands.command import Command, Key
from proxy.commands.table import STANDARD
from proxy.net.policy.verdicts import Verdicts
from proxy.policy.decision import Hit
from proxy.policy.load import load_policy
from proxy.policy.model import Mode
from proxy.policy_yaml.shipped import packaged
from proxy.rules.context import Context
from proxy.session.ports.client_identity import UNNAMED, Names, Origin
from proxy.session.ports.pool_key import PoolKey
from proxy.session.session import Session
from proxy.traffic.redaction import Redact, Redaction
from tests.policy.given import compile_policy

SECRET = b"a-value-that-must-not-be-told"


class Client(Session):
    """A client of nobody."""

    def __init__(self, effective_policy: object) -> None:
        self.names, self.untold = Names(b"spark", b"redis-py", b"8.1.0"), UNNAMED
        self.origin = Origin("127.0.0.1:6380", "10.0.0.7:51234")
        self.key, self.local_user = PoolKey(None, 0, 2), ""
        self.effective_policy = effective_policy  # type: ignore[assignment]  # its policy is all that is asked for
        self.intake = SimpleNamespace(prefix=b"")  # type: ignore[assignment]  # it is of no tenant


def test_no_command_brings_a_value_into_a_line_or_into_the_evidence() -> None:
    policy = compile_policy(load_policy(packaged("observe")), STANDARD)
    verdicts = Verdicts("default", Redaction(Redact.HASH, b"secret"), tells=True, logs=True, warns=False)
    client = Client(SimpleNamespace(compiled=policy))
    context = Context("default", "spark", 0, False, 1.0, lambda: 0.5, policy.app)
    told = []
    for spec in STANDARD.specs[1:]:
        for more in range(4):
            words = [word.encode() for word in spec.name.split("|")]
            argv = [*words, *[SECRET] * (max(0, abs(spec.arity) - len(words)) + more)]
            for key in Command(STANDARD, argv).known_keys:
                argv[key.index] = b"user:7:name with spaces"
            command = Command(STANDARD, argv)
            hits = policy.judge(command, context).hits
            if hits:
                verdicts.report(hits, command, client)
                told.append(spec.name)
                verdicts.another_second()
    seen = verdicts.verdict_update({})
    assert len(told) > 200, "most commands with keys are told of"
    assert any(b'"key": "user:{int}:name{bytes}with{bytes}spaces#' in line for line in seen.lines)
    assert not any(SECRET in line for line in seen.lines)
    assert SECRET.decode() not in repr(seen.rows)
    assert "user:7:name" not in repr(seen.rows), "nor a key that is not to be shown"


def test_what_a_plan_has_done_is_reported_as_far_as_it_was_inspected() -> None:
    policy = SimpleNamespace(app="reports")
    verdicts = Verdicts("default", Redaction(), tells=True, logs=True, warns=False)
    hit = Hit("walks", Mode.ENFORCE, "refused")
    for _ in range(3):
        assert verdicts.may_inspect((hit,), "reports")
        verdicts.inspect((hit,), Command(STANDARD, [b"KEYS", b"*"]), Client(SimpleNamespace(compiled=policy)))
    verdicts.add(hit, 10, "reports")
    verdicts.another_second()
    seen = verdicts.verdict_update({})
    assert [b'"dropped": 7' in line for line in seen.lines] == [False, False, False, True]
    assert {key.command: row.count for key, row in seen.rows.verdicts.items()} == {"": 7, "KEYS": 3}
    assert verdicts.dropped() == {"walks": 7}


def test_a_reason_shows_no_key_that_a_script_names_itself() -> None:
    verdicts = Verdicts("default", Redaction(Redact.HASH, b"secret"), tells=True, logs=True, warns=False)
    client = Client(SimpleNamespace(compiled=SimpleNamespace(app="reports")))
    command = Command(STANDARD, [b"EVAL", b"return redis.call('SET', 'user:ada', 1)", b"0"])
    command.named = (Key(0, b"user:ada", True),)
    error = b"-DENIED keyrail/names: the script calls SET: the key 'user:ada' (argument 1 of SET) is short\r\n"
    verdicts.report((Hit("names", Mode.AUDIT, "refused", error=error),), command, client)
    told = verdicts.verdict_update({})
    assert "user:ada'" not in repr(told.rows)
    assert b"the key 'user:ada#" in told.lines[0]


def test_in_a_flood_everything_is_counted_and_not_everything_inspected() -> None:
    verdicts = Verdicts("default", Redaction(Redact.SHAPE), tells=False, logs=False, warns=True)
    client = Client(SimpleNamespace(compiled=SimpleNamespace(app="reports")))
    for number in range(2000):
        command = Command(STANDARD, [b"GET", b"user:%d" % number])
        verdicts.report((Hit("names", Mode.AUDIT, "refused"),), command, client)
    rows = verdicts.verdict_update({}).rows.verdicts
    assert sum(row.count for row in rows.values()) == 2000
    assert sum(row.count for key, row in rows.items() if key.shape == "user:{int}") < 2000
    assert verdicts.figures() == {"names": {"reports": {"audit refused": 2000}}}


def test_what_is_rare_is_told_apart_in_any_flood() -> None:
    verdicts = Verdicts("default", Redaction(Redact.NONE), tells=False, logs=False, warns=False)
    client = Client(SimpleNamespace(compiled=SimpleNamespace(app="reports")))
    flood, rare = Hit("lifetimes", Mode.AUDIT, "rewritten"), Hit("walks", Mode.AUDIT, "refused")
    for number in range(2000):
        verdicts.report((flood,), Command(STANDARD, [b"SET", b"user:%d" % number, b"1"]), client)
        if number % 500 == 499:
            verdicts.report((rare,), Command(STANDARD, [b"KEYS", b"*"]), client)
    rows = verdicts.verdict_update({}).rows.verdicts
    assert {key.command: row.count for key, row in rows.items() if key.rule == "walks"} == {"KEYS": 4}


def test_with_exact_evidence_each_is_told_apart() -> None:
    verdicts = Verdicts("default", Redaction(Redact.NONE), tells=False, logs=False, warns=False)
    verdicts.evidence.exact = True
    client = Client(SimpleNamespace(compiled=SimpleNamespace(app="reports")))
    for number in range(2000):
        command = Command(STANDARD, [b"GET", b"user:%d" % number])
        verdicts.report((Hit("names", Mode.AUDIT, "refused"),), command, client)
    (row,) = verdicts.verdict_update({}).rows.verdicts.values()
    assert row.count == 2000


def test_the_stricter_of_option_and_policy_says_what_is_shown_of_a_key() -> None:
    hit, command = Hit("names", Mode.AUDIT, "refused"), Command(STANDARD, [b"GET", b"user:42"])
    client = Client(SimpleNamespace(compiled=SimpleNamespace(app="reports")))
    for option, policy, shown in (
        (Redact.NONE, Redact.NONE, b'"user:42"'),
        (Redact.NONE, Redact.SHAPE, b'"user:{int}"'),
        (Redact.SHAPE, Redact.NONE, b'"user:{int}"'),
        (Redact.NONE, Redact.HASH, b'"user:{int}#'),
        (Redact.HASH, Redact.NONE, b'"user:{int}#'),
    ):
        verdicts = Verdicts("default", Redaction(option, b"secret"), tells=True, logs=True, warns=False)
        verdicts.keep(["names"], policy)
        verdicts.report((hit,), command, client)
        assert b'"key": ' + shown in verdicts.verdict_update({}).lines[0]
