"""A cap on the size of collections: the fields, elements or members of a key, and the entries of a stream.

Arguments do not tell how large a collection is, but some replies do: LPUSH and RPUSH answer with the new length, and
Keyrail reads it. For a share of the other writes it looks the size up (HLEN, SCARD, ZCARD, XLEN), on its own connection
while the write goes on, so that no client waits. Each worker adds the members that later writes may have added to the
last known size (or to 0). If that sum is over the cap, the next write waits for a look-up. So one worker exceeds the
cap by at most its writes in flight; it sees the writes of other workers and other clients of Redis at its next look-up.
If a collection is too large, writes to it are refused while its size is trusted. Then the next write waits for a
look-up, and passes if the collection has become smaller. A write of more members than the cap is refused.

Several rules may have a cap for the same collection (``collections``, and the entries of a schema). They share the
sizes and the counts, so one look-up serves all of them, and the smallest cap counts.

The policy may trim lists: then a push passes, and if its reply says that the list is too long, a hidden LTRIM follows.
It keeps the end of the push; elements at the other end are lost.

A push is refused if it is known to make a list too long. An XADD passes if it trims its stream to the cap itself
(MAXLEN without a LIMIT).

A command that writes a whole collection (SUNIONSTORE and similar commands, SORT with STORE, COPY, RENAME, MOVE) could
exceed the cap of its destination in one step. So it always waits until the sizes of its sources are looked up, and is
refused if the result may be too large. If sizes cannot be looked up, above all inside MULTI, the policy decides: the
command passes and is counted as skipped, or it is refused. A RESTORE is judged by the headers of its payload.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from proxy.commands.command import Command
from proxy.commands.derived import DERIVED, destinations_of, most_derived, sources_of
from proxy.commands.error_texts import NO_SIZE
from proxy.commands.growth import GROWING, MEASURED, PUSHES, TOLD, Growth, adds_entries, growth_of, kept_by_trimming
from proxy.commands.payload import PayloadKind
from proxy.commands.spec import Spec
from proxy.commands.values import RESTORES, payload_of
from proxy.rules.collections.caps import Cap, Caps, CommandNotes, SharedSizes, notes_of
from proxy.rules.context import Context
from proxy.rules.lowering import Lowering
from proxy.rules.refusals import Refusals, over
from proxy.rules.rule import Binding, Needs, Rule, RuleSettings, Wording
from proxy.rules.sizes_known import KnownSizes
from proxy.rules.stored import Fault, StoredFault, StoredKey
from proxy.rules.stored_sizes import COLLECTIONS, may_have_over, size_fault
from proxy.rules.verdict import PASS, InspectReply, Pass, Procedure, Refuse, Steps, Surround, Verdict
from proxy.wire.decode import read_reply

_PATIENCE = 1.0
"""Seconds that a client may wait for the size of a collection that was too large at the last look-up."""
_A_DAY = 86_400
_GOLDEN = 0.6180339887498949
_SPLIT = "split it over several keys"


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

    @property
    def beyond_acl(self) -> str:
        return "an ACL does not know what is stored"

    def bind(self, name: str, wording: Wording, binding: Binding) -> "Collections":
        return Collections(name, self, _OneCap(self), (self.sample, self.remember), wording, binding)


class _OneCap:
    """One cap for all collections, and one for all streams."""

    def __init__(self, settings: CollectionsSettings) -> None:
        self.trims = settings.trim
        self._caps = tuple(
            None if most is None else Cap(most, settings.trim, settings.unknown)
            for most in (settings.members, settings.streams)
        )

    def about(self, stream: bool) -> bool:
        return self._caps[stream] is not None

    def of(self, _key: bytes, stream: bool) -> Cap | None:
        return self._caps[stream]

    def lower(self, _spec: Spec, lowering: Lowering) -> None:
        """Everything is judged: sizes are kept by key."""
        lowering.judge()


class _OwnState:
    """The collections that were over this rule's caps at their last look-up, and the turn of the next look-up."""

    def __init__(self) -> None:
        self.large = KnownSizes(_A_DAY)
        self._turn = 0.0

    def next_turn(self) -> float:
        """A number in [0, 1), evenly spread, so that a share of the turns is a share of the writes to each key."""
        self._turn = (self._turn + _GOLDEN) % 1.0
        return self._turn


class Collections(Rule):
    """The caps of one rule. `sampling` is the share of writes with a look-up, and for how long a size is trusted."""

    def __init__(
        self,
        name: str,
        settings: RuleSettings,
        caps: Caps,
        sampling: tuple[float, int],
        wording: Wording,
        binding: Binding,
    ) -> None:
        self.name = name
        self._caps = caps
        self._sample, self._remember = sampling
        self._refusals = Refusals(name, wording, binding)
        self.needs = Needs(frozenset({"LTRIM"})) if caps.trims else Needs()
        self._may_trim = caps.trims and binding.can_send("LTRIM")
        self._sizes = binding.memory.shared(SharedSizes)
        self._own = binding.memory.of(name, settings, _OwnState)

    def touches(self, spec: Spec) -> bool:
        """Commands that make a collection grow, or write a whole collection."""
        if spec.name in RESTORES:
            return self._caps.about(False) or self._caps.about(True)
        if spec.name in DERIVED:
            return self._caps.about(False) or (self._caps.about(True) and "XLEN" in DERIVED[spec.name].measures)
        return spec.name in GROWING and self._caps.about(adds_entries(spec.name))

    def judge(self, command: Command, context: Context) -> Verdict:
        """Refuse a write to a collection that is too large; read the reply, look the size up, or wait for it."""
        return self._judge(command, context, may_trim=self._may_trim)

    def judge_call(self, command: Command, context: Context) -> Verdict:
        """As ``judge``, but no LTRIM can follow a push in a script, so a push to a list that is full is refused."""
        return self._judge(command, context, may_trim=False)

    def _judge(self, command: Command, context: Context, *, may_trim: bool) -> Verdict:
        if command.spec.name in DERIVED:
            return self._judge_derived(command, context)
        if command.spec.name in RESTORES:
            return self._judge_restored(command, context)
        growth = growth_of(command)
        cap = None if growth is None else self._caps.of(growth.key, adds_entries(command.spec.name))
        if growth is None or cap is None:
            return PASS
        kept = kept_by_trimming(command)
        if kept is not None and kept <= cap.most:
            return PASS
        if may_trim and cap.trims and command.spec.name in PUSHES:
            trim = partial(self._trim, command, growth, context, cap.most)
            return Surround(trim, f"LTRIM to {cap.most} elements")
        if growth.members > cap.most:
            return self._refuse_many(command, growth, cap)
        return self._judge_growth(command, growth, context, cap)

    def _judge_growth(self, command: Command, growth: Growth, context: Context, cap: Cap) -> Verdict:
        keyspace, now, notes = context.keyspace, context.now, notes_of(command)
        if notes.untold:
            return PASS
        size = self._sizes.find(keyspace, growth.measure, growth.key, now, self._remember)
        if size is not None and _too_large(growth, size, cap.most):
            self._own.large.learn(keyspace, growth.measure, growth.key, size, now)
            return self._refuse(command, growth, size, cap)
        # Members that are counted from here on may be added after the look-up.
        mine = growth.members if notes.counted else 0
        before = self._sizes.written(keyspace, growth.measure, growth.key) - mine
        due = self._may_be_too_large(growth, context, cap.most, mine, known=size is not None)
        if due and (not context.no_wait or context.in_transaction):
            notes.awaited = True
            steps = partial(self._steps, command, growth, context, cap, before, waits=True)
            return Procedure(steps, _PATIENCE, partial(self._goes_on_unknown, notes, growth, context))
        self._count(notes, growth, context)
        if notes.asked:
            return PASS
        if command.spec.name in TOLD:
            notes.asked = True
            return InspectReply(partial(self._listen, notes, growth, context, cap.most, before + growth.members))
        # A command that cannot wait passes, and the size that it makes Keyrail look up is for those after it. Inside
        # MULTI a look-up would not see the writes that are queued, and counted.
        if not context.in_transaction and (due or (size is None and self._own.next_turn() < self._sample)):
            notes.asked = True
            steps = partial(self._steps, command, growth, context, cap, before, waits=False)
            return Procedure(steps, _PATIENCE, self._unknown, waits=False)
        return PASS

    def _may_be_too_large(self, growth: Growth, context: Context, most: int, mine: int, *, known: bool) -> bool:
        # By the members written since the last size, but for its own, or because it was too large then and there was no
        # look-up since.
        keyspace = context.keyspace
        if _too_large(growth, self._sizes.at_most(keyspace, growth.measure, growth.key) - mine, most):
            return True
        return not known and self._own.large.find(keyspace, growth.measure, growth.key, context.now) is not None

    def _count(self, notes: CommandNotes, growth: Growth, context: Context) -> None:
        if not notes.counted:
            notes.counted = True
            self._sizes.grow(context.keyspace, growth.measure, growth.key, growth.members)

    def _goes_on_unknown(self, notes: CommandNotes, growth: Growth, context: Context, reason: str) -> Pass:
        notes.awaited = False
        self._count(notes, growth, context)
        return self._unknown(reason)

    def _learn(self, growth: Growth, context: Context, size: int, most: int, before: int) -> None:
        """Note the size of a collection; it includes the first `before` counted members. A write would grow it by
        `growth`."""
        keyspace = context.keyspace
        self._sizes.learn(keyspace, growth.measure, growth.key, size, context.now, before)
        if _too_large(growth, size, most):
            self._own.large.learn(keyspace, growth.measure, growth.key, size, context.now)
        else:
            self._own.large.forget(keyspace, growth.measure, growth.key)

    def _steps(
        self, command: Command, growth: Growth, context: Context, cap: Cap, before: int, *, waits: bool
    ) -> Steps:
        notes = notes_of(command)
        if notes.awaited and not waits:
            return PASS  # a later rule looks the same size up, and waits for it
        notes.asked = True
        replies: Sequence[bytes] = yield [(growth.measure.encode(), growth.key)]
        if not replies[0].startswith(b":"):
            # The count starts again, or each write would wait for what Redis does not tell.
            notes.untold = True
            self._sizes.forget(context.keyspace, growth.measure, growth.key)
            return PASS if NO_SIZE.begin(replies[0]) else self._unknown("Redis does not tell this user")
        size = int(read_reply(replies[0]))
        self._learn(growth, context, size, cap.most, before)
        if _too_large(growth, size, cap.most):
            return self._refuse(command, growth, size, cap)
        if waits:
            self._count(notes, growth, context)
        return PASS

    def _listen(
        self, notes: CommandNotes, growth: Growth, context: Context, most: int, before: int, reply: bytes
    ) -> str:
        # The length includes the elements of this push; the next push adds at least one.
        if reply.startswith(b":") and (size := int(read_reply(reply))) > 0:
            size = size if notes.trimmed is None else min(size, notes.trimmed)
            self._learn(growth._replace(members=1), context, size, most, before)
        return ""

    def _trim(
        self, command: Command, growth: Growth, context: Context, most: int, reply: bytes, _: Sequence[bytes]
    ) -> Sequence[Sequence[bytes]]:
        # The hidden commands behind a push with this reply line. Another rule may learn the length from the same reply.
        if not reply.startswith(b":") or int(read_reply(reply)) <= most:
            return ()
        notes_of(command).trimmed = most
        self._sizes.learn(context.keyspace, growth.measure, growth.key, most, context.now)
        kept = (b"%d" % -most, b"-1") if PUSHES[command.spec.name] == "tail" else (b"0", b"%d" % (most - 1))
        return ((b"LTRIM", growth.key, *kept),)

    # Commands that write a whole collection

    def _smallest(self, keys: Sequence[bytes], streams: Sequence[bool]) -> Cap | None:
        """The smallest cap of these keys, whatever of these their values are."""
        caps = (self._caps.of(key, stream) for key in keys for stream in streams)
        return min((cap for cap in caps if cap is not None), key=lambda cap: cap.most, default=None)

    def _judge_derived(self, command: Command, context: Context) -> Verdict:
        sources, whole = sources_of(command), DERIVED[command.spec.name]
        streams = (False, True) if "XLEN" in whole.measures else (False,)
        cap = self._smallest(destinations_of(command), streams)
        if not sources or cap is None:
            return PASS
        told = notes_of(command).told
        if told is not None:
            return self._judge_told(command, sources, told, context)
        steps = partial(self._derived_steps, command, sources, context)
        return Procedure(steps, _PATIENCE, partial(self._unknown_sources, command, cap))

    def _derived_steps(self, command: Command, sources: Sequence[bytes], context: Context) -> Steps:
        notes = notes_of(command)
        if notes.told is None:
            measures = DERIVED[command.spec.name].measures
            replies = yield [(measure.encode(), key) for key in sources for measure in measures]
            notes.told = tuple(replies)
        return self._judge_told(command, sources, notes.told, context)

    def _judge_told(
        self, command: Command, sources: Sequence[bytes], replies: Sequence[bytes], context: Context
    ) -> Pass | Refuse:
        whole, keys = DERIVED[command.spec.name], destinations_of(command)
        sizes: list[int] = []
        stream = False
        for i in range(0, len(sources) * len(whole.measures), len(whole.measures)):
            told = dict(zip(whole.measures, replies[i : i + len(whole.measures)], strict=True))
            known = {measure: int(read_reply(reply)) for measure, reply in told.items() if reply.startswith(b":")}
            if not known and not all(NO_SIZE.begin(reply) for reply in told.values()):
                cap = self._smallest(keys, (False, True))
                return PASS if cap is None else self._unknown_sources(command, cap, "Redis does not tell this user")
            sizes.append(max(known.values(), default=0))
            stream = stream or known.get("XLEN", 0) > 0
        cap, most = self._smallest(keys, (stream,)), most_derived(command, sizes)
        if cap is None or most <= cap.most:
            self._count_whole(command, whole.measures if whole.takes_over else whole.measures[:1], most, context)
            return PASS
        members = "entries" if stream else "members"
        return self._refuse_derived(command, cap, f"{command.name} can make a collection of {most} {members}", most)

    def _judge_restored(self, command: Command, context: Context) -> Verdict:
        kind, _, members = payload_of(command)
        streams = {PayloadKind.COLLECTION: (False,), PayloadKind.STREAM: (True,), PayloadKind.STRING: ()}
        keys = [key.name for key in command.keys]
        cap = self._smallest(keys, streams.get(kind, (False, True)))
        if cap is None or members <= cap.most:
            if kind is not PayloadKind.STRING:
                self._count_whole(command, tuple(MEASURED), members, context)
            return PASS
        noun = "entries" if kind is PayloadKind.STREAM else "members"
        return self._refuse_derived(command, cap, f"the payload has as many as {members} {noun}", members)

    def _count_whole(self, command: Command, measures: Sequence[str], members: int, context: Context) -> None:
        # The members of the result are counted as added to its key, so that later writes are added to them.
        notes = notes_of(command)
        if notes.counted:
            return
        notes.counted = True
        for key in command.keys:
            for measure in measures if key.write else ():
                self._sizes.grow(context.keyspace, measure, key.name, members)

    def _unknown_sources(self, command: Command, cap: Cap, reason: str) -> Pass | Refuse:
        if cap.unknown:
            return Pass(skipped=f"the size of the result is unknown: {reason}")
        return self._refuse_derived(command, cap, f"{command.name} makes a collection of unknown size: {reason}")

    def _refuse_derived(self, command: Command, cap: Cap, fault: str, members: int | None = None) -> Refuse:
        instead = "combine or copy smaller collections, or split the result over several keys"
        by = "" if members is None else f", {over(members, cap.most)}"
        return self._refusals.of(f"{fault}{by}{_of_owner(cap)}", instead, command, owner=cap.owner)

    def _unknown(self, reason: str) -> Pass:
        return Pass(skipped=f"the size is unknown: {reason}")

    def _refuse_many(self, command: Command, growth: Growth, cap: Cap) -> Refuse:
        named, members = self._named(command, growth)
        why = f"the command writes {growth.members} {members} to {named}, {over(growth.members, cap.most)}"
        instead = f"{_SPLIT} of at most {cap.most} {members} each"
        return self._refusals.of(f"{why}{_of_owner(cap)}", instead, command, owner=cap.owner)

    def _refuse(self, command: Command, growth: Growth, size: int, cap: Cap) -> Refuse:
        named, members = self._named(command, growth)
        added = growth.members if growth.measure == "LLEN" else 0
        grows = f" and would get {added} more" if added else ""
        why = f"{named} has {size} {members}{grows}, {over(size + added, cap.most)}{_of_owner(cap)}"
        own = "cap it with XADD MAXLEN" if growth.measure == "XLEN" else f"remove {members}, or {_SPLIT}"
        return self._refusals.of(why, own, command, owner=cap.owner)

    def _named(self, command: Command, growth: Growth) -> tuple[str, str]:
        """The collection, and what its members are called. Of the same key twice (LMOVE a a), the second one grows."""
        kind, members = MEASURED[growth.measure]
        index = [key.index for key in command.keys if key.name == growth.key][-1]
        return self._refusals.key(command, index, kind), members

    def judge_stored(self, key: StoredKey) -> StoredFault | None:
        """A collection with more members than its cap."""
        cap = self._stored_cap(key)
        return None if cap is None else size_fault(key, cap.most, _of_owner(cap))

    @property
    def stored_faults(self) -> frozenset[Fault]:
        return frozenset({Fault.TOO_LARGE})

    def members_wanted(self, key: StoredKey) -> bool:
        """The members of a collection whose memory allows more than its cap."""
        cap = self._stored_cap(key)
        return cap is not None and may_have_over(key, cap.most)

    def _stored_cap(self, key: StoredKey) -> Cap | None:
        return self._caps.of(key.name, key.type == "stream") if key.type in COLLECTIONS else None

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        """As the caps say."""
        self._caps.lower(spec, lowering)


def _of_owner(cap: Cap) -> str:
    return "" if cap.owner is None else f" for {cap.owner.described}"


def _too_large(growth: Growth, size: int, cap: int) -> bool:
    # Every element of a push is a new one; members of other writes may exist already.
    return size + growth.members > cap if growth.measure == "LLEN" else size > cap
