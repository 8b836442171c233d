"""The keys of a slot: one tenant's are told and counted, of those of all."""

from __future__ import annotations

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.tenants import slot_keys
from proxy.tenants.replies import OTHER_FORM
from proxy.tenants.requests import Prefixed, prefixed
from proxy.wire.encode import encode_array

ALL = encode_array([b"globex:a", b"acme:a", b"acme:globex:a", b"acme", b"acme:", b"outside"])


def edited(*words: str) -> Prefixed:
    return prefixed(Command(STANDARD, [word.encode() for word in words]), b"acme:")


def told(frame: bytes, *words: str) -> bytes:
    edit = edited(*words).edit
    assert edit is not None
    return edit(frame)


def test_all_keys_of_the_slot_are_asked_for() -> None:
    expected = [b"CLUSTER", b"GETKEYSINSLOT", b"7", b"250000"]
    assert edited("CLUSTER", "GETKEYSINSLOT", "7", "2").argv == expected
    assert edited("cluster", "countkeysinslot", "7").argv == expected


def test_only_the_tenants_own_are_told() -> None:
    assert told(ALL, "CLUSTER", "GETKEYSINSLOT", "7", "100") == encode_array([b"a", b"globex:a", b""])
    assert told(ALL, "CLUSTER", "GETKEYSINSLOT", "7", "1") == encode_array([b"a"])
    assert told(ALL, "CLUSTER", "GETKEYSINSLOT", "7", "0") == b"*0\r\n"
    assert told(ALL, "CLUSTER", "COUNTKEYSINSLOT", "7") == b":3\r\n"
    assert told(b"*0\r\n", "CLUSTER", "COUNTKEYSINSLOT", "7") == b":0\r\n"


def test_more_than_were_asked_for_cannot_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_keys, "MOST_KEYS", 6)
    assert told(ALL, "CLUSTER", "COUNTKEYSINSLOT", "7").startswith(b"-ERR keyrail: this slot has")
    assert told(ALL, "CLUSTER", "GETKEYSINSLOT", "7", "4").startswith(b"-ERR keyrail: this slot has")
    assert told(ALL, "CLUSTER", "GETKEYSINSLOT", "7", "3") == encode_array([b"a", b"globex:a", b""])


@pytest.mark.parametrize(
    "words", ["GETKEYSINSLOT x 1", "GETKEYSINSLOT 16384 1", "GETKEYSINSLOT 1 -1", "COUNTKEYSINSLOT -1"]
)
def test_redis_says_what_is_wrong_with_an_argument(words: str) -> None:
    made = edited("CLUSTER", *words.split())
    assert made.argv == [b"CLUSTER", *words.encode().split()]
    assert made.edit is not None
    assert made.edit(b"-ERR Invalid slot\r\n") == b"-ERR Invalid slot\r\n"
    assert made.edit(ALL) == OTHER_FORM


def test_an_error_stays() -> None:
    disabled = b"-ERR This instance has cluster support disabled\r\n"
    assert told(disabled, "CLUSTER", "COUNTKEYSINSLOT", "7") == disabled
    assert told(b":3\r\n", "CLUSTER", "COUNTKEYSINSLOT", "7") == OTHER_FORM, "of all tenants"


def test_a_key_is_hashed_with_its_prefix() -> None:
    assert edited("CLUSTER", "KEYSLOT", "a").argv == [b"CLUSTER", b"KEYSLOT", b"acme:a"]
