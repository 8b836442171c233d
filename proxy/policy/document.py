"""One file of a policy, read by itself.

    keyrail: 1                                      # the version of this language
    include: [apps/*.yaml]                          # more files, beside this one; in the first file only
    defaults: {mode: audit, on_rule_error: refuse, contact: "#redis"}
    cross_slot: split                               # MSET with keys of several slots of a cluster
    zones: {eu-1a: [10.0.1.0/24]}                   # for rules that prefer replicas of Keyrail's own zone
    tenants: {prefix: "{app}:", apps: [acme]}       # apps that see only their own keys
    traffic: {count_keys: on, redact: none}
    alerts: {hot_key: {share: 10%, rate: 1000/s}}
    apps: …    schema: …    rules: …    rollout: …    exceptions: …    tests: …

An app's own file starts with ``app: checkout``. It has its own schema, rules, rollout and tests. It can only add rules
and make them stricter: parts that affect other apps or exempt its own app are errors. They are errors in every included
file, since otherwise an app's file without that line could loosen rules.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from proxy.policy.apps import App
from proxy.policy.model import Expectation, OnError, PolicyException, PolicyRule, RolloutLine, Stage
from proxy.policy.sections.alerts import read_alerts
from proxy.policy.sections.apps import read_apps
from proxy.policy.sections.exceptions import read_exceptions, read_word
from proxy.policy.sections.modes import read_stage
from proxy.policy.sections.rollout import read_rollout
from proxy.policy.sections.rules import read_rules
from proxy.policy.sections.schema import PlacedEntry, read_schema
from proxy.policy.sections.tenants import read_tenants
from proxy.policy.sections.tests import read_tests
from proxy.policy.sections.zones import read_zones
from proxy.policy.tenants import NO_TENANTS, Tenants
from proxy.policy.zones import NO_ZONES, Zones
from proxy.policy_yaml.errors import Where
from proxy.policy_yaml.fields import Fields, choice, read_fields, read_line, read_list, read_switch
from proxy.policy_yaml.shipped import expected_policy
from proxy.policy_yaml.yaml_source import Problems, Scalar, Value, read_yaml
from proxy.traffic.alerts import USUAL, Alerts
from proxy.traffic.redaction import Redact

_VERSION = "1"
_ON_ERROR = {each.value: each for each in OnError}
_INCLUDING = "the file that includes this one to have them"
_PLATFORMS = {
    **dict.fromkeys(
        ("include", "defaults", "cross_slot", "zones", "tenants", "traffic", "alerts", "apps", "exceptions"), _INCLUDING
    ),
    "rollout": f"{_INCLUDING}, or app: NAME at the beginning of this one",
}
_CROSS_SLOT = {"split": True, "refuse": False}


@dataclass(slots=True)
class Document:
    """The content of one file; `rollout_where` has the place of each line of the rollout."""

    file: str
    app: str = ""
    app_where: Where | None = None
    include: tuple[Scalar, ...] = ()
    default: Stage | None = None
    on_rule_error: OnError | None = None
    contact: str = ""
    splits_writes: bool = False
    zones: Zones = NO_ZONES
    zones_where: Where | None = None
    tenants: Tenants = NO_TENANTS
    count_keys: bool = True
    exact_evidence: bool = False
    redact: Redact = Redact.NONE
    alerts: Alerts = USUAL
    apps: tuple[App, ...] = ()
    schema: tuple[PlacedEntry, ...] = ()
    rules: tuple[PolicyRule, ...] = ()
    rollout: dict[str, RolloutLine] = field(default_factory=dict)
    rollout_where: Mapping[str, Where] = field(default_factory=dict)
    exceptions: tuple[PolicyException, ...] = ()
    tests: tuple[Expectation, ...] = ()


def read_document(path: Path, first: bool, problems: Problems) -> Document:
    """Read a file; only the `first` one must have rules, and may include others."""
    expected = expected_policy(path) if first else "a YAML file"
    value = read_yaml(path, problems, expected=expected)
    fields = None if value is None else read_fields(value, problems)
    document = Document(str(path))
    if fields is not None:
        read_sections(document, fields, first)
    return document


def read_sections(document: Document, fields: Fields, first: bool) -> None:
    """Read the sections of a file."""
    problems = fields.problems
    _check_version(fields, first)
    if not first and "app" in fields:
        document.app = fields.read("app", read_word, "")
        document.app_where = fields.line_of("app")
    elif first:
        _check_platform(fields)
        _read_platform(document, fields)
    else:
        _check_included(fields)
    rules = fields.take("rules")
    if rules is not None:
        document.rules = read_rules(rules, document.app, problems)
    elif first and fields.lacks("rules"):
        problems.add(fields.where, "rules", "nothing", "a mapping of rules; {} for none")
    schema = fields.take("schema")
    if schema is not None:
        document.schema = read_schema(schema, document.app, problems)
    rollout = fields.take("rollout")
    if rollout is not None and (first or document.app):
        document.rollout, document.rollout_where = read_rollout(rollout, problems)
    tests = fields.take("tests")
    if tests is not None:
        document.tests = read_tests(tests, document.app, problems) or ()
    fields.finish()


def _check_platform(fields: Fields) -> None:
    if "app" in fields:
        expected = "the platform's file, which includes this one; or remove app from this file"
        fields.problems.add(fields.line_of("app"), "app", "an app's own file", expected)
        fields.take("app")


def _check_included(fields: Fields) -> None:
    """Note each section of an included file that only the platform's file may have."""
    for key, place in _PLATFORMS.items():
        if key in fields:
            fields.problems.add(fields.line_of(key), key, f"{key} in an included file", place)
            fields.take(key)


def _read_platform(document: Document, fields: Fields) -> None:
    problems = fields.problems
    document.include = fields.read("include", read_list, ())
    defaults = fields.take("defaults")
    if defaults is not None:
        _read_defaults(document, defaults, problems)
    document.splits_writes = fields.read("cross_slot", choice(_CROSS_SLOT), False)
    document.zones = fields.read("zones", read_zones, NO_ZONES)
    document.zones_where = fields.line_of("zones")
    document.tenants = fields.read("tenants", read_tenants, NO_TENANTS)
    traffic = fields.take("traffic")
    if traffic is not None:
        _read_traffic(document, traffic, problems)
    document.alerts = fields.read("alerts", read_alerts, USUAL)
    document.apps = fields.read("apps", read_apps, ())
    document.exceptions = fields.read("exceptions", read_exceptions, ())


def _check_version(fields: Fields, first: bool) -> None:
    version = fields.take("keyrail")
    if version is None:
        if first and fields.lacks("keyrail"):
            fields.problems.add(fields.where, "keyrail", "nothing", f"the version of the language: keyrail: {_VERSION}")
    elif not isinstance(version, Scalar) or version.text != _VERSION:
        fields.problems.unexpected(version, f"{_VERSION}, the version of the language that this Keyrail knows")


def _read_defaults(document: Document, value: Value, problems: Problems) -> None:
    fields = read_fields(value, problems)
    if fields is None:
        return
    mode = fields.take("mode")
    document.default = None if mode is None else read_stage(mode, problems)
    document.contact = fields.read("contact", read_line, "")
    document.on_rule_error = fields.read("on_rule_error", choice(_ON_ERROR), OnError.REFUSE)
    fields.finish()


def _read_traffic(document: Document, value: Value, problems: Problems) -> None:
    fields = read_fields(value, problems)
    if fields is None:
        return
    document.count_keys = fields.read("count_keys", read_switch, True)
    document.exact_evidence = fields.read("evidence", choice({"sampled": False, "exact": True}), False)
    if document.exact_evidence and not document.count_keys:
        problems.add(fields.line_of("evidence"), "traffic.evidence", "exact", "sampled where count_keys is off")
    document.redact = fields.read("redact", choice({each.value: each for each in Redact}), Redact.NONE)
    fields.finish()
