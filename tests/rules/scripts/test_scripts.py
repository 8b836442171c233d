"""Scripts follow the rules about commands, in the mode that those have for the client; dynamic calls have their own
setting."""

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from proxy.commands.table import STANDARD
from proxy.policy.compile import CompiledPolicy
from proxy.policy.explain import explain
from proxy.policy.load import load_policy
from proxy.policy_yaml.errors import PolicyError
from proxy.policy_yaml.shipped import packaged
from proxy.rules.scripts.rule import Dynamic, ScriptsSettings
from proxy.rules.scripts.seen import NOSCRIPT
from proxy.rules.verdict import PASS, Answer, Pass, Procedure, Refuse
from tests.policy.given import compile_policy, compiled, policy, problems
from tests.rules.given import command, context, scripts_of

RULES = """
    defaults: {mode: enforce}
    rules:
      no-flush: {refuse: [FLUSHALL, FLUSHDB, CONFIG SET, CLIENT KILL TYPE], allow: [FLUSHALL ASYNC]}
      later: {refuse: [KEYS], mode: audit}
      dbs: {databases: [0]}
      scripts: {scripts: {commands: follow_rules, dynamic_calls: %s}}
"""


def bound(dynamic: str = "refuse") -> CompiledPolicy:
    return compiled(RULES % dynamic)


def said(rules: CompiledPolicy, text: str, *more: bytes) -> str:
    """The error that the client reads, nothing where the command passes, in parentheses what is only counted."""
    decision = rules.judge(command(text, *more), context())
    if isinstance(decision.verdict, Refuse):
        return decision.verdict.error.decode().removesuffix("\r\n").removeprefix("-DENIED keyrail/scripts: ")
    assert isinstance(decision.verdict, Pass)
    return "".join(f"({hit.detail})" for hit in decision.hits)


@pytest.mark.parametrize(
    ("script", "called"),
    [
        ("redis.call('FLUSHALL')", "FLUSHALL, which no-flush refuses"),
        ("redis.pcall('flushall')", "FLUSHALL, which no-flush refuses"),
        ("redis.call('FLUSHALL', ARGV[1])", "FLUSHALL, which no-flush refuses"),
        ("redis.call('FLUSHALL', 'async')", ""),
        ("redis.call('CONFIG', 'Set', 'a', 'b')", "CONFIG SET, which no-flush refuses"),
        ("redis.call('CONFIG', 'GET', ARGV[1])", ""),
        ("redis.call('CLIENT', 'KILL', 'TYPE', x)", "CLIENT KILL, which no-flush refuses"),
        ("redis.call('CLIENT', 'KILL', x)", "CLIENT KILL, which no-flush refuses"),
        ("redis.call('CLIENT', 'KILL', 'ID', x)", ""),
        ("redis.call('SELECT', 1)", "SELECT, which dbs refuses"),
        ("redis.call('SELECT', 0)", ""),
        ("redis.call('SELECT', x)", "SELECT, which dbs refuses"),
        ("redis.call('COPY', 'a', x)", "COPY, which dbs refuses"),
        ("redis.call('KEYS', '*') return redis.call('GET', KEYS[1])", ""),
    ],
)
@pytest.mark.parametrize("how", ["EVAL", "eval_ro", "SCRIPT LOAD", "FUNCTION LOAD REPLACE"])
def test_what_a_client_may_not_send_its_scripts_may_not_call(how: str, script: str, called: str) -> None:
    text = (b"#!lua name=x\n" if "FUNCTION" in how else b"") + script.encode()
    error = said(bound(), how, text, *([b"0"] if "eval" in how.lower() else []))
    assert error == (f"the script calls {called}; leave that call out" if called else "")


def test_an_audited_rule_refuses_nothing_to_scripts_either() -> None:
    assert said(bound(), "EVAL", b"redis.call('KEYS','*')", b"0") == ""


@pytest.mark.parametrize("script", ["redis.call('KEYS', '*')", "redis.call('keys', ARGV[1])"])
def test_what_a_client_gets_in_another_way_a_script_does_not_get_at_all(script: str) -> None:
    rules = compiled("""
        defaults: {mode: enforce}
        rules: {walks: {keys_by_scan: {}}, scripts: {scripts: {commands: follow_rules}}}
    """)
    assert said(rules, "EVAL", script.encode(), b"0").startswith("the script calls KEYS, which walks refuses; ")


@pytest.mark.parametrize(("scripts", "counted"), [("audit", True), ("warn", True), ("enforce", False)])
def test_an_audit_tells_what_enforcing_all_will_do(scripts: str, counted: bool) -> None:
    rules = compiled(f"""
        rules:
          no-keys: {{refuse: [KEYS], mode: audit}}
          no-save: {{refuse: [SAVE], mode: off}}
          scripts: {{scripts: {{commands: follow_rules}}, mode: {scripts}}}
    """)
    for text, hit in (("redis.call('KEYS', '*')", counted), ("redis.call('SAVE')", False)):
        decision = rules.judge(command("EVAL", text.encode(), b"0"), context())
        assert isinstance(decision.verdict, Pass)
        assert [(each.mode.value, each.what) for each in decision.hits] == ([(scripts, "refused")] if hit else [])


DISPATCH = b"""
local namespace = KEYS[1]
local heartbeats = namespace .. ":__heartbeats__"
redis.call("zadd", heartbeats, ARGV[2], ARGV[4])
if ARGV[7] == "1" then
    local dead_workers = redis.call("zrangebyscore", heartbeats, 0, ARGV[2] - ARGV[5])
    for i=1,#dead_workers do
        local ack_queues = redis.call("keys", namespace .. ":__acks__." .. dead_workers[i] .. "*")
        if not next(ack_queues) then
            redis.call("zrem", heartbeats, dead_workers[i])
        end
    end
end
redis.call("rpush", namespace .. ":" .. ARGV[3], ARGV[9])
"""
"""How Dramatiq's script for all it does with a queue names KEYS: in a branch for maintenance."""
POSSIBLE = """
    defaults: {mode: enforce}
    rules:
      no-flush: {refuse: [FLUSHALL, CONFIG SET]}
      no-walks: {refuse: [KEYS], in_scripts: %s}
      later: {refuse: [SAVE], mode: audit}
      scripts: {scripts: {commands: follow_rules, dynamic_calls: warn}}
"""


def counted(rules: CompiledPolicy, text: bytes) -> tuple[bool, list[tuple[str, str, str]]]:
    """Whether such a script runs, and what is counted."""
    decision = rules.judge(command("EVAL", text, b"0"), context())
    return decision.verdict == PASS, [(hit.rule, hit.mode.value, hit.what) for hit in decision.hits]


def test_a_call_that_a_script_may_make_is_counted_where_its_rule_says_so() -> None:
    audits, refuses = (compiled(POSSIBLE % said) for said in ("audit", "refuse"))
    assert counted(audits, DISPATCH) == (True, [("scripts", "audit", "refused")])
    assert counted(refuses, DISPATCH) == (False, [("scripts", "enforce", "refused")])
    both = b"if ARGV[1] then redis.call('KEYS', '*') end redis.call('FLUSHALL')"
    assert counted(audits, both) == (False, [("scripts", "enforce", "refused")])
    assert counted(audits, b"return redis.call('SAVE')") == (True, [])
    dynamic = b"redis.call('KEYS', '*') redis.call(ARGV[1])"
    assert counted(audits, dynamic) == (True, [("scripts", "audit", "refused"), ("scripts", "enforce", "skipped")])
    assert isinstance(audits.judge(command("KEYS *"), context()).verdict, Refuse)


def test_an_explanation_says_what_is_only_counted() -> None:
    told = str(explain(compiled(POSSIBLE % "audit"), [b"EVAL", DISPATCH, b"0"], context()))
    assert "would refuse it: -DENIED keyrail/scripts: the script calls KEYS, which no-walks refuses; " in told
    assert "to Redis: " in told


@pytest.mark.parametrize("calls", ["FLUSHALL", "FLUSHDB", "SHUTDOWN", "DEBUG', 'SLEEP", "CONFIG', 'SET", "SWAPDB"])
def test_the_default_lets_dispatch_run_and_no_script_that_wipes_or_stops_redis(calls: str) -> None:
    default = compile_policy(load_policy(packaged("default")), STANDARD)
    assert counted(default, DISPATCH) == (True, [("nor-by-scripts", "audit", "refused")])
    dangerous = b"if ARGV[7] == '1' then redis.call('%s') end" % calls.encode()
    assert counted(default, dangerous) == (False, [("nor-by-scripts", "enforce", "refused")])
    strict = compile_policy(load_policy(packaged("strict")), STANDARD)
    assert counted(strict, DISPATCH)[0] is False


@pytest.mark.parametrize("script", ["redis.call(ARGV[1])", "redis.call('CONFIG', ARGV[1])", "local c = redis.call"])
def test_what_cannot_be_told(script: str) -> None:
    refused = said(bound("refuse"), "EVAL", script.encode(), b"0")
    assert refused.startswith("Keyrail cannot tell what it calls: the script ")
    counted = said(bound("warn"), "EVAL", script.encode(), b"0")
    assert counted.startswith("(Keyrail cannot tell what it calls: the script")
    assert said(bound("allow"), "EVAL", script.encode(), b"0") == ""


def test_a_sha_stands_for_its_text() -> None:
    rules = bound()
    good, bad = b"return redis.call('GET', KEYS[1])", b"return redis.call('FLUSHALL')"
    sha = {text: hashlib.sha1(text, usedforsecurity=False).hexdigest() for text in (good, bad)}
    assert rules.judge(command(f"EVALSHA {sha[good]} 0"), context()).verdict == Answer(NOSCRIPT)
    queued = replace(context(), in_transaction=True)
    assert rules.judge(command(f"EVALSHA {sha[good]} 0"), queued).verdict == Refuse(NOSCRIPT)
    assert NOSCRIPT == b"-NOSCRIPT No matching script. Please use EVAL.\r\n"
    assert said(rules, "SCRIPT LOAD", good) == ""
    assert said(rules, "EVAL", bad, b"0") != ""
    assert said(rules, f"EVALSHA {sha[good].upper()} 1 k") == ""
    assert said(rules, f"evalsha_ro {sha[good]} 1 k") == ""
    assert said(rules, f"EVALSHA {sha[bad]} 0").startswith("the script calls FLUSHALL, which no-flush refuses; ")


def test_where_dynamic_calls_are_allowed_a_sha_that_nobody_has_seen_goes_on() -> None:
    rules = bound("allow")
    bad = b"return redis.call('FLUSHALL')"
    sha = hashlib.sha1(bad, usedforsecurity=False).hexdigest()
    assert said(rules, f"EVALSHA {sha} 0") == ""
    assert said(rules, "SCRIPT LOAD", bad) != ""
    assert said(rules, f"EVALSHA {sha} 0").startswith("the script calls FLUSHALL, which no-flush refuses; ")


LIBRARY = b"#!lua name=x\nredis.register_function('F', function() return redis.call('GET', 'a') end)"


def test_redis_is_asked_whose_a_function_is() -> None:
    rules = bound()
    assert said(rules, "FUNCTION LOAD", LIBRARY) == ""
    assert isinstance(rules.judge(command("FCALL f 0"), context()).verdict, Procedure)
    for scripts in scripts_of(rules):
        scripts.memory.loaded(LIBRARY)
    assert isinstance(rules.judge(command("fcall_ro F 0"), context()).verdict, Procedure), "a text tells what it may do"
    for scripts in scripts_of(rules):
        scripts.memory.confirm(b"F", LIBRARY, 0.0)
    assert said(rules, "FCALL f 0") == ""
    assert isinstance(rules.judge(command("FCALL f 0"), replace(context(), now=1.1)).verdict, Procedure)
    for scripts in scripts_of(rules):
        scripts.memory.confirm(b"f", b"redis.call('FLUSHALL')", 1.1)
    error = rules.judge(command("FCALL f 0"), replace(context(), now=1.2)).verdict
    assert isinstance(error, Refuse)
    assert b"the script calls FLUSHALL, which no-flush refuses; " in error.error


def test_where_dynamic_calls_are_allowed_nobody_is_asked() -> None:
    assert said(bound("allow"), "FCALL f 0") == ""


def test_a_payload_is_no_text() -> None:
    assert said(bound(), "FUNCTION RESTORE x").startswith("Keyrail cannot tell what it calls: it brings functions")
    assert said(bound("allow"), "FUNCTION RESTORE x") == ""


def test_without_a_word_about_commands_only_what_is_dynamic_counts() -> None:
    rules = compiled("""
        defaults: {mode: enforce}
        rules: {a: {refuse: [FLUSHALL]}, scripts: {scripts: {dynamic_calls: refuse}}}
    """)
    assert said(rules, "EVAL", b"redis.call('FLUSHALL')", b"0") == ""
    assert said(rules, "EVAL", b"redis.call(x)", b"0") != ""


def test_what_redis_refuses_anyway_is_left_to_it() -> None:
    assert said(bound(), "EVAL redis") == ""
    assert said(bound(), "EVALSHA") == ""


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("commands: follow_rules", ScriptsSettings(True, Dynamic.WARN)),
        ("commands: follow_rules, dynamic_calls: allow", ScriptsSettings(True, Dynamic.ALLOW)),
        ("dynamic_calls: refuse", ScriptsSettings(False, Dynamic.REFUSE)),
    ],
)
def test_they_are_read(text: str, settings: ScriptsSettings) -> None:
    assert policy(f"rules: {{s: {{scripts: {{{text}}}}}}}").rules[0].settings == settings


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "{}",
            "s.scripts: found nothing to do, expected commands: follow_rules, dynamic_calls, undeclared_keys",
        ),
        ("{dynamic_calls: allow}", "s.scripts: found nothing to do, expected commands: follow_rules"),
        ("{commands: allow}", "s.scripts.commands: found 'allow', expected follow_rules"),
        (
            "{commands: follow_rules}, in_scripts: audit",
            "s.in_scripts: found audit, expected in_scripts on a rule about commands or keys; ",
        ),
        ("{dynamic_calls: on}", "s.scripts.dynamic_calls: found 'on', expected one of refuse, warn, allow"),
    ],
)
def test_what_is_wrong_with_them_is_an_error(text: str, problem: str) -> None:
    with pytest.raises(PolicyError) as caught:
        policy(f"rules: {{s: {{scripts: {text}}}}}")
    assert any(problem in line for line in str(caught.value).splitlines()), str(caught.value)


@pytest.mark.parametrize(
    "rules",
    [
        "walks: {refuse: [KEYS], in_scripts: audit}",
        "walks: {refuse: [KEYS], in_scripts: audit}, scripts: {scripts: {dynamic_calls: refuse}}",
        "walks: {refuse: [KEYS], in_scripts: audit}, scripts: {scripts: {commands: follow_rules}, mode: off}",
    ],
)
def test_what_is_said_of_scripts_in_vain_is_an_error(rules: str) -> None:
    (found,) = problems(f"rules: {{{rules}}}")
    assert "rules.walks.in_scripts: found audit, expected a rule with scripts: {commands: follow_rules}; " in found


REGISTERED = "return redis.call('GET', KEYS[1])"


def only(folder: Path, *entries: str, more: str = "") -> CompiledPolicy:
    """A policy beside whose file there is a script and a library, with these registered."""
    (folder / "scripts").mkdir(exist_ok=True)
    (folder / "scripts" / "get.lua").write_text(REGISTERED)
    (folder / "scripts" / "lib.lua").write_bytes(LIBRARY)
    text = (
        f"keyrail: 1\ndefaults: {{mode: enforce}}\nrules: {{own: {{scripts: {{only: [{', '.join(entries)}]{more}}}}}}}"
    )
    (folder / "policy.yaml").write_text(text)
    return compile_policy(load_policy(folder / "policy.yaml"), STANDARD)


def sha_of(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


@pytest.mark.parametrize("entry", ["scripts/get.lua", sha_of(REGISTERED), sha_of(REGISTERED).upper()])
def test_only_registered_scripts_run(tmp_path: Path, entry: str) -> None:
    rules, other = only(tmp_path, entry), "return 1"
    for name, text in (("EVAL", REGISTERED), ("eval_ro", REGISTERED), ("EVALSHA", sha_of(REGISTERED))):
        assert said(rules, name, text.encode(), b"1", b"k") == ""
    assert said(rules, "SCRIPT LOAD", REGISTERED.encode()) == ""
    for name, text in (("EVAL", other), ("EVALSHA", sha_of(other)), ("EVALSHA_RO", sha_of(other).upper())):
        assert said(rules, name, text.encode(), b"0") == (
            f"-DENIED keyrail/own: the script {sha_of(other)} is not registered; have the SHA1 of the script, or its "
            "file, added to scripts.only of the rule own"
        )
    assert said(rules, "SCRIPT LOAD", b"return 1").startswith("-DENIED keyrail/own: the script e0e1f9fabfc9d4")
    assert said(rules, "EVALSHA", b"x\r\n", b"0").startswith("-DENIED keyrail/own: the script of that SHA1 is not ")
    assert said(rules, "SCRIPT EXISTS", b"x") == ""


def test_only_registered_libraries_are_loaded_and_called(tmp_path: Path) -> None:
    rules = only(tmp_path, "scripts/lib.lua")
    assert said(rules, "FUNCTION LOAD REPLACE", LIBRARY) == ""
    other = LIBRARY + b" "
    assert said(rules, "FUNCTION LOAD", other).startswith("-DENIED keyrail/own: the library ")
    assert said(rules, "FUNCTION RESTORE x").startswith("-DENIED keyrail/own: it brings libraries that are not ")
    assert isinstance(rules.judge(command("FCALL f 0"), context()).verdict, Procedure)
    queued = replace(context(), in_transaction=True, no_wait="it is inside MULTI")
    unseen = rules.judge(command("FCALL f 0"), queued).verdict
    assert isinstance(unseen, Refuse)
    scripts, *_ = scripts_of(rules)
    scripts.memory.confirm(b"f", other, 0.0)
    assert "is not registered; have the SHA1 of the library, " in said(rules, "FCALL f 0")
    scripts.memory.confirm(b"f", LIBRARY, 0.0)
    assert said(rules, "FCALL f 0") == ""


def test_registered_scripts_are_held_to_the_other_rules_too_where_asked_for(tmp_path: Path) -> None:
    rules = only(tmp_path, "scripts/get.lua", more=", undeclared_keys: refuse, dynamic_calls: refuse")
    assert said(rules, "EVAL", REGISTERED.encode(), b"1", b"k") == ""
    (tmp_path / "scripts" / "get.lua").write_text("return redis.call('GET', ARGV[1])")
    again = compile_policy(load_policy(tmp_path / "policy.yaml"), STANDARD)
    assert "with a key that is not declared" in said(again, "EVAL", b"return redis.call('GET', ARGV[1])", b"0")
    assert said(again, "EVAL", REGISTERED.encode(), b"1", b"k").startswith("-DENIED keyrail/own: the script ")


def test_a_registered_file_is_one_of_the_policys(tmp_path: Path) -> None:
    rules = only(tmp_path, "scripts/get.lua", "scripts/lib.lua", sha_of("x"))
    names = [Path(file).name for file in rules.policy.files]
    assert names == ["policy.yaml", "get.lua", "lib.lua"]


@pytest.mark.parametrize(
    "entry", ["scripts/none.lua", "../outside.lua", "/etc/hostname", "scripts", "link.lua", "fifo"]
)
def test_a_registered_file_lies_below_the_policy(tmp_path: Path, entry: str) -> None:
    folder = tmp_path / "policies"
    folder.mkdir()
    (tmp_path / "outside.lua").write_text("return 1")
    (folder / "link.lua").symlink_to(tmp_path / "outside.lua")
    os.mkfifo(folder / "fifo")
    with pytest.raises(PolicyError, match="expected a SHA1 of 40 hexadecimal digits, or a file below the folder"):
        only(folder, entry)
