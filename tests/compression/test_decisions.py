"""Every command that may touch a string or a hash has a decision about compressed values."""

from proxy.commands.compressed_values import DECISIONS, READ_INSTEAD, TWICE, UNTOUCHED, decision_of
from proxy.commands.key_types import key_types_of
from proxy.commands.table import STANDARD
from proxy.commands.values import brings_values

COMMANDS = STANDARD.specs[1:]


def test_each_command_has_one_decision() -> None:
    assert not TWICE
    assert not [spec.name for spec in COMMANDS if decision_of(spec) is None]
    assert not DECISIONS.keys() - {spec.name for spec in COMMANDS}


def test_commands_of_strings_and_hashes_are_decided_by_name() -> None:
    for spec in COMMANDS:
        if spec.may_have_keys and key_types_of(spec).read & {"string", "hash"}:
            assert spec.name in DECISIONS, spec.name


def test_what_brings_values_is_not_left_alone_but_for_numbers_and_payloads() -> None:
    left = {spec.name for spec in COMMANDS if brings_values(spec.name) and DECISIONS.get(spec.name) == UNTOUCHED}
    assert left <= {"RESTORE", "RESTORE-ASKING", "HINCRBY", "HINCRBYFLOAT"}


def test_an_unknown_command_has_none() -> None:
    assert decision_of(STANDARD.specs[0]) is None


def test_what_is_read_instead_is_a_read() -> None:
    assert {"GET", "HGET"} == READ_INSTEAD
