"""Reads of whole collections: HGETALL, SMEMBERS, SUNION, ``LRANGE k 0 -1`` …

Their cost depends on the collection: a read of a million members blocks every client for a second. A policy refuses
them, or has their sizes looked up first: HLEN, SCARD and similar commands take no time. They run on Keyrail's own
connection, and their replies are remembered for a short time; a collection that grows in that time is not noticed. A
range with an end (``LRANGE k 0 99``) counts only if it asks for more than may be read; ``ranges`` limits other ranges.

If a size cannot be looked up (inside MULTI, no connection, a user without HLEN), the policy decides: the command passes
and is counted as skipped, or it is refused. A key of another type passes: Redis answers WRONGTYPE.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from proxy.commands.command import Command
from proxy.commands.error_texts import NO_SIZE
from proxy.commands.row import Whole
from proxy.commands.spec import Spec
from proxy.commands.whole_collection_commands import READS, WHOLE_COLLECTION_COMMANDS, asked_of_whole, measured_keys
from proxy.rules.context import Context
from proxy.rules.judged_by import JudgedBy
from proxy.rules.lowering import Lowering
from proxy.rules.refusals import Refusals, over
from proxy.rules.rule import Binding, Rule, RuleSettings, Wording
from proxy.rules.sizes_known import KnownSizes
from proxy.rules.verdict import PASS, Pass, Procedure, Refuse, Steps, Verdict
from proxy.wire.decode import read_reply

_PATIENCE = 1.0
"""Seconds that a client may wait for the sizes."""


@dataclass(frozen=True, slots=True)
class WholeCollectionsSettings(RuleSettings):
    """The commands, in capitals, among those of ``proxy.commands.whole_collection_commands``.

    With `max` the sizes are looked up, and more members are refused; without it, every one of these commands is. A size
    is remembered for `remember` seconds. `unknown` says whether a command passes if the size is unknown.
    """

    commands: tuple[str, ...] = READS
    max: int | None = None
    remember: int = 5
    unknown: bool = True

    @property
    def beyond_acl(self) -> str:
        return "an ACL does not know what is stored"

    def bind(self, name: str, wording: Wording, binding: Binding) -> "WholeCollections":
        return WholeCollections(name, self, wording, binding)


class WholeCollections(Rule):
    """Refuses a list of commands on large collections, or on any."""

    def __init__(self, name: str, settings: WholeCollectionsSettings, wording: Wording, binding: Binding) -> None:
        self.name = name
        self._settings = settings
        self._refusals = Refusals(name, wording, binding)
        self._known = binding.memory.of(name, settings, lambda: KnownSizes(settings.remember))

    def touches(self, spec: Spec) -> bool:
        return spec.name in self._settings.commands

    def judge(self, command: Command, context: Context) -> Verdict:
        """Refuse a read of a large collection, or of any; look the size up if it is unknown."""
        most = self._settings.max
        keys = measured_keys(command) if most is None else measured_keys(command, most)
        if not keys:
            return PASS
        if most is None:
            return self._refuse(command, "reads all members", "")
        measure = WHOLE_COLLECTION_COMMANDS[command.spec.name].measures[0]
        sizes = [self._known.find(context.keyspace, measure, key, context.now) for key in keys]
        known = [size for size in sizes if size is not None]
        if len(known) == len(sizes):
            return self._decide(command, known, most)
        steps = partial(self._steps, command, keys, context, most)
        return Procedure(steps, _PATIENCE, partial(self._unknown, command))

    def _steps(self, command: Command, keys: Sequence[bytes], context: Context, most: int) -> Steps:
        measures = WHOLE_COLLECTION_COMMANDS[command.spec.name].measures
        replies = yield [(measure.encode(), key) for key in keys for measure in measures]
        sizes = []
        for i, key in enumerate(keys):
            size = _largest(replies[i * len(measures) : (i + 1) * len(measures)])
            if size is None:
                return self._unknown(command, "Redis does not tell this user")
            self._known.learn(context.keyspace, measures[0], key, size, context.now)
            sizes.append(size)
        return self._decide(command, sizes, most)

    def _decide(self, command: Command, sizes: Sequence[int], most: int) -> Pass | Refuse:
        size = min(_cost(WHOLE_COLLECTION_COMMANDS[command.spec.name], sizes), asked_of_whole(command))
        if size <= most:
            return PASS
        return self._refuse(command, f"would read {size} members", f", {over(size, most)}")

    def _unknown(self, command: Command, reason: str) -> Pass | Refuse:
        if self._settings.unknown:
            return Pass(skipped=f"the size is unknown: {reason}")
        return self._refuse(command, "reads all members", f", and their number is unknown: {reason}")

    def _refuse(self, command: Command, what: str, excess: str = "") -> Refuse:
        key = f" of {self._refusals.key(command, command.keys[0].index)}" if len(command.keys) == 1 else ""
        return self._refusals.of(
            f"{command.name} {what}{key}{excess}", WHOLE_COLLECTION_COMMANDS[command.spec.name].instead, command
        )

    def judged_by(self, _spec: Spec) -> JudgedBy:
        """Sizes are what Redis has stored; a rule without a limit asks for none."""
        return JudgedBy.FORM if self._settings.max is None else JudgedBy.STATE

    def lower(self, _spec: Spec, lowering: Lowering) -> None:
        """Everything is judged: a plan does not read these numbers."""
        lowering.judge()


def _cost(whole: Whole, sizes: Sequence[int]) -> int:
    return min(sizes) if whole.smallest else sum(sizes)


def _largest(replies: Sequence[bytes]) -> int | None:
    """The largest size in the replies; 0 for a key of another type, None if Redis tells no size."""
    sizes = [int(read_reply(reply)) for reply in replies if reply.startswith(b":")]
    if sizes:
        return max(sizes)
    return 0 if all(NO_SIZE.begin(reply) for reply in replies) else None
