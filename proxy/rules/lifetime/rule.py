"""TTLs: a default for keys that are created without one, and bounds for stated ones.

If possible, Keyrail adds the TTL to the command that writes, so that it is atomic and one reply stays one reply:

    SET k v [NX|XX] [GET]    ->  SET k v … EX n           the same reply
    SETNX k v                ->  SET k v NX EX n          +OK becomes :1, null becomes :0, an error stays
    GETSET k v               ->  SET k v EX n GET         the same reply
    MSET, MSETNX             ->  MSETEX … [NX] EX n       where the engine has it; :1 becomes +OK for MSET
    RESTORE k 0 data         ->  RESTORE k n data         the same reply

Behind any other command that creates a key, a hidden command sets the TTL if the reply proves that this command has
created the key: see ``creations``. A command with an unknown option is not changed and counted as skipped, since the
option might be about the TTL. Options start behind the value, so a *value* "EX" is not an option.

If an application states a TTL outside of the bounds, the rule refuses it or changes the number. A number that is no
lifetime (0, a time in the past) deletes the key or is an error; Redis answers it.

If a value is streamed and is not the last argument, the number of arguments is already sent, so no TTL can be added.
Then the write is refused, because the rule must not let a key without a TTL through.

Jitter spreads the TTL evenly over default ± jitter, in whole seconds and at least one, so that keys written together do
not expire together. A plan takes these TTLs in turn from a list of random ones. The policy may spread TTLs that
applications state, too.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from proxy.commands.command import Command
from proxy.commands.creation import ELSEWHERE, TYPES, creation_of
from proxy.commands.expiry import (
    RESTORES,
    WITH_TTL,
    StatedExpiry,
    Unstated,
    dumped_type,
    may_omit_expiry,
    may_persist,
    persists,
    plain_forms,
    read_expiry,
    states_expiry,
)
from proxy.commands.table import Spec
from proxy.commands.words import word_of
from proxy.rules.context import Context
from proxy.rules.judged_by import JudgedBy
from proxy.rules.lifetime.creations import Creations
from proxy.rules.lifetime.planned_ttls import LONG, PlannedTtls
from proxy.rules.lifetime.reply_edits import reply_of_mset, reply_of_setnx
from proxy.rules.lifetime.scope import LifetimeScope
from proxy.rules.lifetime.stored import faults_of, stored_fault, ttl_of_stored
from proxy.rules.lifetime.ttl_commands import NEEDS, TtlCommands
from proxy.rules.lifetime.ttl_options import Outside, Persist, TtlOptions, Unproven
from proxy.rules.lifetime.uses import Uses
from proxy.rules.lifetime.wording import LifetimeWording
from proxy.rules.lowering import Lowering
from proxy.rules.plan_checks import UNLIMITED, EntryCheck
from proxy.rules.request_edits import Append
from proxy.rules.rule import Binding, Needs, Rule, Wording, takes
from proxy.rules.stored import Fault, StoredFault, StoredKey
from proxy.rules.verdict import PASS, Rewrite, Verdict
from proxy.schema.bounds import Bounds, spread

_OTHER_REPLY = frozenset({"SETNX"})
"""The reply edits for commands that SET replaces and that have another reply."""
_UNKNOWN = 0

_Judge: TypeAlias = Callable[["Lifetime", Command, Context], Verdict]


class Lifetime(Rule):
    """The lifetimes of keys."""

    def __init__(
        self, name: str, scope: LifetimeScope, ttl_options: TtlOptions, wording: Wording, binding: Binding
    ) -> None:
        self.name = name
        self._scope = scope
        self._ttl_options = ttl_options
        self._words = LifetimeWording(name, wording, binding)
        self._can_send = binding.can_send
        self._container_of = binding.table.container_of
        self._set = binding.table.find("SET")
        self._planned_ttls = PlannedTtls(self._set, binding.seed)
        self._msetex = binding.table.find("MSETEX")
        self._ttl_commands = TtlCommands(binding)
        self._uses = Uses(scope, self._ttl_commands)
        self._on_persist = {ttl_options.on_persist(bounds) for bounds in scope.places if bounds is not None}
        self._creations = Creations(scope, ttl_options, self._ttl_commands, self._words)
        places, owners = scope.places, scope.schema.automaton
        all_pass = (UNLIMITED,) * len(places)
        self._all_pass = EntryCheck(owners, all_pass, all_pass, all_pass)
        reads = tuple(0 if bounds is not None and bounds.sliding else UNLIMITED for bounds in places)
        writes = tuple(0 if bounds is not None else UNLIMITED for bounds in places)
        self._spoken_of = EntryCheck(owners, reads, writes, all_pass)
        self._appends: dict[int, tuple[Append | None, ...]] = {}  # all apps share a rule, and a schema may be large
        # Functions, since methods would refer to the rule: then only the garbage collector could free it.
        self._judges: dict[int, _Judge | None] = {}
        self.needs = Needs(self._needed())

    def _needed(self) -> frozenset[str]:
        needs = frozenset({*WITH_TTL, *WITH_TTL.values(), *NEEDS}) if self._scope.gives else frozenset[str]()
        if self._scope.slides or Persist.CLAMP in self._on_persist:
            needs |= {"EXPIRE", "EVAL"}
        return needs

    def _judge_of(self, spec: Spec) -> _Judge | None:
        # Found when a command is first asked about: a policy may have hundreds of lifetimes.
        if spec.id not in self._judges:
            self._judges[spec.id] = self._find_judge(spec)
        return self._judges[spec.id]

    def _find_judge(self, spec: Spec) -> _Judge | None:
        scope, creation = self._scope, creation_of(spec)
        if spec.id == _UNKNOWN or spec.name in ELSEWHERE or (spec.creates and creation is None):
            return Lifetime._judge_untold if scope.gives else None
        if states_expiry(spec):
            return Lifetime._judge_stating if self._concerns_stated(spec) else None
        if creation is not None and scope.gives and scope.means(creation.type):
            return Lifetime._judge_replaced if spec.name in WITH_TTL else Lifetime._judge_creating
        return Lifetime._judge_using if scope.slides and self._uses.concerns(spec) else None

    def _concerns_stated(self, spec: Spec) -> bool:
        scope, creation = self._scope, creation_of(spec)
        takes_away = self._on_persist != {Persist.ALLOW}
        if persists(spec):
            return takes_away
        if may_persist(spec):
            return scope.weighs or scope.slides or takes_away
        gives = scope.gives and may_omit_expiry(spec)
        return (scope.weighs or gives) and (creation is None or scope.means(creation.type))

    def touches(self, spec: Spec) -> bool:
        """Commands that create keys, state or remove a TTL, or, with sliding TTLs, use a key."""
        return self._judge_of(spec) is not None

    def judge(self, command: Command, context: Context) -> Verdict:
        """Rewrite or refuse a command, or follow it with hidden commands; PASS if its keys get no wrong TTL."""
        if command.spec.id != _UNKNOWN and not takes(command.spec, len(command.argv)):
            return PASS
        judge = self._judge_of(command.spec)
        verdict = PASS if judge is None else judge(self, command, context)
        if isinstance(verdict, Rewrite) and command.streamed is not None and command.streamed < len(command.argv) - 1:
            return self._words.refuse_streamed(command)
        return verdict

    def judge_call(self, command: Command, context: Context) -> Verdict:
        """The same for a call of a script, which cannot be changed. If the rule would change a TTL, the call counts as
        unproven. Hidden commands behind the script give new keys their TTLs."""
        verdict = self.judge(command, context)
        if not isinstance(verdict, Rewrite):
            return verdict
        expiry = read_expiry(command) if states_expiry(command.spec) else None
        if self._ttl_options.without_proof is Unproven.REFUSE:
            if expiry is Unstated.PERSISTS:
                return self._words.refuse_persist(command)
            if isinstance(expiry, StatedExpiry):
                return self._judge_stated_by_script(command, expiry, context)
        return PASS

    def _judge_stated_by_script(self, command: Command, stated: StatedExpiry, context: Context) -> Verdict:
        found = self._bounds_of(command)
        stated_for = stated.milliseconds(command.argv, context.now)
        if stated_for is None or all(bounds.nearest(stated_for) == stated_for for bounds in found):
            return PASS  # the rule would only vary it by jitter
        return self._words.refuse_outside(command, stated, found, stated_for)

    def _judge_untold(self, command: Command, _context: Context) -> Verdict:
        if command.spec.id == _UNKNOWN and self._container_of(command.argv) is not None:
            return PASS  # a new subcommand of CLIENT or a similar container, which has no keys
        keys = command.keys if command.spec.id != _UNKNOWN else ()
        if keys and not any(bounds.gives for bounds in self._bounds_of(command)):
            return PASS
        why = ELSEWHERE.get(command.spec.name, "Keyrail does not know what the command does to keys")
        return self._creations.unproven(command, why)

    def _judge_creating(self, command: Command, context: Context) -> Verdict:
        return self._creations.judge(command, context)

    def _judge_using(self, command: Command, context: Context) -> Verdict:
        return self._uses.judge(command, context)

    def _bounds_of(self, command: Command) -> list[Bounds]:
        found = (self._scope.bounds_of(key.name) for key in command.keys)
        return [bounds for bounds in found if bounds is not None]

    # Commands that can state a lifetime

    def _judge_stating(self, command: Command, context: Context) -> Verdict:
        found = self._bounds_of(command)
        if not found:
            return PASS
        expiry = read_expiry(command)
        if isinstance(expiry, StatedExpiry):
            return self._judge_stated(command, expiry, found, context)
        if expiry is Unstated.UNREADABLE:
            return self._creations.unproven(command, f"{command.name} has an unknown option")
        if expiry is Unstated.PERSISTS:
            return self._judge_persist(command, found[0])
        if may_persist(command.spec):
            return self._uses.judge(command, context)
        if not any(bounds.gives for bounds in found):
            return PASS
        if expiry is Unstated.KEEPS:
            return self._creations.judge_kept(command, context)
        if command.spec.name in RESTORES:
            return self._judge_restored(command, found[0], context)
        return self._judge_unstated(command, found, context)

    def _judge_stated(self, command: Command, stated: StatedExpiry, found: list[Bounds], context: Context) -> Verdict:
        stated_for = stated.milliseconds(command.argv, context.now)
        if stated_for is None:
            return PASS
        allowed = stated_for
        for bounds in found:
            allowed = bounds.nearest(allowed)
        if allowed != stated_for and self._ttl_options.outside is Outside.REFUSE:
            return self._words.refuse_outside(command, stated, found, stated_for)
        allowed = _varied(command, stated, found, allowed, context)
        if allowed == stated_for:
            return PASS
        argv = list(command.argv)
        argv[stated.index] = stated.number(allowed, context.now, up=allowed > stated_for)
        return Rewrite(argv, None, command.spec)

    def _judge_persist(self, command: Command, bounds: Bounds) -> Verdict:
        persist = self._ttl_options.on_persist(bounds)
        if persist is Persist.ALLOW:
            return PASS
        longest = bounds.longest
        if persist is Persist.REFUSE or longest is None:
            return self._words.refuse_persist(command)
        if may_persist(command.spec):
            plain = all(word_of(option) == b"PERSIST" for option in command.argv[2:])
            return Rewrite(command.argv[:2], None, command.spec) if plain else PASS
        if self._ttl_commands.obstacle:
            return self._words.refuse_persist(command)
        return Rewrite(self._ttl_commands.change(command.argv[1], longest))

    def _judge_unstated(self, command: Command, found: list[Bounds], context: Context) -> Verdict:
        if any(bounds.required for bounds in found):
            return self._words.refuse_unstated(command)
        if any(bounds != found[0] for bounds in found) or len(found) < len(command.keys):
            return self._creations.judge(command, context)
        return Rewrite([*command.argv, *_expiry(found[0], context)], None, command.spec)

    def _judge_restored(self, command: Command, bounds: Bounds, context: Context) -> Verdict:
        kind = dumped_type(command.argv[3])
        if kind is None and not self._scope.types.issuperset(TYPES):
            return self._creations.unproven(command, "Keyrail does not know the type of the restored value")
        if kind is not None and kind not in self._scope.types:
            return PASS
        if bounds.required:
            return self._words.refuse_unstated(command)
        absolute = any(word_of(argument) == b"ABSTTL" for argument in command.argv[4:])
        argv = list(command.argv)
        argv[2] = StatedExpiry(2, 1, absolute).number(bounds.seconds(context.random()) * 1000, context.now, up=False)
        return Rewrite(argv, None, command.spec)

    # Commands that another command replaces, which states it

    def _judge_replaced(self, command: Command, context: Context) -> Verdict:
        found = [bounds for bounds in self._bounds_of(command) if bounds.gives]
        if not found:
            return PASS
        if any(bounds.required for bounds in found):
            return self._words.refuse_unstated(command)
        name, argv = command.spec.name, command.argv
        if not self._can_send(name):
            return self._creations.judge(command, context)  # this user may not send the other command
        if WITH_TTL[name] == "SET" and self._can_send("SET"):
            if name == "SETNX":
                return Rewrite([b"SET", *argv[1:], b"NX", *_expiry(found[0], context)], reply_of_setnx, self._set)
            return Rewrite([b"SET", *argv[1:], *_expiry(found[0], context), b"GET"], None, self._set)
        if WITH_TTL[name] == "MSETEX" and self._fits_msetex(command, found):
            added = [b"NX", *_expiry(found[0], context)] if name == "MSETNX" else _expiry(found[0], context)
            edit = reply_of_mset if name == "MSET" else None
            return Rewrite([b"MSETEX", b"%d" % len(command.keys), *argv[1:], *added], edit, self._msetex)
        return self._creations.judge(command, context)

    def _fits_msetex(self, command: Command, found: list[Bounds]) -> bool:
        pairs, odd = divmod(len(command.argv) - 1, 2)
        return (
            self._can_send("MSETEX")
            and self._msetex is not None
            and command.streamed is None
            and not odd
            and len(found) == pairs
            and all(bounds == found[0] for bounds in found)
        )

    def judge_stored(self, key: StoredKey) -> StoredFault | None:
        """By the bounds for the key and its type (``stored``)."""
        return stored_fault(self._scope, key)

    @property
    def stored_faults(self) -> frozenset[Fault]:
        return faults_of(self._scope)

    def ttl_of_stored(self, key: StoredKey, chance: float) -> int | None:
        """By the same bounds, with their jitter (``stored``)."""
        return ttl_of_stored(self._scope, key, chance)

    # The plan

    def judged_by(self, spec: Spec) -> JudgedBy:
        """The options alone, if the rule is about every key, has no bounds for what is stated, and the command has one
        key: of several, some may be the same."""
        if spec.name in RESTORES:
            return JudgedBy.DATA
        every_key = self._scope.matches is None and len(set(self._scope.places)) == 1
        weighs = self._scope.weighs and states_expiry(spec)
        return JudgedBy.FORM if every_key and not weighs and spec.has_one_key else JudgedBy.NAMES

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        """The plan adds EX to a bare SET and to GETSET, which becomes a SET. It passes a TTL within the bounds, and
        commands with keys that the rule is not about. All other commands are judged."""
        places, append = self._scope.places, self._planned(spec)
        if self._scope.matches is not None or spec.id == _UNKNOWN or spec.name in ELSEWHERE:
            lowering.judge()
        elif len(places) > 1 and append is not None:
            lowering.append_by_entry(self._all_pass, self._appends_of(spec, append))
        elif len(places) > 1 and spec.may_have_keys:
            lowering.check_entries(self._spoken_of)
        elif append is not None and (only := self._appends_of(spec, append)[0]) is not None:
            lowering.append(only)
        else:
            lowering.judge()

    def _appends_of(self, spec: Spec, append: Callable[[Bounds], Append]) -> tuple[Append | None, ...]:
        if spec.id not in self._appends:
            made = {bounds: None if bounds is None else append(bounds) for bounds in set(self._scope.places)}
            self._appends[spec.id] = tuple(made[bounds] for bounds in self._scope.places)
        return self._appends[spec.id]

    def _planned(self, spec: Spec) -> Callable[[Bounds], Append] | None:
        # The arguments that the plan can append to the command, by the bounds of its key.
        forms = plain_forms(spec)
        if forms:
            return partial(self._planned_ttls.append, spec, forms)
        replaced = self._judge_of(spec) is Lifetime._judge_replaced and WITH_TTL[spec.name] == "SET"
        if replaced and spec.name not in _OTHER_REPLY and self._can_send(spec.name) and self._can_send("SET"):
            return self._planned_ttls.append_under_set
        return None


def _varied(command: Command, stated: StatedExpiry, found: list[Bounds], milliseconds: int, context: Context) -> int:
    """A stated lifetime, with the jitter of its keys' bounds. A point in time is not varied, nor the number of a
    streamed command, which is already sent."""
    jitter = min(bounds.jitter_stated for bounds in found)
    if not jitter or stated.moment or command.streamed is not None or milliseconds > LONG:
        return milliseconds
    varied = max(1, round(spread(milliseconds / stated.scale, jitter, context.random()))) * stated.scale
    for bounds in found:
        varied = bounds.nearest(varied)
    return varied


def _expiry(bounds: Bounds, context: Context) -> tuple[bytes, bytes]:
    return b"EX", b"%d" % bounds.seconds(context.random())
