"""Commands that create a key but cannot state its TTL: a hidden command behind them sets it.

It needs proof that this command has created the key. An existing key without a TTL may have none on purpose:

    SUNIONSTORE, RENAME, MSET …   a whole new value, and so a new key: the reply says that it was written
    LPUSH, RPUSH                  a new list is as long as what was pushed
    INCR, HSET, SADD, XADD …      EXISTS runs right before, as one with the command
    EVAL, FCALL                   TTL runs right before: there was none, or it had a lifetime

RENAME, COPY and scripts do not tell the type of the key: if the rule is not about all types, TYPE runs right behind
them. A script may also remove the TTL of a key; then the key counts as new. An error proves nothing, so no hidden
command follows it, except for a script: what it wrote before it failed stays.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from proxy.commands.command import Command
from proxy.commands.creation import TYPES, created_keys, creation_of
from proxy.commands.row import UNKNOWN_TYPE, Creation
from proxy.commands.words import word_of
from proxy.rules.context import Context
from proxy.rules.lifetime.scope import LifetimeScope
from proxy.rules.lifetime.ttl_commands import TtlCommands
from proxy.rules.lifetime.ttl_options import Existing, TtlOptions, Unproven
from proxy.rules.lifetime.wording import LifetimeWording
from proxy.rules.verdict import PASS, Pass, Surround, Verdict

_MOST_KEYS = 128
"""The most keys of one command that get a TTL; a command that creates more is counted as skipped, or refused."""
_KEPT = Creation("string", null_is_nothing=False)  # with GET, a null means that the key did not exist
_ABOUT = ("EXPIRE for a new key", "EXISTS before it, and EXPIRE for a new key,")
_ABOUT_SCRIPT = "TTL before it, and EXPIRE for a key without one that is new or had one,"
_FOR_EVER = b":-1\r\n"


class Creations:
    """Judges the commands that create keys and cannot state a lifetime."""

    def __init__(
        self, scope: LifetimeScope, ttl_options: TtlOptions, ttl_commands: TtlCommands, words: LifetimeWording
    ) -> None:
        self._bounds_of = scope.bounds_of
        self._types = scope.types
        self._ttl_commands = ttl_commands
        self._words = words
        self._stamps_existing = ttl_options.existing_keys is Existing.STAMP
        self._refuses = ttl_options.without_proof is Unproven.REFUSE

    def judge(self, command: Command, context: Context) -> Verdict:
        """Follow a command that may create keys with hidden commands; PASS if no key needs a TTL."""
        creation = creation_of(command.spec)
        assert creation is not None, "asked only about commands that create"
        return self._judge(command, creation, context)

    def judge_kept(self, command: Command, context: Context) -> Verdict:
        """The same for SET with KEEPTTL, which keeps a key's TTL like any write into it."""
        return self._judge(command, _KEPT, context)

    def _judge(self, command: Command, creation: Creation, context: Context) -> Verdict:
        elsewhere = creation.takes_over and _goes_elsewhere(command.argv, context.database)
        if creation.takes_over and not elsewhere and len({key.name for key in command.keys}) == 1:
            return PASS  # RENAME k k leaves k as it is
        keys = []
        for name in created_keys(command, creation):
            bounds = self._bounds_of(name)
            if bounds is not None and bounds.gives:
                keys.append((name, bounds))
        if not keys:
            return PASS
        if any(bounds.given is None for _, bounds in keys):
            return self.unproven(command, "the command can't state a TTL")
        if elsewhere:
            return self.unproven(command, "the key appears in another database")
        if len(keys) > _MOST_KEYS:
            return self.unproven(command, f"the command writes more than {_MOST_KEYS} keys")
        stamped = [_Stamped(name, bounds.seconds(context.random()), bounds.sliding) for name, bounds in keys]
        return self._follow(command, creation, stamped)

    def _follow(self, command: Command, creation: Creation, keys: "Sequence[_Stamped]") -> Verdict:
        asks_type = creation.type == UNKNOWN_TYPE and not self._types.issuperset(TYPES)
        asks_before = not (creation.fresh or creation.counts_from or self._stamps_existing)
        obstacle = self._ttl_commands.proof_obstacle if asks_before or asks_type else self._ttl_commands.obstacle
        if obstacle:
            return self.unproven(command, obstacle)
        counted = len(command.argv) - creation.counts_from
        new_list = b":%d\r\n" % counted if creation.counts_from and not self._stamps_existing else b""
        conclude = _Conclusion(
            creation,
            keys,
            asks_before,
            self._types if asks_type else frozenset(),
            new_list,
            self._ttl_commands.stamp if self._stamps_existing and not creation.fresh else self._ttl_commands.give,
            self._ttl_commands.renew,
        )
        proof = b"TTL" if creation.by_script else b"EXISTS"
        return Surround(
            conclude,
            _ABOUT_SCRIPT if creation.by_script else _ABOUT[asks_before],
            before=[(proof, key.name) for key in keys] if asks_before else (),
            after=[(b"TYPE", key.name) for key in keys] if asks_type else (),
            otherwise=self._words.refuse_unproven(command) if self._refuses else None,
            after_error=creation.by_script,
        )

    def unproven(self, command: Command, why: str) -> Verdict:
        """The verdict on a command that may create a key, where nothing can be proved."""
        return self._words.refuse_unproven(command) if self._refuses else Pass(skipped=why)


def _goes_elsewhere(argv: Sequence[bytes], database: int) -> bool:
    # The last DB of a COPY counts.
    named = [number for option, number in pairwise(argv[3:]) if word_of(option) == b"DB"]
    return bool(named) and named[-1] != b"%d" % database


@dataclass(frozen=True, slots=True)
class _Stamped:
    """A key, its TTL in seconds, and whether uses renew the TTL."""

    name: bytes
    seconds: int
    sliding: bool


@dataclass(frozen=True, slots=True)
class _Conclusion:
    """The proof in the replies, and the hidden commands that follow from it.

    If `asked_before`, the lines begin with those of EXISTS or TTL. `types`, unless empty, are the types that the rule
    is about; then the lines of TYPE come last. `new_list` is the reply that only a new list gets.
    """

    creation: Creation
    keys: Sequence[_Stamped]
    asked_before: bool
    types: frozenset[str]
    new_list: bytes
    give: Callable[[bytes, int], list[bytes]]
    renew: Callable[[bytes, int], list[bytes]]

    def __call__(self, reply: bytes, lines: Sequence[bytes]) -> Sequence[Sequence[bytes]]:
        written = self.creation.may_have_written(reply)
        found = []
        for i, key in enumerate(self.keys):
            created = written and self._created(reply, lines[i] if self.asked_before else b"")
            if created and self._meant(lines, i - len(self.keys)):
                found.append(self.give(key.name, key.seconds))
            elif key.sliding:
                found.append(self.renew(key.name, key.seconds))
        return found

    def _created(self, reply: bytes, existed: bytes) -> bool:
        if self.asked_before:
            # An error proves nothing: only a number does.
            ended = existed.startswith(b":") and existed != _FOR_EVER
            return ended if self.creation.by_script else existed == b":0\r\n"
        return not self.new_list or reply == self.new_list

    def _meant(self, lines: Sequence[bytes], place: int) -> bool:
        if not self.types:
            return True
        kind = lines[place][1:-2].decode("ascii", "replace")
        return (kind if kind in TYPES else "other") in self.types and kind != "none"
