"""A TTL for strings that are written without one.

It travels inside the command that writes, so it is atomic and its reply stays one reply:

    SET k v [NX|XX] [GET]    ->  SET k v … EX n           the same reply
    SETNX k v                ->  SET k v NX EX n          +OK becomes :1, null becomes :0, an error stays
    GETSET k v               ->  SET k v EX n GET         the same reply

A SET that says what is to become of the TTL (EX, PX, EXAT, PXAT, KEEPTTL) is left alone. So is one with an
option that is not known here, since it might say so too: counted as skipped. Options start at the fourth
argument: a *value* "EX" is a value.

A value that is streamed has left for Redis together with the number of arguments unless it is the last one.
Then nothing can be added any more, and the write is refused: the rule's promise is that no string without a
TTL gets through.

Jitter spreads the TTL evenly over default ± jitter, in whole seconds and at least one, so that keys written
together do not expire together. A plan takes such TTLs in turn from a list drawn once.
"""

from dataclasses import dataclass
from random import Random

from proxy.commands.command import Command
from proxy.commands.table import Spec
from proxy.rules.context import Context
from proxy.rules.lowering import Append, Lowering
from proxy.rules.rule import Binding, Wording, takes
from proxy.rules.verdict import PASS, Pass, Rewrite, Verdict, refusal

_TTL_OPTIONS = (b"EX", b"PX", b"EXAT", b"PXAT", b"KEEPTTL")
_OTHER_OPTIONS = {b"NX": 0, b"XX": 0, b"GET": 0, b"IFEQ": 1, b"IFNE": 1, b"IFDEQ": 1, b"IFDNE": 1}
"""The options of SET that say nothing about the TTL, and how many arguments each takes."""
_FIRST_OPTION = 3
_DRAWN = 256
"""How many TTLs a plan draws beforehand; evenly spread, so few are enough to keep keys apart."""


@dataclass(frozen=True, slots=True)
class LifetimeSettings:
    """`default` in seconds; `jitter` as a share of it, 0 <= jitter < 1."""

    default: int
    jitter: float = 0.0

    def seconds(self, chance: float) -> int:
        """The TTL that belongs to a random number in [0, 1)."""
        return max(1, round(self.default * (1 + self.jitter * (2 * chance - 1))))

    def bind(self, name: str, wording: Wording, binding: Binding) -> "Lifetime":
        """The rule itself."""
        return Lifetime(name, self, wording, binding)


class Lifetime:
    """The default TTL of strings."""

    needs = frozenset({"SET"})

    def __init__(self, name: str, settings: LifetimeSettings, wording: Wording, binding: Binding) -> None:
        self.name = name
        self._settings = settings
        self._wording = wording
        self._can_replace = binding.can_send("SET")
        self._seed = binding.seed
        self._target = binding.table.find("SET")
        self._set, self._setnx, self._getset = (
            -1 if spec is None else spec.id for spec in map(binding.table.find, ("SET", "SETNX", "GETSET"))
        )

    def touches(self, spec: Spec) -> bool:
        """SET, SETNX and GETSET."""
        return spec.id in (self._set, self._setnx, self._getset)

    def judge(self, command: Command, context: Context) -> Verdict:
        """Rewrite what would live for ever; PASS what would not, and what Redis will refuse anyway."""
        if not takes(command.spec, len(command.argv)):
            return PASS
        if command.spec.id == self._set:
            verdict = self._judge_options(command, context)
        elif not self._can_replace:
            return Pass(skipped="the engine is not known to run SET for this user")
        elif command.spec.id == self._setnx:
            verdict = Rewrite([b"SET", *command.argv[1:], b"NX", *self._expiry(context)], _reply_of_setnx, self._target)
        else:
            verdict = Rewrite([b"SET", *command.argv[1:], *self._expiry(context), b"GET"], None, self._target)
        if isinstance(verdict, Rewrite) and command.streamed is not None and command.streamed < len(command.argv) - 1:
            return self._refuse_streamed()
        return verdict

    def _judge_options(self, command: Command, context: Context) -> Verdict:
        argv = command.argv
        i = _FIRST_OPTION
        while i < len(argv):
            option = argv[i].upper()
            if option in _TTL_OPTIONS:
                return PASS
            if option not in _OTHER_OPTIONS:
                return Pass(skipped="SET has an option that this rule does not know")
            i += 1 + _OTHER_OPTIONS[option]
        return Rewrite([*argv, *self._expiry(context)], None, self._target)

    def _expiry(self, context: Context) -> tuple[bytes, bytes]:
        return b"EX", b"%d" % self._settings.seconds(context.random())

    def _refuse_streamed(self) -> Verdict:
        because = f", and {self._wording.because}" if self._wording.because else ""
        why = f"the value is too large for a TTL to be added behind its options{because}"
        return refusal(self.name, why, self._wording.instead or "write it with EX")

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        """A bare SET gets its EX from the plan; the others are rare, or need their reply edited: judged."""
        if spec.id != self._set:
            lowering.judge()
            return
        chances = [(i + 0.5) / _DRAWN for i in range(_DRAWN)] if self._settings.jitter else [0.5]
        Random(self._seed).shuffle(chances)
        suffixes = [_encode_expiry(self._settings.seconds(chance)) for chance in chances]
        lowering.append(Append(_FIRST_OPTION, 2, suffixes, _TTL_OPTIONS))


def _encode_expiry(seconds: int) -> bytes:
    number = b"%d" % seconds
    return b"$2\r\nEX\r\n$%d\r\n%b\r\n" % (len(number), number)


def _reply_of_setnx(frame: bytes) -> bytes:
    if frame == b"+OK\r\n":
        return b":1\r\n"
    if frame in (b"$-1\r\n", b"_\r\n"):
        return b":0\r\n"
    return frame
