"""Which stored keys are of a rule that compresses, by the names that their owners give them.

Clients read the values of these keys plain unless the rule is off for everybody. Values are compressed if the rule is
enforced for the key's owner; where a key is nobody's, if it is enforced for some client.
"""

from typing import NamedTuple

from proxy.policy.apps import App
from proxy.policy.model import Mode, Policy, PolicyRule
from proxy.policy.precedence import effective_mode
from proxy.policy.tenants import StoredNames
from proxy.rules.compress.rule import CompressSettings
from proxy.rules.compress.terms import Terms
from proxy.rules.key_globs import KeyGlob


class CompressingRule(NamedTuple):
    """A rule that compresses."""

    rule: PolicyRule
    terms: Terms
    globs: tuple[KeyGlob, ...]

    @property
    def name(self) -> str:
        """The rule's name."""
        return self.rule.name


class CompressedKeys:
    """Those of a policy. `now` (seconds since the epoch) tells which exceptions are over."""

    def __init__(self, policy: Policy, now: float) -> None:
        self.rules = [
            CompressingRule(rule, rule.settings.terms, rule.settings.terms.globs)
            for rule in policy.rules
            if isinstance(rule.settings, CompressSettings)
        ]
        self._policy = policy
        self._now = now
        self._tenants = StoredNames(policy.tenants)
        self._apps = {app.name: app for app in policy.apps}

    def rule_of(self, stored: bytes) -> CompressingRule | None:
        """The rule of a stored key; patterns of rules do not overlap."""
        if not self.rules:
            return None
        name = self._own(stored)
        return next((each for each in self.rules if any(glob.fits(name) for glob in each.globs)), None)

    def compresses(self, rule: CompressingRule, stored: bytes, app: str) -> bool:
        """Whether the rule compresses what the owner of this key writes, an app or nobody ("")."""
        name = self._own(stored)
        apps = [self._apps[app]] if app in self._apps else [None, *self._apps.values()]
        return any(self._is_enforced(rule.rule, each, name) for each in apps)

    def _own(self, stored: bytes) -> bytes:
        own = self._tenants.own(stored)
        return stored if own is None else own.name

    def _is_enforced(self, rule: PolicyRule, app: App | None, name: bytes) -> bool:
        if rule.app not in ("", "" if app is None else app.name):
            return False
        mode, spared = effective_mode(self._policy, rule, app, paused=False).mode_for_key(name, self._now)
        return mode is Mode.ENFORCE and not spared
