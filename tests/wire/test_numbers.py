"""Only ASCII digits are numbers, in every text of a user or a client."""

from __future__ import annotations

import ast
import re
from argparse import ArgumentTypeError
from collections.abc import Callable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from proxy.cli.line import number
from proxy.net.config.address import parse_listen, parse_upstream
from proxy.net.connection.engine import read_version
from proxy.policy.sections.modes import read_stage
from proxy.policy_yaml.errors import Where
from proxy.policy_yaml.fields import integer, read_duration, read_percent, read_size, read_span
from proxy.policy_yaml.yaml_source import Problems, Scalar
from proxy.rules.rates import parse_rate
from proxy.server import option_readers
from proxy.session.ports.info_query import read_options
from proxy.wire.numbers import read_digits, read_whole
from tests.program_source import trees

_OF_OTHERS = ("isdigit", "isdecimal", "isnumeric")
OF_BYTES = {
    *(
        "cluster/scan_cursor.py",
        "commands/expiry.py",
        "compression/making.py",
        "compression/replies.py",
        "commands/values.py",
        "hotpath/upstream/reply_actions.py",
        "net/policy/command_cost.py",
        "rules/replies/rule.py",
        "session/logins/handshake.py",
    ),
    *("traffic/shapes.py", "traffic/tag_spread.py", "wire/numbers.py"),
}
"""Modules that call `isdigit` on bytes, where it knows ASCII alone; and the one that reads text."""


@pytest.mark.source
def test_no_reader_of_its_own_knows_other_digits() -> None:
    """`isdigit` is true of superscripts and `\\d` matches digits of all scripts: both are for bytes alone."""
    found = []
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in _OF_OTHERS and name not in OF_BYTES:
                found.append(f"{name}:{node.lineno}: isdigit")
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.search(r"\\[dw]", node.value):
                found.append(f"{name}:{node.lineno}: \\d")
    assert found == []


def policy_field(read: Callable[[Scalar, Problems], object]) -> Callable[[str], object]:
    def reader(text: str) -> object:
        problems = Problems()
        value = read(Scalar(text, Where("file"), "path"), problems)
        if problems.found:
            raise ValueError
        return value

    return reader


def needed(read: Callable[[str], object]) -> Callable[[str], object]:
    def reader(text: str) -> object:
        value = read(text)
        if value is None:
            raise ValueError
        return value

    return reader


READERS: dict[str, tuple[Callable[[str], object], str]] = {
    "whole": (lambda text: read_whole(text, 0, 10**6), "42"),
    "digits": (needed(read_digits), "42"),
    "cli": (number(0, 1000), "42"),
    "seconds": (option_readers.read_seconds, "1.5s"),
    "size": (option_readers.read_size, "64KB"),
    "count": (option_readers.count(0, 1000), "42"),
    "admin": (option_readers.read_admin, "localhost:9121"),
    "listen": (parse_listen, "redis://localhost:6380"),
    "listen in short": (parse_listen, "localhost:6380"),
    "upstream": (parse_upstream, "redis://localhost:6379/3"),
    "version": (needed(read_version), "7.0.15"),
    "topic": (lambda text: read_options("hotkeys", [b"COUNT", text.encode()]), "42"),
    "rate": (needed(parse_rate), "100/s"),
    "integer": (policy_field(integer(0, 1000)), "42"),
    "duration": (policy_field(read_duration), "1h30m"),
    "policy size": (policy_field(read_size), "64KB"),
    "percent": (policy_field(read_percent), "10%"),
    "span": (policy_field(read_span), "2..6"),
    "stage": (policy_field(read_stage), "enforce 10%"),
}
OTHERS = "\u0660\u06f5\u0967\uff11\u00b2\u2460\U0001d7d8\u4e00\u0bf1"
"""Digits and numbers of other scripts, superscripts, circled and mathematical ones."""


@pytest.mark.parametrize("name", READERS)
def test_a_number_is_read(name: str) -> None:
    read, text = READERS[name]
    read(text)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=60)
@given(data=st.data())
def test_other_digits_underscores_and_signs_are_no_numbers(name: str, data: st.DataObject) -> None:
    read, text = READERS[name]
    places = [place for place, char in enumerate(text) if char.isdigit()]
    place = data.draw(st.sampled_from(places))
    odd = data.draw(
        st.sampled_from([*OTHERS, "1_0", "_1", "1_", "+1", "--1", " 1", "1\u00a0", "1e1", "0x1", "1\n", "\u22121"])
    )
    assume(not (odd == " 1" and text[place - 1] == " "))  # one more space between two words
    assume(not (odd == "1\n" and name in ("listen", "upstream")))  # in a URL a line end is nothing at all
    spoilt = text[:place] + odd + text[place + 1 :]
    with pytest.raises((ValueError, ArgumentTypeError)):
        read(spoilt)
