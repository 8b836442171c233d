"""A replaced command keeps its arguments and its reply. It is forwarded unchanged while the engine is not known to run
the other name, or if Redis refuses it anyway."""

import pytest

from proxy.commands.equivalents import equivalents, interchangeable
from proxy.rules.replace.rule import Replacement, ReplaceSettings
from proxy.rules.rule import Binding, Needs
from proxy.rules.verdict import PASS, Pass, Rewrite
from tests.rules.given import BINDING, command, context, spec, streamed


def replacement(available: frozenset[str] | None = None) -> Replacement:
    binding = Binding(BINDING.table, available)
    return Replacement("lazy", ReplaceSettings((("DEL", "UNLINK"),)), binding)


@pytest.mark.parametrize("name", ["DEL", "del", "dEl"])
def test_the_name_changes_and_nothing_else(name: str) -> None:
    verdict = replacement().judge(command(f"{name} a", b"\x00 b\r\n"), context())
    assert verdict == Rewrite([b"UNLINK", b"a", b"\x00 b\r\n"], None)


def test_a_command_without_arguments_gets_the_error_about_itself() -> None:
    assert replacement().judge(command("DEL"), context()) == PASS


def test_what_is_not_known_to_run_is_not_sent() -> None:
    verdict = replacement(frozenset()).judge(command("DEL a"), context())
    assert isinstance(verdict, Pass)
    assert "UNLINK" in verdict.skipped
    assert isinstance(replacement(frozenset({"DEL", "UNLINK"})).judge(command("DEL a"), context()), Rewrite)


def test_what_has_been_sent_in_part_stays_as_it_is() -> None:
    assert isinstance(replacement().judge(streamed([b"DEL", b"a", b""], 2, 2**21), context()), Rewrite)
    verdict = replacement().judge(streamed([b"DEL", b"", b"b"], 1, 2**21), context())
    assert isinstance(verdict, Pass)
    assert verdict.skipped


def test_who_may_not_send_the_one_is_not_given_the_other() -> None:
    assert replacement(frozenset({"UNLINK"})).judge(command("DEL a"), context()) == PASS


def test_it_says_what_has_to_be_probed() -> None:
    assert replacement().needs.commands == {"DEL", "UNLINK"}
    assert replacement().touches(spec("DEL"))
    assert not replacement().touches(spec("UNLINK"))


def test_a_bare_flush_gets_its_argument_and_any_other_stays() -> None:
    pairs = (("FLUSHALL", "FLUSHALL ASYNC"), ("SCRIPT FLUSH", "SCRIPT FLUSH ASYNC"))
    rule = Replacement("lazy", ReplaceSettings(pairs), Binding(BINDING.table, frozenset()))
    assert rule.needs == Needs()
    assert rule.judge(command("flushall"), context()) == Rewrite([b"flushall", b"ASYNC"])
    assert rule.judge(command("Script Flush"), context()) == Rewrite([b"Script", b"Flush", b"ASYNC"])
    for text in ("FLUSHALL SYNC", "FLUSHALL async", "SCRIPT FLUSH SYNC", "FLUSHALL x y"):
        assert rule.judge(command(text), context()) == PASS


def test_only_commands_with_the_same_replies_stand_for_each_other() -> None:
    assert interchangeable("DEL", "UNLINK")
    assert interchangeable("SUBSTR", "GETRANGE")
    assert not interchangeable("DEL", "DEL")
    assert not interchangeable("DEL", "GETDEL")
    assert interchangeable("FLUSHDB", "FLUSHDB ASYNC")
    assert not interchangeable("FLUSHDB", "FLUSHALL ASYNC")
    assert not interchangeable("FLUSHDB", "FLUSHDB SYNC")
    assert equivalents("SLAVEOF") == ("REPLICAOF",)
    assert equivalents("DEL") == ()
