"""A refused command gets one line that names the rule, the reason and the alternative, however the command is
written, and no other command is touched. A container stands for all its subcommands, those that no table knows
included."""

import pytest

from proxy.commands.table import STANDARD
from proxy.rules.refuse import Refusal, RefuseSettings
from proxy.rules.rule import Wording
from proxy.rules.verdict import PASS, Refuse
from tests.rules.given import BINDING, NO_WORDS, command, context, spec


def refusal(*commands: str, wording: Wording = NO_WORDS) -> Refusal:
    return Refusal("no-way", RefuseSettings(commands), wording, BINDING)


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


@pytest.mark.parametrize(("listed", "twin"), [("REPLICAOF", "SLAVEOF"), ("GETRANGE", "SUBSTR")])
def test_a_twin_is_no_way_around(listed: str, twin: str) -> None:
    rule = refusal(listed)
    verdict = rule.judge(command(f"{twin} a 1 2"), context())
    assert isinstance(verdict, Refuse)
    assert twin.encode() in verdict.error


def test_del_and_unlink_are_two_commands() -> None:
    assert not refusal("DEL").touches(spec("UNLINK"))
