"""The guardrails about commands and not keys: the commands that they refuse and pass, and the error texts."""

from proxy.commands.table import STANDARD
from proxy.rules.allow_only.rule import ALWAYS_ALLOWED, AllowOnlySettings
from proxy.rules.databases.rule import DatabasesSettings
from proxy.rules.read_only.rule import ReadOnlySettings
from proxy.rules.rule import Rule, RuleSettings, Wording
from proxy.rules.transactions.rule import TransactionsSettings
from proxy.rules.unknown_commands.rule import UnknownCommandsSettings
from proxy.rules.verdict import Refuse
from tests.rules.given import BINDING, NO_WORDS, command, context, spec


def error(rule: Rule, text: str) -> bytes:
    """The error that the client reads; nothing if the command passes."""
    given = command(text)
    verdict = rule.judge(given, context()) if rule.touches(given.spec) else None
    return verdict.error if isinstance(verdict, Refuse) else b""


def bound(settings: RuleSettings, wording: Wording = NO_WORDS) -> Rule:
    return settings.bind("rule", wording, BINDING)


def refused(settings: RuleSettings, *texts: str) -> list[str]:
    rule = bound(settings)
    return [text for text in texts if error(rule, text)]


def test_only_what_is_listed_passes() -> None:
    given = ("get a", "SET a b", "substr a 0 1", "CONFIG GET x", "CONFIG SET a b", "CONFIG", "FROB", "CLIENT KILL ID 1")
    settings = AllowOnlySettings(("GET", "GETRANGE", "CONFIG GET", "CLIENT KILL TYPE"))
    assert refused(settings, *given) == ["SET a b", "CONFIG SET a b", "CONFIG", "FROB", "CLIENT KILL ID 1"]
    assert not refused(settings, "client kill type normal")


def test_a_group_stands_for_the_commands_of_an_acl_category() -> None:
    given = ("GET a", "HGETALL a", "SET a b", "PUBLISH a b", "ZADD a 1 b")
    assert refused(AllowOnlySettings((), ("read", "sortedset")), *given) == ["SET a b", "PUBLISH a b"]


def test_a_client_can_always_connect_and_leave() -> None:
    assert refused(AllowOnlySettings(("GET",)), *ALWAYS_ALLOWED) == []


def test_what_is_not_allowed_is_named_with_the_authors_words() -> None:
    rule = bound(AllowOnlySettings(("GET",)), Wording("this is a cache", "ask the platform team"))
    assert error(rule, "KEYS *") == (
        b"-DENIED keyrail/rule: KEYS is not among the commands that this policy allows, and this is a cache; "
        b"ask the platform team\r\n"
    )
    assert error(rule, "INFO").startswith(b"-NOPERM ")
    assert error(rule, "CLIENT MAINT_NOTIFICATIONS ON").startswith(b"-ERR unknown subcommand")


def test_unknown_commands_are_those_of_no_table() -> None:
    given = ("GET a", "JSON.SET a $ 1", "FROBNICATE a", "NOSUCH.MODULE a", "CONFIG FROB")
    assert refused(UnknownCommandsSettings(), *given) == ["FROBNICATE a", "NOSUCH.MODULE a", "CONFIG FROB"]


def test_read_only_refuses_whatever_may_write() -> None:
    given = ["SET a b", "getex a", "EVAL x 0", "evalsha x 0", "FCALL f 0", "FLUSHALL", "SWAPDB 0 1", "SORT a", "FROB a"]
    given += ["FUNCTION LOAD x", "DEBUG FLUSHALL", "REPLICAOF a 1", "SLAVEOF a 1", "JSON.SET a $ 1", "RESTORE a 0 x"]
    assert refused(ReadOnlySettings(), *given) == given


def test_read_only_lets_reads_through() -> None:
    given = ("GET a", "EVAL_RO x 0", "FCALL_RO f 0", "PUBLISH a b", "SORT_RO a", "PFCOUNT a", "SCAN 0", "MULTI", "PING")
    assert refused(ReadOnlySettings(), *given, "JSON.GET a", "CONFIG GET x", "SCRIPT LOAD x") == []


def test_read_only_knows_what_reads_instead() -> None:
    assert error(bound(ReadOnlySettings()), "EVAL x 0").endswith(b"; use EVAL_RO\r\n")


def test_every_write_of_the_table_is_one() -> None:
    rule = bound(ReadOnlySettings())
    assert all(rule.touches(each) for each in STANDARD.specs if each.write)


def test_only_the_listed_databases_are_named() -> None:
    rule = DatabasesSettings((0, 3))
    given = ("SELECT 0", "select 3", "SELECT 1", "SELECT 03", "SELECT x", "SELECT", "MOVE a 3", "MOVE a 2")
    assert refused(rule, *given) == ["SELECT 1", "SELECT 03", "SELECT x", "MOVE a 2"]
    copies = ("COPY DB a", "COPY a b DB 3", "COPY a b REPLACE db 1", "COPY a b db 0 DB 4", "COPY a b")
    assert refused(rule, *copies) == ["COPY a b REPLACE db 1", "COPY a b db 0 DB 4"]
    assert refused(rule, "SWAPDB 0 3", "SWAPDB 0 1") == ["SWAPDB 0 1"]
    assert refused(rule, "MIGRATE h 1 a 0 9", "MIGRATE h 1 a 1 9 COPY") == ["MIGRATE h 1 a 1 9 COPY"]


def test_transactions_do_not_begin_and_can_still_end() -> None:
    given = ("MULTI", "watch a", "EXEC", "DISCARD", "UNWATCH", "SET a b")
    assert refused(TransactionsSettings(), *given) == ["MULTI", "watch a"]
    assert spec("MULTI").id
