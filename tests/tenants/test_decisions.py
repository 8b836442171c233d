"""Every command has a decision for tenants, and each that is offered is tried."""

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.commands.tenant_commands import (
    DECISIONS,
    TWICE,
    Offer,
    ReplyNames,
    RequestNames,
    decision_in_scripts,
    decision_of,
)
from proxy.tenants.requests import NotOfferedError, prefixed
from tests.tenants.invocations import INVOCATIONS, sent

COMMANDS = STANDARD.specs[1:]


def test_each_command_has_one_decision() -> None:
    assert not TWICE
    assert not [spec.name for spec in COMMANDS if decision_of(spec.name) is None]
    assert not DECISIONS.keys() - {spec.name for spec in COMMANDS}


def test_keys_of_an_offered_command_get_the_prefix() -> None:
    for spec in COMMANDS:
        offer = decision_of(spec.name)
        if isinstance(offer, Offer):
            assert (offer.request in (RequestNames.KEYS, RequestNames.SORT)) is spec.may_have_keys, spec.name


def test_scripts_may_call_what_has_names_nowhere_but_where_its_keys_stand() -> None:
    for spec in COMMANDS:
        decision = decision_in_scripts(spec.name)
        assert decision, spec.name
        if isinstance(decision, Offer):
            assert decision.request in (RequestNames.KEYS, RequestNames.CHANNEL, RequestNames.NONE), spec.name
            assert decision.reply is ReplyNames.NONE, spec.name


def test_others_are_refused() -> None:
    for spec in COMMANDS:
        if not isinstance(decision_of(spec.name), Offer):
            with pytest.raises(NotOfferedError) as refused:
                prefixed(Command(STANDARD, [word.encode() for word in spec.name.split("|")], spec), b"acme:")
            assert refused.value.error.startswith((b"-DENIED keyrail: ", b"-NOPERM ")), spec.name


def test_each_offered_command_is_tried() -> None:
    tried = {STANDARD.spec_of(sent(words)).name for words in INVOCATIONS}
    own = {"KEYRAIL|HELP", "KEYRAIL|HOTKEYS"}  # of no server: see test_own_hot_keys
    assert {name for name, decision in DECISIONS.items() if isinstance(decision, Offer)} - own == tried


def test_a_command_that_the_table_does_not_know_is_refused() -> None:
    with pytest.raises(NotOfferedError, match=r"MADE\.UP is not offered to tenants"):
        prefixed(Command(STANDARD, [b"MADE.UP", b"k"]), b"acme:")
