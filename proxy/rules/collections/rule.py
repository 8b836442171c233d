"""A cap on the size of collections: the fields, elements or members of a key, and the entries of a stream.

Arguments do not tell how large a collection is, but some replies do: LPUSH and RPUSH answer with the new length, and
Keyrail reads it. For a share of the other writes it looks the size up (HLEN, SCARD, ZCARD, XLEN), on its own connection
while the write goes on, so that no client waits. Each worker adds the members that later writes may have added to the
last known size (or to 0). If that sum is over the cap, the next write waits for a look-up. So one worker exceeds the
cap by at most its writes in flight; it sees the writes of other workers and other clients of Redis at its next look-up.
If a collection is too large, writes to it are refused while its size is trusted. Then the next write waits for a
look-up, and passes if the collection has become smaller.

The policy may trim lists: then a push passes, and if its reply says that the list is too long, a hidden LTRIM follows.
It keeps the end of the push; elements at the other end are lost.

A push is refused if it is known to make a list too long. An XADD passes if it trims its stream to the cap itself
(MAXLEN without a LIMIT).

A command that writes a whole collection (SUNIONSTORE and similar commands, SORT with STORE, COPY, RENAME, MOVE) could
exceed the cap in one step. So it always waits until the sizes of its sources are looked up, and is refused if the
result may be too large. If sizes cannot be looked up, above all inside MULTI, the policy decides: the command passes
and is counted as skipped, or it is refused. A RESTORE is judged by the headers of its payload.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from proxy.commands.command import Command
from proxy.commands.derived import DERIVED, most_derived, sources_of
from proxy.commands.growth import GROWING, MEASURED, PUSHES, TOLD, Growth, adds_entries, growth_of, kept_by_trimming
from proxy.commands.payload import PayloadKind
from proxy.commands.spec import Spec
from proxy.commands.values import RESTORES, payload_of
from proxy.rules.context import Context
from proxy.rules.lowering import Lowering
from proxy.rules.refusals import Refusals, over
from proxy.rules.rule import Binding, Needs, Rule, RuleSettings, Wording
from proxy.rules.sizes_known import KnownSizes
from proxy.rules.verdict import PASS, InspectReply, Pass, Procedure, Refuse, Steps, Surround, Verdict
from proxy.wire.decode import read_reply

_PATIENCE = 1.0
"""Seconds that a client may wait for the size of a collection that was too large at the last look-up."""
_A_DAY = 86_400
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True, slots=True)
class CollectionsSettings(RuleSettings):
    """The most members of hashes, lists, sets and sorted sets, and entries of streams; None is no limit.

    `sample` is the share of writes with a look-up, `remember` the seconds for which a size is trusted. With `trim`
    pushes trim their lists and are not refused. `unknown` says whether a command that writes a whole collection passes
    if the sizes of its sources are unknown.
    """

    members: int | None = None
    streams: int | None = None
    sample: float = 0.1
    remember: int = 5
    trim: bool = False
    unknown: bool = True

    def bind(self, name: str, wording: Wording, binding: Binding) -> "Collections":
        return Collections(name, self, wording, binding)


class _SizesSeen:
    """The known sizes of collections, and the collections that were too large at the last look-up."""

    def __init__(self, remember: int) -> None:
        self.sizes = KnownSizes(remember)
        self.large = KnownSizes(_A_DAY)
        self._turn = 0.0

    def learn(self, database: int, growth: Growth, size: int, now: float, cap: int, before: int) -> None:
        """Note the size of a collection; it includes the first `before` counted members. A write would grow it by
        `growth`."""
        self.sizes.learn(database, growth.measure, growth.key, size, now, before)
        if _too_large(growth, size, cap):
            self.large.learn(database, growth.measure, growth.key, size, now)
        else:
            self.large.forget(database, growth.measure, growth.key)

    def next_turn(self) -> float:
        """A number in [0, 1), evenly spread, so that a share of the turns is a share of the writes to each key."""
        self._turn = (self._turn + _GOLDEN) % 1.0
        return self._turn


class Collections(Rule):
    """One cap for collections, and one for streams."""

    def __init__(self, name: str, settings: CollectionsSettings, wording: Wording, binding: Binding) -> None:
        self.name = name
        self._settings = settings
        self._refusals = Refusals(name, wording, binding)
        self.needs = Needs(frozenset({"LTRIM"})) if settings.trim else Needs()
        self._trims = settings.trim and binding.can_send("LTRIM")
        self._seen = binding.memory.of(name, settings, lambda: _SizesSeen(settings.remember))

    def touches(self, spec: Spec) -> bool:
        """Commands that make a collection grow, or write a whole collection."""
        if spec.name in RESTORES:
            return True
        if spec.name in DERIVED:
            return self._settings.members is not None or "XLEN" in DERIVED[spec.name].measures
        return spec.name in GROWING and self._cap(adds_entries(spec.name)) is not None

    def _cap(self, stream: bool) -> int | None:
        return self._settings.streams if stream else self._settings.members

    def judge(self, command: Command, context: Context) -> Verdict:
        """Refuse a write to a collection that is too large; read the reply, look the size up, or wait for it."""
        if command.spec.name in DERIVED:
            return self._judge_derived(command, context)
        if command.spec.name in RESTORES:
            return self._judge_restored(command, context)
        growth = growth_of(command)
        cap = self._cap(adds_entries(command.spec.name))
        kept = kept_by_trimming(command)
        if growth is None or cap is None or (kept is not None and kept <= cap):
            return PASS
        if self._trims and command.spec.name in PUSHES:
            trim = partial(_trim, growth.key, PUSHES[command.spec.name] == "tail", cap)
            return Surround(trim, f"LTRIM to {cap} elements")
        database, now = context.database, context.now
        size = self._seen.sizes.find(database, growth.measure, growth.key, now)
        if size is not None and _too_large(growth, size, cap):
            self._seen.large.learn(database, growth.measure, growth.key, size, now)
            return self._refuse(command, growth, size, cap)
        # Members that are counted from here on may be added after the look-up.
        before = self._seen.sizes.written(database, growth.measure, growth.key)
        if self._may_be_too_large(growth, context, cap, known=size is not None):
            steps = partial(self._steps, command, growth, context, cap, before, waits=True)
            return Procedure(steps, _PATIENCE, partial(self._goes_on_unknown, growth, context))
        self._grow(growth, context)
        if command.spec.name in TOLD:
            return InspectReply(partial(self._listen, growth, context, cap, before + growth.members))
        if size is None and self._seen.next_turn() < self._settings.sample:
            steps = partial(self._steps, command, growth, context, cap, before, waits=False)
            return Procedure(steps, _PATIENCE, self._unknown, waits=False)
        return PASS

    def _may_be_too_large(self, growth: Growth, context: Context, cap: int, *, known: bool) -> bool:
        # By the members written since the last size, or because it was too large then and there was no look-up since.
        sizes, database = self._seen.sizes, context.database
        if _too_large(growth, sizes.at_most(database, growth.measure, growth.key), cap):
            return True
        return not known and self._seen.large.find(database, growth.measure, growth.key, context.now) is not None

    def _grow(self, growth: Growth, context: Context) -> None:
        self._seen.sizes.grow(context.database, growth.measure, growth.key, growth.members)

    def _goes_on_unknown(self, growth: Growth, context: Context, reason: str) -> Pass:
        self._grow(growth, context)
        return self._unknown(reason)

    def _steps(
        self, command: Command, growth: Growth, context: Context, cap: int, before: int, *, waits: bool
    ) -> Steps:
        replies: Sequence[bytes] = yield [(growth.measure.encode(), growth.key)]
        if not replies[0].startswith(b":"):
            # The count starts again, or each write would wait for what Redis does not tell.
            self._seen.sizes.forget(context.database, growth.measure, growth.key)
            return PASS if replies[0].startswith(b"-WRONGTYPE") else self._unknown("Redis does not tell this user")
        size = int(read_reply(replies[0]))
        self._seen.learn(context.database, growth, size, context.now, cap, before)
        if _too_large(growth, size, cap):
            return self._refuse(command, growth, size, cap)
        if waits:
            self._grow(growth, context)
        return PASS

    def _listen(self, growth: Growth, context: Context, cap: int, before: int, reply: bytes) -> str:
        # The length includes the elements of this push; the next push adds at least one.
        if reply.startswith(b":") and (size := int(read_reply(reply))) > 0:
            self._seen.learn(context.database, growth._replace(members=1), size, context.now, cap, before)
        return ""

    # Commands that write a whole collection

    def _judge_derived(self, command: Command, context: Context) -> Verdict:
        sources = sources_of(command)
        if not sources:
            return PASS
        otherwise = partial(self._unknown_sources, command)
        return Procedure(partial(self._derived_steps, command, sources, context), _PATIENCE, otherwise)

    def _derived_steps(self, command: Command, sources: Sequence[bytes], context: Context) -> Steps:
        measures = DERIVED[command.spec.name].measures
        replies = yield [(measure.encode(), key) for key in sources for measure in measures]
        sizes: list[int] = []
        stream = False
        for i in range(0, len(replies), len(measures)):
            told = dict(zip(measures, replies[i : i + len(measures)], strict=True))
            known = {measure: int(read_reply(reply)) for measure, reply in told.items() if reply.startswith(b":")}
            if not known and not all(reply.startswith(b"-WRONGTYPE") for reply in told.values()):
                return self._unknown_sources(command, "Redis does not tell this user")
            sizes.append(max(known.values(), default=0))
            stream = stream or known.get("XLEN", 0) > 0
        cap, most = self._cap(stream), most_derived(command, sizes)
        if cap is None or most <= cap:
            self._grow_whole(
                command, measures if DERIVED[command.spec.name].takes_over else measures[:1], most, context
            )
            return PASS
        members = "entries" if stream else "members"
        fault = f"{command.name} can make a collection of {most} {members}, {over(most, cap)}"
        return self._refuse_derived(command, fault)

    def _judge_restored(self, command: Command, context: Context) -> Verdict:
        kind, _, members = payload_of(command)
        caps = {
            PayloadKind.COLLECTION: [self._settings.members],
            PayloadKind.STREAM: [self._settings.streams],
            PayloadKind.STRING: [],
        }
        either = [self._settings.members, self._settings.streams]
        cap = min((cap for cap in caps.get(kind, either) if cap is not None), default=None)
        if cap is None or members <= cap:
            if kind is not PayloadKind.STRING:
                self._grow_whole(command, tuple(MEASURED), members, context)
            return PASS
        noun = "entries" if kind is PayloadKind.STREAM else "members"
        return self._refuse_derived(command, f"the payload has as many as {members} {noun}, {over(members, cap)}")

    def _grow_whole(self, command: Command, measures: Sequence[str], members: int, context: Context) -> None:
        # The members of the result are counted as added to its key, so that later writes are added to them.
        for key in command.keys:
            for measure in measures if key.write else ():
                self._grow(Growth(key.name, measure, members), context)

    def _unknown_sources(self, command: Command, reason: str) -> Pass | Refuse:
        if self._settings.unknown:
            return Pass(skipped=f"the size of the result is unknown: {reason}")
        return self._refuse_derived(command, f"{command.name} makes a collection of unknown size: {reason}")

    def _refuse_derived(self, command: Command, fault: str) -> Refuse:
        instead = "combine or copy smaller collections, or split the result over several keys"
        return self._refusals.of(fault, instead, command)

    def _unknown(self, reason: str) -> Pass:
        return Pass(skipped=f"the size is unknown: {reason}")

    def _refuse(self, command: Command, growth: Growth, size: int, cap: int) -> Refuse:
        kind, members = MEASURED[growth.measure]
        named = self._refusals.key(command, command.keys[0].index, kind)
        added = growth.members if growth.measure == "LLEN" else 0
        grows = f" and would get {added} more" if added else ""
        why = f"{named} has {size} {members}{grows}, {over(size + added, cap)}"
        own = "cap it with XADD MAXLEN" if kind == "stream" else f"remove {members}, or split it over several keys"
        return self._refusals.of(why, own, command)

    def lower(self, _spec: Spec, lowering: Lowering) -> None:
        """Everything is judged: sizes are kept by key."""
        lowering.judge()


def _trim(key: bytes, tail: bool, cap: int, reply: bytes, _: Sequence[bytes]) -> Sequence[Sequence[bytes]]:
    # The hidden commands behind a push with this reply line.
    if not reply.startswith(b":") or int(read_reply(reply)) <= cap:
        return ()
    kept = (b"%d" % -cap, b"-1") if tail else (b"0", b"%d" % (cap - 1))
    return ((b"LTRIM", key, *kept),)


def _too_large(growth: Growth, size: int, cap: int) -> bool:
    # Every element of a push is a new one; members of other writes may exist already.
    return size + growth.members > cap if growth.measure == "LLEN" else size > cap
