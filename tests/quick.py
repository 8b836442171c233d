"""What README's test command runs: the folders whose tests start few servers or none, but for files that take seconds
of a processor, and some files of each other folder. Tests of what the program's source may not say are left out, too:
they are for those who change it.

`python -m pytest tests`, which `.ci/run` takes, runs all.
"""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent

TELLING: dict[str, tuple[str, ...]] = {
    "cli": ("test_command_line.py", "top"),
    "clients": ("test_errors.py",),
    "cluster": ("test_joins.py", "test_fan_out.py"),
    "coherence": ("test_book.py",),
    "differential": ("test_protocol.py",),
    "failover": ("test_names.py",),
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
    "simulation": ("test_histories.py",),
    "tenants": (
        "test_decisions.py",
        "test_messages.py",
        "test_replies.py",
        "test_requests.py",
        "test_slot_keys.py",
        "test_two_tenants.py",
    ),
}
"""Folders whose tests start servers, each with the files of which README's command runs what the default run has."""


COSTLY = {
    "adoption/test_adoption.py",
    "commands/test_words_in_arguments.py",
    "hotpath/test_counters.py",
    "hotpath/test_memory_of_requests.py",
    "hotpath/test_pushes.py",
    "hotpath/test_split.py",
    "hotpath/test_upstream_pipeline_can_fail.py",
    "loadtest/test_cluster.py",
    "loadtest/test_workloads.py",
    "net/test_demotions.py",
    "net/test_embedded.py",
    "net/test_gone_clients.py",
    "net/test_local_caches.py",
    "net/test_logins_interleaved.py",
    "net/test_many_at_once.py",
    "net/test_no_cycles.py",
    "net/test_policies.py",
    "net/test_three_nodes.py",
    "net/test_tracking.py",
    "policy/test_check_cost.py",
    "policy/test_garbage.py",
    "policy/test_lifetime_overlaps.py",
    "policy/test_means_what_it_says.py",
    "policy/test_modes.py",
    "policy/test_pattern_cost.py",
    "policy/test_plan_agrees.py",
    "policy/test_plan_tables.py",
    "policy/test_schema.py",
    "rules/collections/test_caps_count.py",
    "rules/limits/test_many_limits.py",
    "rules/schema/test_caps_hold.py",
    "rules/scripts/test_cost.py",
    "rules/scripts/test_keys.py",
    "rules/scripts/test_scripts.py",
    "schema/test_automaton.py",
    "schema/test_globs.py",
    "schema/test_regular_expression.py",
    "session/test_any_history.py",
    "session/test_change_of_pool.py",
    "session/test_cost.py",
    "session/test_model.py",
    "session/test_named_node.py",
    "session/test_redirects.py",
    "session/test_split_by_intake.py",
    "session/test_streaming_to_nodes.py",
    "session/test_tenants_at_splits.py",
    "traffic/test_hot_keys.py",
}
"""Files of the other folders that take more than about three seconds of a processor."""


def left_out(path: Path) -> bool:
    """Whether a file is not among the quick tests."""
    if not path.name.startswith("test_") or not path.is_relative_to(TESTS):
        return False
    folder, *rest = path.relative_to(TESTS).parts
    if "/".join((folder, *rest)) in COSTLY:
        return True
    return folder in TELLING and rest != [] and rest[0] not in TELLING[folder]
