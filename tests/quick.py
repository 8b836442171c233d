"""What README's test command runs: the folders whose tests start few servers or none, and some files of each other one.

`python -m pytest tests`, which `.ci/run` takes, runs all.
"""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent

TELLING: dict[str, tuple[str, ...]] = {
    "cli": ("test_command_line.py", "top"),
    "clients": ("test_errors.py",),
    "cluster": ("test_joins.py", "test_key_pattern.py", "test_fan_out.py"),
    "coherence": ("test_book.py", "test_own_writes.py"),
    "differential": ("test_protocol.py",),
    "failover": ("test_name_guard.py", "test_names.py", "test_sentinel_watch.py"),
    "failures": ("test_leaving.py",),
    "guardrails": ("test_end_to_end.py",),
    "libraries": (),
    "mixup": (),
    "packaging": ("test_build_form.py", "test_package_maps.py", "test_suppressions.py", "test_unused_code.py"),
    "page": (),
    "readme": (
        "test_figures.py",
        "test_guards.py",
        "test_links.py",
        "test_pages.py",
        "test_tables.py",
        "test_where.py",
    ),
    "replicas": ("test_actors.py", "test_history.py"),
    "server": ("test_serve.py",),
}
"""Folders whose tests start servers, each with the files of which README's command runs what the default run has."""


def left_out(path: Path) -> bool:
    """Whether a file is not among the quick tests."""
    if not path.name.startswith("test_") or not path.is_relative_to(TESTS):
        return False
    folder, *rest = path.relative_to(TESTS).parts
    return folder in TELLING and rest != [] and rest[0] not in TELLING[folder]
