"""What a plan does about TTLs: it appends them, and varies those that applications state.

A plan takes what chance decides in turn from a list, which is drawn once.
"""

from array import array
from collections.abc import Sequence
from random import Random

from proxy.commands.expiry import OPTIONS, PlainForm
from proxy.commands.spec import Spec
from proxy.rules.request_edits import Append, StatedArgument
from proxy.schema.bounds import Bounds, spread

LONG = 10**15
"""Milliseconds. A longer lifetime is judged, as a plan does not read such numbers, and is not varied."""
_FIRST_OPTION_OF_SET = 3
_DRAWN = 256
"""How many TTLs a plan prepares. They are evenly spread, so a few are enough to keep keys apart."""
_GET = b"$3\r\nGET\r\n"


class PlannedTtls:
    """The edits of one rule, by the bounds of the key. `set_spec` is SET, where the engine has it."""

    def __init__(self, set_spec: Spec | None, seed: int | None) -> None:
        self._set = set_spec
        self._seed = seed
        self._factors: dict[float, array[float]] = {}  # a schema may have hundreds of bounds with the same jitter

    def append(self, spec: Spec, forms: Sequence[PlainForm], bounds: Bounds) -> Append:
        """For a command that can state a TTL, in these `forms` and others."""
        factors = self._factors_of(bounds.jitter_stated) if bounds.jitter_stated else None
        stated = [_stated(form, bounds, factors) for form in forms]
        if self._set is None or spec.id != self._set.id or bounds.required or bounds.default is None:
            return Append(stated=stated)
        words = () if bounds.weighs else OPTIONS
        return Append(_FIRST_OPTION_OF_SET, 2, self._suffixes(bounds), words, stated)

    def append_under_set(self, bounds: Bounds) -> Append:
        """For GETSET, which becomes a SET."""
        if bounds.required or not bounds.gives:
            return Append()
        suffixes = [suffix + _GET for suffix in self._suffixes(bounds)]
        return Append(_FIRST_OPTION_OF_SET, 3, suffixes, target=self._set)

    def _suffixes(self, bounds: Bounds) -> list[bytes]:
        chances = self._chances() if bounds.jitter else [0.5]
        return [_encode_expiry(bounds.seconds(chance)) for chance in chances]

    def _factors_of(self, jitter: float) -> "array[float]":
        if jitter not in self._factors:
            self._factors[jitter] = array("d", (spread(1.0, jitter, chance) for chance in self._chances()))
        return self._factors[jitter]

    def _chances(self) -> list[float]:
        chances = [(i + 0.5) / _DRAWN for i in range(_DRAWN)]
        Random(self._seed).shuffle(chances)
        return chances


def _stated(form: PlainForm, bounds: Bounds, factors: "array[float] | None") -> StatedArgument:
    least = 1 if bounds.least is None else bounds.least * 1000 // form.scale
    most = (LONG if bounds.most is None else min(bounds.most * 1000, LONG)) // form.scale
    return StatedArgument(form.argc, form.number_at, least, most, form.word, form.word_at, factors)


def _encode_expiry(seconds: int) -> bytes:
    number = b"%d" % seconds
    return b"$2\r\nEX\r\n$%d\r\n%b\r\n" % (len(number), number)
