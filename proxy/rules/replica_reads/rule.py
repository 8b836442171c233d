"""Reads of keys whose value may be a moment old: a replica may answer them.

The rule says which reads, and how far behind a replica may be. Which replica answers is decided when the command is
sent: one whose lag is known and within the bound, and that has everything this client has written and read before.
Without such a replica the primary answers.

A command belongs to the rule if all of its keys match; SORT_RO that finds further ones by patterns does not. Where
several rules match all of its keys, each counts it, and the smallest lag of the enforced ones holds.
"""

from dataclasses import dataclass

from proxy.commands.cached_reads import reads_no_others
from proxy.commands.command import Command
from proxy.commands.replica_reads import reads_others, served_by_replicas
from proxy.commands.spec import Spec
from proxy.commands.tenant_commands import goes_at_once
from proxy.hotpath.plan.replica_reads import ReplicaTerms
from proxy.rules.context import Context
from proxy.rules.judged_by import JudgedBy
from proxy.rules.key_globs import KeyGlob
from proxy.rules.lowering import Lowering
from proxy.rules.rule import KEY_BY_KEY, Binding, InScripts, Needs, Rule, RuleSettings, Wording
from proxy.rules.verdict import PASS, FromReplica, Verdict


@dataclass(frozen=True, slots=True)
class ReplicaReadsSettings(RuleSettings):
    """The keys (globs), the most seconds that a replica may be behind, and whether replicas of Keyrail's own zone come
    first."""

    keys: tuple[str, ...]
    max_lag: int = 1
    same_zone: bool = False

    @property
    def moves_reads(self) -> bool:
        return True

    @property
    def prefers_zone(self) -> bool:
        return self.same_zone

    @property
    def takes(self) -> frozenset[str]:
        """Its keys are its own."""
        return KEY_BY_KEY

    @property
    def beyond_acl(self) -> str:
        return ""

    def bind(self, name: str, _wording: Wording, _binding: Binding) -> "ReplicaReads":
        return ReplicaReads(name, self)


class ReplicaReads(Rule):
    """Reads that replicas may answer."""

    needs = Needs(in_scripts=InScripts.NOTHING)

    def __init__(self, name: str, settings: ReplicaReadsSettings) -> None:
        self.name = name
        self._keys = tuple(map(KeyGlob.of, settings.keys))
        self._terms = ReplicaTerms(float(settings.max_lag), settings.same_zone)
        self._verdict = FromReplica(self._terms)

    def touches(self, spec: Spec) -> bool:
        return served_by_replicas(spec)

    def judge(self, command: Command, context: Context) -> Verdict:
        """Replicas may answer if all keys match; never inside MULTI, or on a connection of the client's own."""
        keys = command.known_keys  # what cannot be told is the primary's
        if context.in_transaction or context.at_primary or not keys:
            return PASS
        if context.tenant and not goes_at_once(command.spec.name):
            return PASS  # a name, which has a prefix on the replica, may be in its reply
        if reads_others(command.spec) and not reads_no_others(command.spec, command.argv):
            return PASS
        return self._verdict if all(self._is_about(key.name) for key in keys) else PASS

    def _is_about(self, key: bytes) -> bool:
        return any(glob.fits(key) for glob in self._keys)

    def judged_by(self, spec: Spec) -> JudgedBy:
        """Names, and the patterns of SORT_RO; not whether the client is in a transaction."""
        return JudgedBy.DATA if reads_others(spec) else JudgedBy.NAMES

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        """The plan finds the keys that arguments name."""
        if not reads_others(spec):
            lowering.read_from_replicas(self._terms, self._keys)
            return
        for glob in self._keys:
            lowering.judge_keys(glob)
