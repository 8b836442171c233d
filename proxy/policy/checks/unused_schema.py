"""Parts of a schema that no rule acts on. Each is an error, since the author of the schema relies on it.

A rule that is off is enough, since then the file says so. ``ttl: none`` needs no rule.
"""

from collections.abc import Callable, Sequence

from proxy.policy.model import Policy
from proxy.policy.sections.schema import PlacedEntry
from proxy.policy_yaml.bounds import GIVEN_BESIDE_REQUIRED, REQUIRED_ALONE
from proxy.policy_yaml.yaml_source import Problems
from proxy.rules.lifetime.settings import SchemaTtlSettings
from proxy.rules.lifetime.ttl_options import Unproven
from proxy.rules.rule import RuleSettings
from proxy.rules.schema.fields import SchemaFieldsSettings
from proxy.rules.schema.size import SchemaSizeSettings
from proxy.rules.schema.type import SchemaTypeSettings
from proxy.schema.entries import KeyEntry

_APPLIED_BY: dict[str, tuple[type[RuleSettings], Callable[[KeyEntry], bool]]] = {
    "ttl": (SchemaTtlSettings, lambda entry: entry.lifetime is not None and not entry.lifetime.permanent),
    "type": (SchemaTypeSettings, lambda entry: entry.type is not None),
    "size": (SchemaSizeSettings, lambda entry: entry.size is not None),
    "fields": (SchemaFieldsSettings, lambda entry: entry.fields is not None),
}
"""By part of an entry: the rule that acts on it, and whether an entry has it."""


def find_unused_schema(policy: Policy, placed: Sequence[PlacedEntry], problems: Problems) -> None:
    """Note each part that no rule acts on, at the first entry that has it, and each lifetime that gives no TTL."""
    for part, (settings, says) in _APPLIED_BY.items():
        appliers = {rule.app for rule in policy.rules if isinstance(rule.settings, settings)}
        saying = [each for each in placed if says(each.entry) and not problems.told_of(each.path_of(part))]
        left = [each for each in saying if not _is_applied(each.entry, appliers)]
        if left:
            first, more = left[0], len(left) - 1
            rule = f"rules: {{schema-{part}: {{schema: {part}}}}}"
            expected = f"a rule that acts on it, such as {rule}; add mode: off if it is documentation only"
            others = f", here and in {more} more {'entry' if more == 1 else 'entries'}" if more else ""
            what = part if part.endswith("s") else f"a {part}"
            problems.add(first.line_of(part), first.path_of(part), f"{what} that no rule acts on{others}", expected)
    if any(
        isinstance(rule.settings, SchemaTtlSettings) and rule.settings.ttl_options.without_proof is not Unproven.REFUSE
        for rule in policy.rules
    ):
        _check_required(placed, problems)


def _is_applied(entry: KeyEntry, appliers: set[str]) -> bool:
    return bool(appliers) if not entry.app else bool(appliers & {"", entry.app})


def _check_required(placed: Sequence[PlacedEntry], problems: Problems) -> None:
    for each in placed:
        lifetime = each.entry.lifetime
        if lifetime is not None and lifetime.required and lifetime.given is None:
            path = f"{each.path_of('ttl')}.required"
            problems.add(each.line_of("ttl"), path, REQUIRED_ALONE, GIVEN_BESIDE_REQUIRED)
