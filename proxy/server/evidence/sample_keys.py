"""Keys of a shape, which stand for keys that are hidden (``traffic.redact``), so that rules can judge them."""

from collections.abc import Iterator
from dataclasses import replace

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.traffic.exemplars import PLACEHOLDER, Remade
from proxy.traffic.shapes import shape

_SAMPLES = {
    "int": (b"7", b"12345678", b"0", b"1000000007"),
    "uuid": (b"3f2c9a7e-0d1b-4c55-9c7e-1f2a3b4c5d6e", b"3F2C9A7E-0D1B-4C55-9C7E-1F2A3B4C5D6E"),
    "hex": (b"9f86d081884c7d65", b"A0000001", b"deadbeef01", b"c0000001", b"1234567f"),
    "date": (b"2026-01-15", b"20260115"),
    "ip": (b"10.0.0.1", b"192.168.100.200"),
    "email": (b"ada@example.org", b"a.b+c%d@mail.example.co.uk"),
    "opaque": (b"a1b2c3", b"0x9zK", b"abcdefghijklmnopqrstuvwxyzabc", b"1a"),
    "bytes": (b"\xc3\xa9", b" ", b"\x00\n"),
}
_ROUNDS = 5


def with_sample_keys(made: Remade) -> Remade:
    """The same with keys of their shapes in place of hidden keys."""
    argv = list(made.command.argv)
    for key, its_shape in zip(made.command.known_keys, made.shapes, strict=True):
        if key.index in made.hidden_keys:
            argv[key.index] = next(keys_of(its_shape))
    return replace(made, command=Command(STANDARD, argv))


def keys_of(its_shape: str) -> Iterator[bytes]:
    """Keys of this shape; at least one."""
    parts = PLACEHOLDER.split(its_shape)
    seen = set()
    for number in range(_ROUNDS):
        key = b"".join(
            part.encode("utf-8", "replace") if at % 2 == 0 else _sample(part, number) for at, part in enumerate(parts)
        )
        if number == 0 or (key not in seen and shape(key) == its_shape):
            seen.add(key)
            yield key


def _sample(kind: str, number: int) -> bytes:
    samples = _SAMPLES[kind]
    return samples[number % len(samples)]
