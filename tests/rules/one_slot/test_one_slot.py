"""Keys that a cluster would refuse together are refused, in each command and each transaction."""

from dataclasses import replace

import pytest

from proxy.commands.command import KeysUnknownError
from proxy.commands.slots import slot_of
from proxy.rules.context import NO_SLOT, Context
from proxy.rules.one_slot.rule import OneSlot, OneSlotSettings
from proxy.rules.verdict import Refuse
from tests.rules.given import BINDING, NO_WORDS, command, spec, streamed

RULE = OneSlotSettings().bind("rule", NO_WORDS, BINDING)
TRANSACTIONS_ONLY = OneSlotSettings(commands=False).bind("rule", NO_WORDS, BINDING)


def context(slot: int = NO_SLOT, *, in_transaction: bool = False) -> Context:
    return Context("default", "", 0, in_transaction, 0.0, lambda: 0.5, slot=slot)


def test_slots_are_those_of_redis_cluster() -> None:
    keys = (b"", b"123456789", b"foo", b"{foo}:bar", b"a{foo}{bar}", b"foo{}{bar}")
    assert [slot_of(key) for key in keys] == [0, 12739, 12182, 12182, 12182, 8363]
    assert slot_of(b"foo{{bar}}zap") == slot_of(b"{bar")


@pytest.mark.parametrize("text", ["GET a", "MGET {u}:1 {u}:2", "MGET a a", "PING", "MSET {a}1 x {a}2 y", "EVAL x 0"])
def test_keys_of_one_slot_pass(text: str) -> None:
    assert not isinstance(RULE.judge(command(text), context()), Refuse)


@pytest.mark.parametrize(
    "text", ["MGET a b", "DEL {u}1 {u}2 b", "EVAL x 2 a b", "SORT a STORE b", "RENAME a b", "XREAD STREAMS a b 0 0"]
)
def test_keys_that_lie_apart_do_not(text: str) -> None:
    verdict = RULE.judge(command(text), context())
    assert isinstance(verdict, Refuse)
    assert b", and the keys before it are in slot " in verdict.error
    assert not isinstance(TRANSACTIONS_ONLY.judge(command(text), context()), Refuse)


@pytest.mark.parametrize(
    "text",
    [
        "SORT {u}1",
        "SORT {u}1 BY nosort GET #",
        "SORT {u}1 BY w:{u}:* GET {u}*->name LIMIT 0 5",
        "SORT_RO {u}1 GET {u}*",
    ],
)
def test_sort_may_look_up_keys_of_its_slot(text: str) -> None:
    assert not isinstance(RULE.judge(command(text), context()), Refuse)


@pytest.mark.parametrize(
    "text",
    [
        "SORT {u}1 BY w:*",
        "SORT {u}1 BY w:*:{u}",  # an element may bring a tag of its own
        "SORT {u}1 GET {u*}",
        "SORT {u}1 GET {}{u}*",  # the whole name counts, as its first tag is empty
        "SORT u BY u*",
        "SORT {u}1 BY {u}* GET {v}*",
        "SORT_RO {u}1 GET {v}*",
    ],
)
def test_sort_may_look_up_no_others(text: str) -> None:
    verdict = RULE.judge(command(text), context())
    assert isinstance(verdict, Refuse)
    assert b"the pattern '" in verdict.error
    mine = context(slot_of(b"u"), in_transaction=True)
    assert isinstance(TRANSACTIONS_ONLY.judge(command(text), mine), Refuse)


def test_the_error_says_which_argument() -> None:
    verdict = RULE.judge(command("DEL {u}1 {u}2 b c"), context())
    assert isinstance(verdict, Refuse)
    assert b"the key 'b' (argument 3 of DEL) is in slot 3300, and the keys before it are in slot " in verdict.error


@pytest.mark.parametrize("rule", [RULE, TRANSACTIONS_ONLY])
def test_a_transaction_has_one_slot(rule: OneSlot) -> None:
    mine = context(slot_of(b"a"), in_transaction=True)
    assert not isinstance(rule.judge(command("GET {a}:1"), mine), Refuse)
    assert not isinstance(rule.judge(command("PING"), mine), Refuse)
    assert not isinstance(rule.judge(command("GET b"), context(in_transaction=True)), Refuse)
    verdict = rule.judge(command("GET b"), mine)
    assert isinstance(verdict, Refuse)
    assert b"and the keys of the transaction are in slot " in verdict.error
    assert isinstance(rule.judge(command("MGET a b"), context(in_transaction=True)), Refuse)
    assert isinstance(rule.judge(command("WATCH a b"), context()), Refuse)
    assert isinstance(rule.judge(command("WATCH b"), context(slot_of(b"a"))), Refuse)


def test_a_key_that_nobody_has_seen_whole_lies_nowhere() -> None:
    with pytest.raises(KeysUnknownError):
        RULE.judge(streamed([b"MGET", b"b", b"b"], 1, 2**21), context())


def test_it_is_about_commands_with_keys() -> None:
    assert RULE.touches(spec("GET"))
    assert not RULE.touches(spec("PING"))


def test_a_tenants_key_is_in_the_slot_of_its_name_in_redis() -> None:
    # Found by trying: each is in the slot of k0, without a prefix or with one.
    without, behind = command("MGET k0 k12773"), command("MGET k0 k13939")
    tenants = replace(context(), tenant=b"acme:")
    assert not isinstance(RULE.judge(without, context()), Refuse)
    assert isinstance(RULE.judge(behind, context()), Refuse)
    assert isinstance(RULE.judge(without, tenants), Refuse)
    assert not isinstance(RULE.judge(behind, tenants), Refuse)
    assert not isinstance(RULE.judge(command("MGET {u}:1 {u}:2"), tenants), Refuse)
