"""``scan_counts: {max: 1000, over: refuse}``."""

from proxy.policy_yaml.fields import Fields, choice, integer, read_fields
from proxy.policy_yaml.yaml_source import Value
from proxy.rules.scan_counts.rule import ScanCountsSettings

_MOST = 1_000_000


def read_scan_counts(value: Value, rule: Fields) -> ScanCountsSettings | None:
    fields = read_fields(value, rule.problems)
    if fields is None:
        return None
    settings = ScanCountsSettings(
        max=fields.require("max", integer(1, _MOST), 1, "the largest COUNT, such as 1000"),
        lower=fields.read("over", choice({"refuse": False, "lower": True}), False),
    )
    fields.finish()
    return settings
