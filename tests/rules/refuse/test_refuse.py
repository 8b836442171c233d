"""A refused command gets one line that names the rule, the reason and the alternative, in any form of the command, and
no other command is affected. A container stands for all its subcommands, unknown ones included."""

import pytest

from proxy.commands.table import STANDARD
from proxy.rules.refuse.rule import Refusal, RefuseSettings
from proxy.rules.rule import Wording
from proxy.rules.verdict import PASS, Refuse
from tests.rules.given import BINDING, NO_WORDS, command, context, spec


def refusal(*commands: str, allow: tuple[str, ...] = (), wording: Wording = NO_WORDS) -> Refusal:
    return Refusal("no-way", RefuseSettings(commands, allow), wording, BINDING)


def refused(rule: Refusal, text: str) -> bool:
    given = command(text)
    return rule.touches(given.spec) and isinstance(rule.judge(given, context()), Refuse)


def test_the_error_names_rule_reason_and_alternative() -> None:
    rule = refusal("KEYS", wording=Wording("one KEYS stops every client", "use SCAN"))
    assert rule.judge(command("KEYS *"), context()) == Refuse(
        b"-DENIED keyrail/no-way: KEYS is refused because one KEYS stops every client; use SCAN\r\n"
    )


def test_without_words_of_the_author_the_rule_has_its_own() -> None:
    verdict = refusal("KEYS").judge(command("KEYS *"), context())
    assert verdict == Refuse(
        b"-DENIED keyrail/no-way: KEYS is refused by this policy; use SCAN with MATCH and COUNT\r\n"
    )


@pytest.mark.parametrize("text", ["FLUSHALL", "flushall", "FlushAll ASYNC"])
def test_letter_case_and_arguments_do_not_matter(text: str) -> None:
    assert isinstance(refusal("FLUSHALL").judge(command(text), context()), Refuse)


def test_a_subcommand_is_refused_and_its_siblings_are_not() -> None:
    rule = refusal("CONFIG SET")
    assert isinstance(rule.judge(command("config Set maxmemory 1"), context()), Refuse)
    assert not rule.touches(spec("CONFIG GET"))
    assert not rule.touches(spec("CONFIG"))
    assert not rule.touches(STANDARD.specs[0])


@pytest.mark.parametrize("text", ["CONFIG GET x", "CONFIG SET x y", "config resetstat", "CONFIG"])
def test_a_container_stands_for_its_subcommands(text: str) -> None:
    rule = refusal("CONFIG")
    given = command(text)
    assert rule.touches(given.spec)
    assert isinstance(rule.judge(given, context()), Refuse)


@pytest.mark.parametrize("text", ["CONFIG FROBNICATE now", "config frobnicate"])
def test_a_container_stands_for_subcommands_that_no_table_knows(text: str) -> None:
    rule = refusal("CONFIG")
    given = command(text)
    assert given.spec.id == 0
    assert rule.touches(given.spec)
    assert isinstance(rule.judge(given, context()), Refuse)


def test_another_unknown_command_passes() -> None:
    assert refusal("CONFIG").judge(command("FROBNICATE CONFIG"), context()) == PASS


def test_a_module_command_that_the_table_does_not_know_is_matched_by_name() -> None:
    rule = refusal("NOSUCH.DROP")
    assert isinstance(rule.judge(command("nosuch.drop all"), context()), Refuse)
    assert rule.judge(command("nosuch.get all"), context()) == PASS


@pytest.mark.parametrize(
    ("listed", "twin"),
    [("REPLICAOF", "SLAVEOF"), ("GETRANGE", "SUBSTR"), ("HSET", "HMSET"), ("RESTORE", "RESTORE-ASKING")],
)
def test_an_equivalent_is_no_way_around(listed: str, twin: str) -> None:
    rule = refusal(listed)
    verdict = rule.judge(command(f"{twin} a 1 2"), context())
    assert isinstance(verdict, Refuse)
    assert twin.encode() in verdict.error


def test_del_and_unlink_are_two_commands() -> None:
    assert not refusal("DEL").touches(spec("UNLINK"))


def test_a_narrower_form_passes() -> None:
    rule = refusal("FLUSHALL", "FLUSHDB", allow=("FLUSHALL ASYNC",))
    given = ("flushall async", "FLUSHALL", "FLUSHALL SYNC", "FLUSHDB ASYNC")
    assert [refused(rule, text) for text in given] == [False, True, True, True]


def test_a_subcommand_of_a_refused_container_passes() -> None:
    rule = refusal("CONFIG", allow=("CONFIG GET",))
    given = ("config get x", "CONFIG SET x y", "CONFIG", "CONFIG FROBNICATE")
    assert [refused(rule, text) for text in given] == [False, True, True, True]


def test_only_requests_with_these_arguments_are_refused() -> None:
    rule = refusal("CLIENT KILL TYPE")
    assert refused(rule, "client kill Type normal")
    assert not refused(rule, "CLIENT KILL ID 3")
    assert not refused(rule, "CLIENT KILL")
    verdict = rule.judge(command("CLIENT KILL TYPE x"), context())
    assert isinstance(verdict, Refuse)
    assert b"CLIENT KILL TYPE is refused" in verdict.error


@pytest.mark.parametrize(
    ("listed", "sent", "error"),
    [
        ("INFO", "info", b"-NOPERM this user has no permissions to run the 'info' command\r\n"),
        ("CLIENT", "CLIENT setinfo", b"-NOPERM this user has no permissions to run the 'client|setinfo' command\r\n"),
        ("CLIENT", "CLIENT maint_notif ON", b"-ERR unknown subcommand 'maint_notif'. Try CLIENT HELP.\r\n"),
    ],
)
def test_handshake_commands_keep_the_words_of_redis(listed: str, sent: str, error: bytes) -> None:
    assert refusal(listed).judge(command(sent), context()) == Refuse(error)


def test_an_unknown_subcommand_is_shown_in_one_line() -> None:
    verdict = refusal("CLIENT").judge(command("CLIENT", b"A\r\n+OK"), context())
    assert verdict == Refuse(b"-ERR unknown subcommand 'A  +OK'. Try CLIENT HELP.\r\n")
