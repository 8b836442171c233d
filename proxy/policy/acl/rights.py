"""What the clients of one app, or of several, may do in Redis, so that all works that the policy allows them."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from proxy.commands.sort_patterns import SORTS
from proxy.commands.spec import Spec
from proxy.commands.table import Table
from proxy.commands.tenant_commands import ScriptTerms
from proxy.policy.acl.keys import KeyRights, Patterns, finds_keys, key_rights, limits_names, says_all, union
from proxy.policy.acl.own_commands import ALWAYS_RUN, asks_for_any_key, changes_lifetimes, sent_for
from proxy.policy.acl.scripts import NONE, ScriptCalls, script_calls
from proxy.policy.acl.tenants import (
    ANY_LISTENER,
    UNLIMITED,
    Narrower,
    channels_behind,
    is_about_all,
    is_denied,
    keys_behind,
    narrower,
    prefix_of,
)
from proxy.policy.acl.versions import Version, is_keyrails_own
from proxy.policy.compile import CompiledPolicy
from proxy.policy.decision import Step
from proxy.policy.model import Mode
from proxy.policy.precedence import EffectiveMode
from proxy.policy.tenants import TENANTS, Tenants
from proxy.rules.judged_by import JudgedBy
from proxy.rules.lowering import Lowering

_BY_SCRIPTS = "scripts may call it, and Keyrail lets such scripts pass"
_BY_KEYRAIL = "Keyrail sends it itself"
_BY_ALL = "Redis runs it for every user"
_SORTS = "the patterns of BY and GET need a selector with all keys"
_UNCHECKED_SORTS = "Redis does not check the keys that BY and GET find"
_UNCHECKED_MERGE = "Redis does not check the key of a PFMERGE of one key"
"""Seen in Redis 7.0 and 8.2, and in Valkey 9.1: its second key specification finds no key, and so no key counts."""


@dataclass(frozen=True, slots=True)
class Wider:
    """Commands that a rule may refuse, and Redis may not; and why an ACL cannot say it."""

    rule: str
    commands: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Rights:
    """`denied` are the commands that rules always refuse, with the rule. `passing_categories` are those of which
    a module's commands may pass, although the command table does not know them; None: all of them.

    `naming` are the rules of which `keys` says all. `sorts`: SORT may find keys by patterns, although keys are limited.
    Redis refuses what `narrower` lists, although Keyrail passes it.
    """

    denied: Mapping[str, str]
    passing_categories: frozenset[str] | None
    keys: KeyRights
    naming: tuple[str, ...]
    sorts: bool
    wider: tuple[Wider, ...]
    channels: Patterns = None
    narrower: tuple[Narrower, ...] = ()


class AppRights:
    """Finds the rights of an app's clients. `made_up` are made-up commands by their categories."""

    def __init__(self, version: Version, table: Table, made_up: Mapping[frozenset[str], Spec]) -> None:
        self._version = version
        self._made_up = made_up
        self._specs = [spec for spec in table.specs if not is_keyrails_own(spec) and spec not in made_up.values()]
        self._present = [spec for spec in self._specs if version.has(spec) and not spec.container]
        self.present = frozenset(spec.name for spec in self._present)
        """The commands that the engine has."""
        self.keyed = tuple(spec.name for spec in self._present if spec.may_have_keys)
        """Those with keys."""

    def of(self, compiled: CompiledPolicy, proven: frozenset[str], app: str, scripts_too: bool) -> Rights:
        """The rights under a policy that is bound for the app ("": for clients of no app). With `scripts_too`, scripts
        are denied what clients are, even if the policy lets them call it."""
        steps = [step for step in compiled.steps if may_act(step.effective_mode)]
        refusing = {spec.name: by for spec in self._specs if (by := _always_refusing(steps, spec))}
        calls = NONE if scripts_too else script_calls(steps, refusing.__contains__)
        sent = sent_for(compiled.steps, compiled.needs, self._version)
        kept = {
            spec.name: why
            for spec in self._specs
            if spec.name in refusing and (why := _kept(spec, refusing[spec.name], sent, calls))
        }
        denied = {name: by[0].rule.name for name, by in refusing.items() if name not in kept}
        naming, why_any = self._naming(steps, calls)
        keys = KeyRights() if why_any else key_rights(naming, compiled.policy.schema, app, proven)
        if not self._version.selectors or (keys.read != keys.written and changes_lifetimes(compiled.needs)):
            keys = keys.alike()
        patterns_pass = all(map(finds_keys, naming)) and not denied.keys() >= SORTS
        said = [step for step in naming if says_all(step, app)]
        found = Rights(
            denied,
            self._passing_made_up_commands(steps, calls),
            keys,
            () if why_any else tuple(step.rule.name for step in said),
            sorts=patterns_pass and not keys.unlimited,
            wider=(),
        )
        unsaid = [self._unsaid(step, denied, kept, why_any if step in said else None) for step in steps]
        wider = (*self._kept_for(refusing, kept), *(each for each in unsaid if each.commands and each.why))
        found = replace(found, wider=wider)
        return self._of_tenant(found, sent, compiled.policy.tenants) if app in compiled.policy.tenants.apps else found

    def _of_tenant(self, found: Rights, sent: Collection[str], tenants: Tenants) -> Rights:
        """The same for an app that is a tenant, whose names have no prefix yet."""
        scripts = tenants.terms.scripts
        refused = [spec.name for spec in self._specs if is_denied(spec.name, scripts) and spec.name not in ALWAYS_RUN]
        denied = {name: TENANTS for name in refused if name not in sent} | dict(found.denied)
        open_to_all = tuple(sorted(name for name in self.present if name not in denied and is_about_all(name)))
        kept = tuple(name for name in refused if name in sent and name in self.present)
        wider = (
            *(replace(each, commands=tuple(n for n in each.commands if n not in denied)) for each in found.wider),
            Wider(TENANTS, open_to_all, UNLIMITED),
            Wider(TENANTS, kept, _BY_KEYRAIL),
        )
        return replace(
            found,
            denied=denied,
            passing_categories=frozenset(),
            naming=(*found.naming, TENANTS),
            sorts=not self._version.selectors and not denied.keys() >= SORTS,
            wider=tuple(each for each in wider if each.commands),
        )

    def as_user(self, rights: Rights, tenants: Tenants, app: str, user: str) -> Rights:
        """The rights of the app's clients that log in as this user: if they are of a tenant, with its prefix."""
        if app not in tenants.apps:
            return rights
        prefix = prefix_of(tenants, app, user)
        wider = rights.wider
        if prefix is not None and not prefix.is_prefix:
            wider = (*wider, Wider(TENANTS, self.keyed, ANY_LISTENER))
        return replace(rights, keys=keys_behind(prefix, rights.keys), channels=channels_behind(prefix), wider=wider)

    def _naming(self, steps: Sequence[Step], calls: ScriptCalls) -> tuple[list[Step], str]:
        """The rules that limit the names of keys, and why any key has to be allowed all the same."""
        naming = [step for step in steps if step.enforced and limits_names(step)]
        if not calls.follow_keys:
            return naming, "scripts may use any keys, and Keyrail lets such scripts pass"
        if asks_for_any_key(steps):
            return naming, "Keyrail asks for any key that a client's KEYS names"
        return naming, ""

    def _kept_for(self, refusing: Mapping[str, Sequence[Step]], kept: Mapping[str, str]) -> Iterable[Wider]:
        grouped: dict[tuple[str, str], list[str]] = {}
        for spec in self._present:
            for step in refusing[spec.name] if spec.name in kept else ():
                grouped.setdefault((step.rule.name, kept[spec.name]), []).append(spec.name)
        return [Wider(rule, tuple(names), why) for (rule, why), names in grouped.items()]

    def _unsaid(self, step: Step, denied: Mapping[str, str], kept: Mapping[str, str], said: str | None) -> Wider:
        """What the rule may refuse or change, and an ACL does not. If `said` is not None, patterns of keys say all of
        it, but for the reason in `said`."""
        if said is not None:
            return Wider(step.rule.name, self.keyed, said)
        touched = (spec.name for spec in self._present if step.rule.touches(spec))
        names = tuple(name for name in touched if name not in denied and name not in kept)
        return Wider(step.rule.name, names, _reason(step))

    def _unchecked(self, found: Rights) -> Iterator[Wider]:
        """Keys that Redis does not check although patterns limit them."""
        for rule in found.naming if not found.keys.unlimited else ():
            if found.sorts:
                yield Wider(rule, tuple(sorted(SORTS)), _SORTS if self._version.selectors else _UNCHECKED_SORTS)
            if self._version.selectors:
                yield Wider(rule, ("PFMERGE",), _UNCHECKED_MERGE)

    def _passing_made_up_commands(self, steps: Sequence[Step], calls: ScriptCalls) -> frozenset[str] | None:
        """Those with one category come first, so a second one counts only if it decides."""
        passing: set[str] = set()
        for categories, spec in self._made_up.items():
            refusing = _always_refusing(steps, spec)
            passes = all(calls.may_make(spec, step) for step in refusing)
            if passes and passing.isdisjoint(categories):
                passing |= categories
        alone = {next(iter(categories)) for categories in self._made_up if len(categories) == 1}
        return None if passing >= alone else frozenset(passing)

    def joined(self, by_app: Mapping[str, Rights], scripts: ScriptTerms) -> Rights:
        """What the clients of any of these apps may do, for a user whose clients may be of each."""
        found, *others = by_app.values()
        for each in others:
            found = Rights(
                {name: rule for name, rule in found.denied.items() if name in each.denied},
                None
                if found.passing_categories is None or each.passing_categories is None
                else found.passing_categories | each.passing_categories,
                found.keys.joined(each.keys),
                (*found.naming, *each.naming),
                found.sorts or each.sorts,
                (),
                union(found.channels, each.channels),
            )
        found = replace(found, sorts=found.sorts and not found.keys.unlimited)
        wider = [entry for each in by_app.values() for entry in each.wider]
        wider += (entry for app, each in by_app.items() for entry in self._lost(app, each, found))
        less = tuple(narrower(found.channels, scripts, sorts=found.sorts))
        return replace(found, wider=_merged((*wider, *self._unchecked(found))), narrower=less)

    def _lost(self, app: str, mine: Rights, found: Rights) -> Iterable[Wider]:
        """What an ACL for this app alone would deny."""
        why = f"Redis cannot tell the clients of {app or 'no app'} from others of this user"
        by_rule: dict[str, list[str]] = {}
        for name, rule in mine.denied.items():
            if name not in found.denied and name in self.present:
                by_rule.setdefault(rule, []).append(name)
        for rule, names in by_rule.items():
            yield Wider(rule, tuple(names), why)
        if mine.keys != found.keys:
            yield from (Wider(rule, self.keyed, why) for rule in mine.naming)


def _reason(step: Step) -> str:
    """Why an ACL does not say what the rule says; empty if the rule says nothing."""
    reason, effective = step.source.settings.beyond_acl, step.effective_mode
    if not reason or not step.varies:
        return reason
    if effective.scope.by_key:
        return f"it is about some keys only; {reason}"
    return (
        f"it is enforced for a share of keys; {reason}" if effective.stage.share < 1 else f"it has exceptions; {reason}"
    )


def _merged(wider: Iterable[Wider]) -> tuple[Wider, ...]:
    """One entry for each rule and reason."""
    commands: dict[tuple[str, str], dict[str, None]] = {}
    for each in wider:
        commands.setdefault((each.rule, each.why), {}).update(dict.fromkeys(each.commands))
    return tuple(Wider(rule, tuple(names), why) for (rule, why), names in commands.items())


def may_act(effective: EffectiveMode) -> bool:
    """Whether a rule in this mode is enforced for some commands."""
    return effective.stage.mode is Mode.ENFORCE or any(each.then is Mode.ENFORCE for each in effective.exceptions)


def _always_refusing(steps: Iterable[Step], spec: Spec) -> list[Step]:
    """The rules that refuse every request of this command: their plans answer each with the same error."""
    return [step for step in steps if step.enforced and step.rule.touches(spec) and _refuses(step, spec)]


def _refuses(step: Step, spec: Spec) -> bool:
    if step.rule.judged_by(spec) is not JudgedBy.FORM:
        return False  # most rules, and lowering takes time
    lowering = Lowering(spec)
    lowering.enforced = True
    step.rule.lower(spec, lowering)
    return lowering.does == "refused"


def _kept(spec: Spec, refusing: Sequence[Step], sent: Collection[str], calls: ScriptCalls) -> str:
    """Why a command that these rules refuse has to be allowed; empty if it has not."""
    if spec.name in ALWAYS_RUN:
        return _BY_ALL
    if spec.name in sent:
        return _BY_KEYRAIL
    return _BY_SCRIPTS if all(calls.may_make(spec, step) for step in refusing) else ""
