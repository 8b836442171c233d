"""Where verbs take their evidence from: running Keyrails, added up, or a state folder, also a copied one."""

import argparse
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proxy.cli.admin_port import AdminPort, AdminPortError, add_options
from proxy.cli.line import policy_file
from proxy.policy.load import load_policy
from proxy.policy_yaml.errors import PolicyError
from proxy.server.evidence.json_form import from_json
from proxy.server.evidence.model import Evidence, EvidenceError
from proxy.server.evidence.policy_facts import DIFFER, Facts, facts_of
from proxy.server.evidence.store import read_store
from proxy.server.option_readers import read_time_back
from proxy.server.state_folder import EVIDENCE

_SECONDS = 60.0
_USUAL = 7 * 86_400


class SourceError(Exception):
    """The evidence cannot be read. ``status`` is the exit status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


@dataclass(slots=True)
class Source:
    """Evidence, and the facts about the policies in force, by route; a state folder has none."""

    evidence: Evidence
    facts: dict[str, Facts] = field(default_factory=dict)


def add_source_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--admin``, ``--token-file``, ``--state-dir`` and ``--since``."""
    add_options(parser, several=True)
    parser.add_argument("--state-dir", metavar="DIR", type=Path, help="read this state folder in place of --admin")
    parser.add_argument(
        "--since", metavar="TIME", type=_read_time, default=_USUAL, help="how far back, such as 12h or 30d (default 7d)"
    )


def add_policy_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--policy``, which stands for the policies in force: a state folder does not have these."""
    parser.add_argument(
        "--policy",
        metavar="POLICY",
        type=policy_file,
        help="the policy in force; needed with --state-dir",
    )


def _read_time(text: str) -> float:
    try:
        return read_time_back(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def evidence_of(options: argparse.Namespace) -> Evidence:
    """The evidence that the options name. Raises SourceError."""
    return _source_of(options).evidence


def source_of(options: argparse.Namespace) -> Source:
    """The same, with the facts about the policies, of ``--policy`` if it is given. Raises SourceError."""
    if options.state_dir is not None and options.policy is None:
        raise SourceError("--state-dir: a state folder has no policies: give --policy, too", 2)
    source = _source_of(options)
    if options.policy is not None:
        try:
            facts = facts_of(load_policy(options.policy))
        except PolicyError as error:
            raise SourceError(str(error), 2) from None
        routes = {route for _, route in source.evidence.hours} | {each.route for each in source.evidence.rules}
        source.facts = dict.fromkeys(routes or {""}, facts)
    return source


def _add_facts(known: dict[str, Facts], more: dict[str, Facts]) -> None:
    for route, its in more.items():
        digests = {rule["rule"]: rule["digest"] for rule in its["rules"]}
        for rule in known.setdefault(route, its)["rules"]:
            if digests.get(rule["rule"]) != rule["digest"]:
                rule["digest"] = DIFFER


def _source_of(options: argparse.Namespace) -> Source:
    since = time.time() - options.since
    try:
        if options.state_dir is not None:
            return Source(read_store(options.state_dir / EVIDENCE, since))
        source = Source(Evidence())
        for url in _urls(options):
            answer = AdminPort(url, options.token_file, _SECONDS).get("/evidence", since=since)
            try:
                source.evidence.add(from_json(answer))
                _add_facts(source.facts, answer["facts"])
            except EvidenceError as error:
                raise EvidenceError(f"{url}: {error}") from None
            except (LookupError, TypeError, AttributeError):
                raise EvidenceError(f"{url}: its facts about policies are not those of this version") from None
    except AdminPortError as error:
        raise SourceError(str(error), error.status) from None
    except EvidenceError as error:
        raise SourceError(str(error), 1) from None
    return source


def quotas_of(options: argparse.Namespace) -> list[dict[str, Any]]:
    """How the quotas of the running Keyrails stand, each with the URL of its Keyrail; a state folder does not tell.
    Raises SourceError."""
    if options.state_dir is not None:
        return []
    try:
        return [
            each | {"keyrail": url}
            for url in _urls(options)
            for each in AdminPort(url, options.token_file, _SECONDS).get("/report", since="1h").get("quotas", [])
        ]
    except AdminPortError as error:
        raise SourceError(str(error), error.status) from None


def _urls(options: argparse.Namespace) -> list[str]:
    # The same Keyrail twice would count twice.
    return [*dict.fromkeys(each.strip().rstrip("/") for each in options.admin.split(","))]
