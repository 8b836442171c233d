"""Loads a ``Policy`` from its files: the first file, which the platform owns, and the files that it includes.

Unknown words are errors with their place; all errors of all files are reported at once. A harmless part without effect
is a warning.
"""

from dataclasses import replace
from pathlib import Path

from proxy.policy.checks.contradictions import find_contradictions
from proxy.policy.checks.excluded_key_patterns import find_excluded_key_patterns
from proxy.policy.checks.faulty_tenants import find_faulty_tenants
from proxy.policy.checks.lifetime_overlaps import find_lifetime_overlaps
from proxy.policy.checks.references import check_references
from proxy.policy.checks.unreachable_rules import find_unreachable
from proxy.policy.checks.unsatisfiable_names import find_unsatisfiable_names
from proxy.policy.checks.unused_schema import find_unused_schema
from proxy.policy.checks.unused_zones import find_unused_zones
from proxy.policy.document import Document, read_document
from proxy.policy.model import Mode, OnError, Policy, PolicyRule, RolloutLine, Stage
from proxy.policy.sections.schema import join_schema
from proxy.policy_yaml.errors import PolicyError, Where, shown
from proxy.policy_yaml.shipped import shown_file
from proxy.policy_yaml.yaml_source import Problems, Scalar


def load_policy(path: Path) -> Policy:
    """The policy in a file and in the files that it includes; raises PolicyError with all problems."""
    problems = Problems()
    first = read_document(path, True, problems)
    others = [read_document(file, False, problems) for file in _included(first.include, path, problems)]
    policy = _join([first, *others], problems)
    if problems.found:
        raise PolicyError(problems.found)
    return policy


def _included(patterns: tuple[Scalar, ...], first: Path, problems: Problems) -> list[Path]:
    """The files that match the patterns, relative to the first file, each once, in the order of their names."""
    found: dict[Path, None] = {}
    for pattern in patterns:
        text = pattern.text
        if text.startswith("/") or ".." in Path(text).parts or not Path(text).parts:
            problems.unexpected(pattern, "a file or pattern below this file's own folder, such as apps/*.yaml")
            continue
        try:
            # A dangling link is an error: otherwise a team's rules would be missing without notice.
            files = sorted(each for each in first.parent.glob(text) if not each.is_dir())
            inside = [file for file in files if _belongs(file, pattern, first, problems) and not _is(file, first)]
            found.update(dict.fromkeys(inside))
        except OSError as error:
            what = f"{shown(text)} ({error.filename}: {error.strerror})"
            problems.add(pattern.where, pattern.path, what, "files that can be read")
            continue
        except (ValueError, NotImplementedError) as error:
            problems.add(pattern.where, pattern.path, shown(text), f"a pattern such as apps/*.yaml ({error})")
            continue
        if not files:
            problems.unexpected(pattern, "a file that is there, or a pattern that finds one")
    return list(found)


def _is(file: Path, first: Path) -> bool:
    return file.exists() and file.samefile(first)


def _belongs(file: Path, pattern: Scalar, first: Path, problems: Problems) -> bool:
    """Whether a file may be included: links must lead to a file below the first file's folder.

    Teams own these files. Other people read the errors about them, and these could quote any file that a link leads to.
    """
    try:
        leads = "" if file.resolve().is_relative_to(first.parent.resolve()) else "a link that leads out of the folder"
    except (OSError, RuntimeError):
        leads = "a link that leads nowhere"
    if leads:
        expected = f"files below {shown_file(str(first.parent))}"
        problems.add(pattern.where, pattern.path, f"{shown(str(file))}, {leads}", expected)
    return not leads


def _join(documents: list[Document], problems: Problems) -> Policy:
    first = documents[0]
    rules = _unique_rules(documents, problems)
    placed = tuple(each for document in documents for each in document.schema)
    policy = Policy(
        source=first.file,
        rules=rules,
        schema=join_schema(placed, problems),
        on_rule_error=first.on_rule_error or OnError.REFUSE,
        contact=first.contact,
        splits_writes=first.splits_writes,
        zones=first.zones,
        tenants=first.tenants,
        count_keys=first.count_keys,
        exact_evidence=first.exact_evidence,
        redact=first.redact,
        alerts=first.alerts,
        default=first.default or Stage(Mode.AUDIT, Where(first.file)),
        apps=tuple(app for document in documents for app in document.apps),
        rollout=_rollout(documents, problems),
        tightened={
            (rule, document.app): line.default
            for document in documents
            if document.app
            for rule, line in document.rollout.items()
            if line.default is not None
        },
        exceptions=tuple(each for document in documents for each in document.exceptions),
        tests=tuple(each for document in documents for each in document.tests),
        files=(*(document.file for document in documents), *_files_of(rules)),
    )
    warnings = check_references(policy, documents, problems)
    find_contradictions(policy, problems)
    find_unreachable(policy, problems)
    find_unsatisfiable_names(policy, problems)
    find_excluded_key_patterns(policy, placed, problems)
    find_unused_schema(policy, placed, problems)
    find_faulty_tenants(policy, problems)
    find_unused_zones(policy, first.zones_where or Where(first.file), problems)
    find_lifetime_overlaps(policy, placed, problems)
    return replace(policy, warnings=tuple(warnings))


def _files_of(rules: tuple[PolicyRule, ...]) -> list[str]:
    return sorted({file for rule in rules for file in rule.settings.files})


def _unique_rules(documents: list[Document], problems: Problems) -> tuple[PolicyRule, ...]:
    rules: dict[str, PolicyRule] = {}
    for document in documents:
        for rule in document.rules:
            other = rules.setdefault(rule.name, rule)
            if other is not rule:
                problems.add(rule.where, f"rules.{rule.name}", "a second time", f"it once (first in {other.where})")
    return tuple(rules.values())


def _rollout(documents: list[Document], problems: Problems) -> dict[str, RolloutLine]:
    """The platform's rollout, without the lines of apps' own files."""
    lines: dict[str, RolloutLine] = {}
    places: dict[str, Where] = {}
    for document in documents:
        if document.app:
            continue
        for rule, line in document.rollout.items():
            where = document.rollout_where[rule]
            if rule in lines:
                problems.add(where, f"rollout.{rule}", "a second time", f"it once (first in {places[rule]})")
            lines[rule] = line
            places[rule] = where
    return lines
