"""The rules about the local cache in each effective policy, and what each of them does with replies: its use."""

import time
from collections.abc import Iterator, Mapping
from functools import lru_cache

from proxy.commands.cached_reads import CACHED_READS, cache_role
from proxy.commands.command import Command
from proxy.commands.table import Table
from proxy.hotpath.cache.cache_use import CacheUse
from proxy.hotpath.cache.cached_reply import ReplyMemory
from proxy.hotpath.plan.automaton import Automaton
from proxy.local_cache.expected import CacheBounds
from proxy.net.policy.cache_scope import always_cached
from proxy.policy.decision import Step
from proxy.policy.model import Mode
from proxy.policy.tenants import StoredNames
from proxy.rules.context import Context
from proxy.rules.key_globs import none_fits
from proxy.rules.local_cache.rule import LocalCacheRule, LocalCacheSettings, When
from proxy.session.ports.client import EffectivePolicy

_BITS = 31
"""Uses under one policy that can be told apart: those under the next one have other bits."""


class PolicyUses:
    """The rules of one effective policy, each with its use."""

    def __init__(self, effective_policy: EffectivePolicy, uses: list[tuple[Step, LocalCacheRule, CacheUse]]) -> None:
        self.compiled = effective_policy.compiled
        self.table = effective_policy.table
        self.rules = uses
        self.uses = [use for _, _, use in uses]
        always = always_cached(rule.settings for _, rule, _ in uses)
        self.uncached: Automaton | None = none_fits(always) if always else None
        self.reads_hot = any(rule.settings.when is When.HOT for _, rule, _ in uses)
        self.roles = roles_of(effective_policy.table)
        self._has_prefix = self.compiled.app in self.compiled.policy.tenants.apps

    def own_name(self, key: bytes, stored: StoredNames) -> bytes | None:
        """The name of a stored key, as clients of this app know it; None if no client of its can name it."""
        if not self._has_prefix:
            return key
        own = stored.own(key)
        return own.name if own is not None and own.app in ("", self.compiled.app) else None


@lru_cache(maxsize=8)
def roles_of(table: Table) -> bytes:
    """The role of each command of a table."""
    return bytes(map(cache_role, table.specs))


class CacheUses:
    """Those of all effective policies of the policy in force."""

    def __init__(self) -> None:
        self._uses: dict[int, PolicyUses] = {}
        self._second_half = False

    def begin_anew(self) -> None:
        """Another policy comes into force."""
        self._uses.clear()
        self._second_half = not self._second_half

    def of(self, effective_policy: EffectivePolicy) -> PolicyUses:
        """Those of this one; none if there are too many."""
        known = self._uses.get(id(effective_policy.compiled))
        if known is None:
            steps = [
                (step, step.rule) for step in effective_policy.compiled.steps if isinstance(step.rule, LocalCacheRule)
            ]
            taken = sum(len(each.uses) for each in self._uses.values())
            first = taken + _BITS * self._second_half
            room = len(steps) if taken + len(steps) <= _BITS else 0
            uses = [(step, rule, CacheUse(1 << (first + i))) for i, (step, rule) in enumerate(steps[:room])]
            known = self._uses[id(effective_policy.compiled)] = PolicyUses(effective_policy, uses)
        return known

    def each(self) -> Iterator[tuple[str, CacheUse, str]]:
        """The rule, its use, and the app, of all."""
        for policy in self._uses.values():
            for _, rule, use in policy.rules:
                yield rule.name, use, policy.compiled.app

    def bounds(
        self,
        command: Command,
        name: bytes,
        hot: set[bytes],
        memories: Mapping[str, ReplyMemory],
        stored: StoredNames,
    ) -> CacheBounds | None:
        """How the reply to a read of this key is kept, as Redis has its name: for all clients, as what one of them
        fetches, another may be sent. None if no rule is about it. A read of several keys counts as one of this key
        alone: its value is kept for itself."""
        context = Context("", "", 0, False, time.time(), lambda: 0.0)
        served = audited = 0
        about: list[LocalCacheSettings] = []
        memory: ReplyMemory | None = None
        for policy in self._uses.values():
            own = policy.own_name(name, stored)
            if own is None:
                continue
            alone = _read_of(command, name, own, policy.table)
            for step, rule, use in policy.rules:
                settings = rule.settings
                if (settings.when is When.HOT and name not in hot) or not rule.fits(own, name):
                    continue
                mode = step.mode_for(alone, context)
                if mode is Mode.OFF:
                    continue
                served |= use.bit * (mode is Mode.ENFORCE)
                audited |= use.bit * (mode is not Mode.ENFORCE)
                about.append(settings)
                memory = memory or memories.get(rule.name)
        if memory is None:
            return None
        max_age, max_value = min(each.max_age for each in about), min(each.max_value for each in about)
        return CacheBounds(max_age, max_value, memory, served, audited)


def _read_of(command: Command, name: bytes, own: bytes, table: Table) -> Command:
    # The read as a client sends it that knows the key by its ``own`` name, and as one of this key alone.
    if CACHED_READS[command.spec.name].parts:
        return Command(table, [command.argv[0], own], command.spec)
    if own == name:
        return command
    keys = {key.index for key in command.known_keys}
    return Command(table, [own if at in keys else each for at, each in enumerate(command.argv)], command.spec)
