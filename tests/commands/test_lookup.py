"""A request's command is found in place, in any letter case, subcommands included, and never by part of a name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.commands.table import STANDARD
from proxy.wire.request import Request

IDS = {found.name: found.id for found in STANDARD.specs[1:]}
CONTAINERS = {found.name for found in STANDARD.specs if found.container}


def expected(argv: list[bytes]) -> int:
    """The same decision in the plainest words; Redis folds ASCII letters only."""
    if not argv:
        return 0
    name = upper(argv[0])
    if "|" in name or name not in IDS:
        return 0
    if name in CONTAINERS and len(argv) > 1:
        return IDS.get(f"{name}|{upper(argv[1])}", 0) if "|" not in upper(argv[1]) else 0
    return IDS[name]


def upper(word: bytes) -> str:
    return word.upper().decode("latin-1")


def find(argv: list[bytes]) -> int:
    return STANDARD.lookup.find(Request.from_argv(argv))


@pytest.mark.parametrize("case", [str.upper, str.lower, str.swapcase, str.title])
def test_every_command_is_found_in_any_letter_case(case: object) -> None:
    assert callable(case)
    for found in STANDARD.specs[1:]:
        words = [case(word).encode() for word in found.name.split("|")]
        assert find([*words, b"x"] if not found.container else words) == found.id, found.name


@pytest.mark.parametrize(
    "line",
    [
        "CLIENT|SETNAME x",
        "client|setname",
        "CONFIG SE",
        "CONFIG SETT a b",
        "CONFIG CONFIG",
        "GE k",
        "GETT k",
        "SETNAME x",
        "CONFIG |SET",
        "CONFIG CONFIG|SET",
        "ＧET k",
    ],
)
def test_what_is_no_command_is_unknown(line: str) -> None:
    assert find([word.encode() for word in line.split()]) == 0


def test_an_empty_name_and_no_arguments_at_all_are_unknown() -> None:
    assert find([]) == 0
    assert find([b""]) == 0
    assert find([b"CONFIG", b""]) == 0


def test_a_container_alone_is_the_container() -> None:
    assert find([b"client"]) == IDS["CLIENT"]
    assert find([b"COMMAND"]) == IDS["COMMAND"]


def test_a_name_of_any_length_is_only_a_name() -> None:
    assert find([b"G" * 100_000]) == 0
    assert find([b"CONFIG", b"G" * 100_000]) == 0


def test_the_request_may_lie_anywhere_in_a_growing_buffer() -> None:
    request = Request.from_argv([b"config", b"GET"])
    for data in (bytearray(b"zzconfigGETzz"), b"zzconfigGETzz"):
        request.data = data
        request.starts[0], request.ends[0], request.starts[1], request.ends[1] = 2, 8, 8, 11
        assert STANDARD.lookup.find(request) == IDS["CONFIG|GET"]


WORDS = st.sampled_from([part.encode() for name in IDS for part in name.split("|")])
MUTATED = st.builds(
    lambda word, i, byte: word[: i % len(word)] + byte + word[i % len(word) + 1 :],
    WORDS,
    st.integers(0, 40),
    st.binary(max_size=2),
)


@given(st.lists(WORDS | MUTATED | st.binary(max_size=12), max_size=3))
def test_it_agrees_with_a_dictionary(argv: list[bytes]) -> None:
    assert find(argv) == expected(argv)


def test_spec_of_needs_no_wire() -> None:
    assert STANDARD.spec_of([b"xgroup", b"create", b"k", b"g", b"$"]).name == "XGROUP|CREATE"
    assert STANDARD.spec_of([b"nope"]).id == 0
