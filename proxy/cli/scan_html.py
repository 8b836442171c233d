"""A scan as one HTML file, by the template scan.html."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial

from proxy.cli.html_file import render
from proxy.cli.scan_text import (
    NOBODY,
    compared_types,
    counted,
    faults_by_app,
    finding,
    node_bytes,
    notes,
    sample_line,
    size,
    sized,
    ttl_counts,
)
from proxy.server.stored.model import Scan

_MOST_PATTERNS, _MOST_FINDINGS = 100, 200


def html(scan: Scan, contacts: Mapping[str, str]) -> str:
    """The scan as HTML. ``contacts`` are those of apps."""
    patterns = sorted(scan.patterns.items(), key=lambda each: (-each[1].bytes, -each[1].keys, each[0]))
    findings = scan.worst_first
    by_app = [(app, row, [each for each in patterns if each[0].app == app]) for app, row in scan.apps.items()]
    return render(
        "scan.html",
        {"size": size, "count": "{:,}".format, "moment": _moment, "owner": lambda app: app or NOBODY},
        scan=scan,
        counted=partial(counted, scan),
        sized=partial(sized, scan),
        finding=partial(finding, scan),
        node_bytes=partial(node_bytes, scan),
        sample=sample_line(scan),
        apps=by_app,
        contacts=contacts,
        faults=faults_by_app(scan),
        ttls=ttl_counts(scan),
        types=compared_types(scan),
        findings=findings[:_MOST_FINDINGS],
        more_findings=len(findings[_MOST_FINDINGS:]),
        most_patterns=_MOST_PATTERNS,
        notes=notes(scan),
    )


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
