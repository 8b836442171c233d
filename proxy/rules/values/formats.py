r"""Formats of serialised objects, by their first bytes, and by their last byte where the whole value is known.

pickle  ``\x80``, the protocol 2 to 5, and an opcode; the last byte is ``.``. Protocols 0 and 1 have no such beginning.
        https://docs.python.org/3/library/pickletools.html
java    ``\xac\xed\x00\x05``: STREAM_MAGIC and STREAM_VERSION of the Object Serialization Stream Protocol.
php     ``a:N:{``, ``O:N:"``, ``C:N:"``, ``E:N:"`` or ``s:N:"``, as serialize() writes arrays, objects, enums and
        strings; the last byte is ``}`` or ``;``. Numbers, booleans and null are short and of no class: they pass.

A value in two layers is not recognised: compressed, encrypted, or inside JSON. Each check looks at a few bytes.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from proxy.wire.numbers import read_digits

_PROTOCOLS = range(2, 6)
_SHORTEST = len(b"\x80\x02N.")
OPCODES = frozenset(
    b"().012BCFGIJKLMNPQRSTUVX]abcdeghijlopqrstu}\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b"
    b"\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96\x97\x98"
)
"""The opcodes of all protocols of pickle."""
_JAVA = b"\xac\xed\x00\x05"
_PHP_OPENS = {b"a": b"{", b"O": b'"', b"C": b'"', b"E": b'"', b"s": b'"'}
_PHP_ENDS = {b"a": b"}", b"O": b"}", b"C": b"}", b"E": b";", b"s": b";"}
_MOST_DIGITS = 10


def _is_pickle(beginning: bytes, whole: bool) -> bool:
    if (
        len(beginning) < _SHORTEST
        or beginning[0] != 0x80
        or beginning[1] not in _PROTOCOLS
        or beginning[2] not in OPCODES
    ):
        return False
    return not whole or beginning.endswith(b".")


def _is_java(beginning: bytes, _whole: bool) -> bool:
    return beginning.startswith(_JAVA)


def _is_php(beginning: bytes, whole: bool) -> bool:
    kind = beginning[:1]
    if kind not in _PHP_OPENS or beginning[1:2] != b":":
        return False
    digits, colon, rest = beginning[2 : 2 + _MOST_DIGITS + 2].partition(b":")
    if read_digits(digits.decode("latin-1")) is None or not (colon and rest.startswith(_PHP_OPENS[kind])):
        return False
    return not whole or beginning.endswith(_PHP_ENDS[kind])


class Format(NamedTuple):
    """The words for a value; whether the first bytes of a value, or the whole one, are of the format; and which bytes
    all its values have at the first and at the second place."""

    words: str
    fits: Callable[[bytes, bool], bool]
    opening: tuple[bytes, bytes]


FORMATS: Mapping[str, Format] = {
    "pickle": Format("a pickle of Python", _is_pickle, (b"\x80", bytes(_PROTOCOLS))),
    "java": Format("a serialised object of Java", _is_java, (_JAVA[:1], _JAVA[1:2])),
    "php": Format("a value of PHP's serialize()", _is_php, (b"".join(_PHP_OPENS), b":")),
}
"""By their names in a policy."""
