"""CLUSTER GETKEYSINSLOT and COUNTKEYSINSLOT: a slot has keys of all tenants, so its keys are asked for, and those of
one tenant are told or counted.

No node tells a part of them, or goes on where a reply has ended. So where a slot has ``MOST_KEYS`` keys or more, of all
together, those of one tenant cannot be counted.
"""

from collections.abc import Callable
from functools import partial

from proxy.commands.command import Command
from proxy.commands.slots import SLOTS
from proxy.commands.values import whole_number
from proxy.tenants.replies import OTHER_FORM
from proxy.wire.decode import read_reply
from proxy.wire.encode import encode_array, encode_error

MOST_KEYS = 250_000
_TOO_MANY = encode_error(
    f"ERR keyrail: this slot has {MOST_KEYS} keys or more, of all tenants together: use SCAN to find those of one"
)


def asked(command: Command, prefix: bytes) -> tuple[list[bytes], Callable[[bytes], bytes]]:
    """The request in place of one of these, and the edit of its reply. Where Redis answers that an argument is wrong,
    it does so in its own words."""
    numbers = [whole_number(argument) for argument in command.argv[2:]]
    slot, wanted = numbers[0], numbers[1] if len(numbers) > 1 else MOST_KEYS
    if slot is None or not 0 <= slot < SLOTS or wanted is None or wanted < 0:
        return command.argv, _error
    counts = len(numbers) == 1
    told = partial(_counted, prefix) if counts else partial(_told, prefix, wanted)
    return [b"CLUSTER", b"GETKEYSINSLOT", command.argv[2], b"%d" % MOST_KEYS], told


def _error(frame: bytes) -> bytes:
    return frame if frame.startswith(b"-") else OTHER_FORM


def _told(prefix: bytes, wanted: int, frame: bytes) -> bytes:
    if not frame.startswith(b"*"):
        return _error(frame)
    keys, whole = _own(prefix, frame)
    return encode_array(keys[:wanted]) if whole or len(keys) >= wanted else _TOO_MANY


def _counted(prefix: bytes, frame: bytes) -> bytes:
    if not frame.startswith(b"*"):
        return _error(frame)
    keys, whole = _own(prefix, frame)
    return b":%d\r\n" % len(keys) if whole else _TOO_MANY


def _own(prefix: bytes, frame: bytes) -> tuple[list[bytes], bool]:
    # The tenant's names, and whether these are all.
    names = read_reply(frame)
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)], len(names) < MOST_KEYS
