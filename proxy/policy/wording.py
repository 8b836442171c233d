"""The parts of refusals that a policy sets: the contact, how keys are shown, and how libraries are exempted."""

from collections.abc import Callable
from dataclasses import replace

from proxy.commands.table import Table
from proxy.policy.model import Policy, PolicyRule
from proxy.policy.precedence import is_active
from proxy.rules.known_libraries import JOBS, Exemptions
from proxy.rules.refusals import Refusals
from proxy.rules.rule import Binding, Wording
from proxy.traffic.redaction import Redact, Redaction


def wording_of(policy: Policy, rule: PolicyRule) -> Wording:
    """The rule's own words, and its contact."""
    own = next((app.contact for app in policy.apps if app.name == rule.app), "")
    return replace(rule.wording, contact=rule.wording.contact or own or policy.contact)


def exemptions_of(policy: Policy) -> Exemptions:
    """What the policy has for libraries that a rule refuses."""
    open_to_exceptions = [rule for rule in policy.rules if not rule.locked and is_active(policy, rule)]
    return Exemptions(
        frozenset(rule.name for rule in open_to_exceptions),
        any(app.name == JOBS for app in policy.apps),
        frozenset(each.rule for each in policy.exceptions if each.app == JOBS),
        tuple(
            rule.name
            for rule in open_to_exceptions
            if rule.settings.is_about_names or rule.settings.hinders_queues or rule.settings.expires_keys
        ),
        tuple(rule.name for rule in open_to_exceptions if rule.settings.is_about_names),
    )


def refusals_of(policy: Policy, rule: str, table: Table) -> Refusals:
    """The refusals in a rule's name that do not come from the rule itself."""
    named = next((wording_of(policy, each) for each in policy.rules if each.name == rule), Wording())
    return Refusals(rule, named, Binding(table, show_key=shown_by(policy.redact)))


def shown_by(redact: Redact) -> Callable[[bytes], str]:
    """How an error shows a key. The hash of hidden keys is for logs; its secret is unknown here."""
    return Redaction(redact if redact is Redact.NONE else Redact.SHAPE).of
