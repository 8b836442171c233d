"""The mode of a rule for a client: the first of these that applies. For clients and keys outside of its scope
(``proxy.policy.scope``) it is off.

1. locked      a locked rule is always enforced
2. kill switch while it is on, every other rule is audited
3. exception   of the platform, until its day (only for proven apps; ``then`` from that day on)
4. app's own   the mode in the app's own file, if it is stricter than what follows
5. rollout     the rule's line there: the app's stage, else the default (a claimed app's only if it is stricter)
6. rule        the rule's own mode, in a policy without a rollout
7. defaults    of the policy, else audit

Scopes by key, exceptions and shares of keys (``enforce 10%``) depend on the command, everything else only on the app.
So a rule has an *effective mode* for an app: one mode, or, if keys or the day decide, a mode that is computed for each
command.
"""

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from zlib import crc32

from proxy.commands.command import Command, KeysUnknownError
from proxy.policy.apps import UNKNOWN, App
from proxy.policy.model import Mode, Policy, PolicyException, PolicyRule, RolloutLine, Stage
from proxy.policy.scope import EVERYTHING, Scope, covers, walked
from proxy.policy_yaml.errors import Where
from proxy.rules.context import Context
from proxy.rules.order import parts_of
from proxy.rules.rule import RuleSettings
from proxy.schema.globs import key_glob_of

_BUCKETS = 10_000


@dataclass(frozen=True, slots=True)
class EffectiveMode:
    """A rule's mode for one app, and why. If it ``varies``, ``mode_for`` a command may differ."""

    stage: Stage
    why: str
    exceptions: tuple[PolicyException, ...] = ()
    outranked: tuple[tuple[Stage, str], ...] = ()
    """The modes that would apply next, in order, and why."""
    scope: Scope = EVERYTHING
    """The keys that the rule is about; for all others it is off."""

    @property
    def varies(self) -> bool:
        """Whether the mode depends on the command or the day."""
        by_key = self.scope.by_key and self.stage.mode is not Mode.OFF
        return by_key or bool(self.exceptions) or self.stage.share < 1

    def rehearsed(self) -> "EffectiveMode":
        """The same mode, but enforced for all keys unless it is off."""
        if self.stage.mode is Mode.OFF:
            return self
        return replace(self, stage=Stage(Mode.ENFORCE, self.stage.where))

    def mode_for(self, command: Command, context: Context) -> Mode:
        """The mode for one command."""
        if not self.scope.concerns(command):
            return Mode.OFF
        return (self._excepted(command, context) or self._unexcepted(command))[0]

    def mode_for_key(self, key: bytes, now: float) -> tuple[Mode, bool]:
        """The mode for a key that is stored, as it would be without exceptions that spare the key; and whether one
        does."""
        if not self.scope.has(key):
            return Mode.OFF, False
        concerned = (each for each in self.exceptions if not each.keys or key_glob_of(each.keys).fits(key))
        said = next(filter(None, (_said_by(each, now) for each in concerned)), None)
        if said is not None and said[0] is not Mode.OFF:
            return said[0], False
        inside = self.stage.share == 1 or _is_in_share(key, self.stage.share)
        return self.stage.mode if inside else Mode.AUDIT, said is not None

    def precedence(self, command: Command, context: Context) -> str:
        """Everything that sets the mode for one command, in order, with its place; the first applies."""
        if not self.scope.concerns(command):
            return f"off: the rule is about other keys, {self.stage.where}"
        for_this = (self._excepted(command, context), self._unexcepted(command))
        said = [f"{mode}: {why}, {where}" for mode, why, where in filter(None, for_this)]
        said += (f"{stage}: {why}, {stage.where}" for stage, why in self.outranked)
        return "; else ".join(said)

    def _excepted(self, command: Command, context: Context) -> tuple[Mode, str, Where] | None:
        for exception in self.exceptions:
            said = _said_by(exception, context.now) if _concerns(exception, command) else None
            if said is not None:
                return *said, exception.where
        return None

    def _unexcepted(self, command: Command) -> tuple[Mode, str, Where]:
        if self.stage.share < 1 and not in_share(command, self.stage.share):
            return Mode.AUDIT, f"{self.why}: outside of its share of keys", self.stage.where
        return self.stage.mode, self.why, self.stage.where


def effective_mode(policy: Policy, rule: PolicyRule, app: App | None, paused: bool) -> EffectiveMode:
    """The mode of a rule for an app's clients; None stands for clients of no app."""
    if not rule.scope.has_app("" if app is None else app.name):
        return EffectiveMode(Stage(Mode.OFF, rule.where), f"only for {' and '.join(rule.scope.apps)}")
    if rule.locked:
        return EffectiveMode(Stage(Mode.ENFORCE, rule.where), "locked", scope=rule.scope)
    (stage, why), *outranked = _stages(policy, rule, app)
    if paused and stage.mode is Mode.ENFORCE:
        # A rule that is exempted or off stays so: the switch never makes a rule stricter.
        outranked = [(stage, why), *outranked]
        stage, why = Stage(Mode.AUDIT, stage.where), "kill switch"
    exceptions = (each for each in policy.exceptions if _applies(each, rule, app))
    return EffectiveMode(
        stage, why, tuple(_softened(each) if paused else each for each in exceptions), tuple(outranked), rule.scope
    )


def _softened(exception: PolicyException) -> PolicyException:
    return replace(exception, then=Mode.AUDIT) if exception.then is Mode.ENFORCE else exception


def audience(policy: Policy, rule: PolicyRule) -> frozenset[str]:
    """The apps, UNKNOWN among them, for which the rule is not off."""
    effective_modes = {
        UNKNOWN if app is None else app.name: effective_mode(policy, rule, app, paused=False)
        for app in (None, *policy.apps)
    }
    return frozenset(
        name
        for name, each in effective_modes.items()
        if rule.app in {"", name} and (each.varies or each.stage.mode is not Mode.OFF)
    )


def parts_for_everybody(policy: Policy, *, rehearsal: bool) -> list[tuple[RuleSettings, PolicyRule, EffectiveMode]]:
    """The parts of rules that act for every client (``RuleSettings.for_everybody``), each with its rule. They always
    act, also while the kill switch is on: what is stored stays as it is. A part knows whether the rule is enforced for
    some client, and refuses only then."""
    found = []
    for rule in policy.rules:
        mode = _strictest_mode(policy, rule)
        part = rule.settings.for_everybody(enforced=rehearsal or mode is Mode.ENFORCE)
        if part is not None and mode is not Mode.OFF:
            always = EffectiveMode(Stage(Mode.ENFORCE, rule.where), "on for every client")
            found.append((part, rule, always))
    return found


def _strictest_mode(policy: Policy, rule: PolicyRule) -> Mode:
    """The strictest mode that the rule has for some client and some key."""
    apps = (app for app in (None, *policy.apps) if rule.app in {"", "" if app is None else app.name})
    effective = [effective_mode(policy, rule, app, paused=False) for app in apps]
    modes = [each.stage.mode for each in effective]
    modes += (exception.then for each in effective for exception in each.exceptions if exception.then is not None)
    return max(modes, key=lambda mode: mode.strictness, default=Mode.OFF)


def is_active(policy: Policy, rule: PolicyRule) -> bool:
    """Whether the rule is not off for some client."""
    return bool(audience(policy, rule))


def counting_parts(policy: Policy) -> list[tuple[RuleSettings, PolicyRule, EffectiveMode]]:
    """The parts of rules that only count, for all clients."""
    found = [(part, rule) for rule in policy.rules for part in parts_of(rule.settings) if part.only_counts]
    counting = "what others do counts, too"
    return [
        (part, rule, EffectiveMode(Stage(Mode.AUDIT, rule.where), counting))
        for part, rule in found
        if is_active(policy, rule)
    ]


def _applies(exception: PolicyException, rule: PolicyRule, app: App | None) -> bool:
    if exception.rule != rule.name:
        return False
    return not exception.app or (app is not None and app.proven and exception.app == app.name)


def _stages(policy: Policy, rule: PolicyRule, app: App | None) -> list[tuple[Stage, str]]:
    """Every mode that the policy sets for a rule and an app, in order, without exceptions and the kill switch."""
    line = policy.rollout.get(rule.name, RolloutLine(None))
    said = [(line.default, "rollout"), (rule.mode, "rule"), (policy.default, "defaults")]
    found = [(stage, why) for stage, why in said if stage is not None]
    if app is None:
        return found
    stage = line.apps.get(app.name)
    if stage is not None and (app.proven or stage.tightens(found[0][0])):
        found.insert(0, (stage, f"rollout of {app.name}"))
    own = policy.tightened.get((rule.name, app.name))
    if own is not None and own.tightens(found[0][0]):
        found.insert(0, (own, f"the file of {app.name}"))
    return found


def spent(policy: Policy, now: float) -> list[PolicyException]:
    """The exceptions that are over and have no ``then``."""
    day = today(now)
    return [each for each in policy.exceptions if each.then is None and each.until is not None and day >= each.until]


def today(now: float) -> date:
    """The day in UTC of a moment (seconds since the epoch)."""
    return datetime.fromtimestamp(now, UTC).date()


def in_share(command: Command, share: float) -> bool:
    """Whether every key of a command is in the share. Keys belong to it by their hash, so it is the same everywhere.

    A command without keys is never in the share. A command with unknown keys always is.
    """
    try:
        keys = command.keys
    except KeysUnknownError:
        return True
    return bool(keys) and all(_is_in_share(key.name, share) for key in keys)


def _is_in_share(key: bytes, share: float) -> bool:
    return crc32(key) % _BUCKETS < share * _BUCKETS


def _said_by(exception: PolicyException, now: float) -> tuple[Mode, str] | None:
    """The mode that an exception sets at a moment, and why; None if it is over and sets none."""
    if exception.until is None or today(now) < exception.until:
        return Mode.OFF, f"exception: {exception.because}"
    return None if exception.then is None else (exception.then, f"exception, over since {exception.until}")


def _concerns(exception: PolicyException, command: Command) -> bool:
    if not exception.keys:
        return True
    try:
        names = [key.name for key in command.keys]
    except KeysUnknownError:
        return False
    if names:
        return all(map(key_glob_of(exception.keys).fits, names))
    return any(covers(exception.keys, pattern) for pattern in walked(command))
