"""A guardrail is one folder in `proxy/rules` and one in `tests/rules`, and few other files depend on it."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from proxy.rules.guardrails import GUARDRAILS
from proxy.rules.order import ORDER
from tests.program_source import PACKAGE, trees

RULES = PACKAGE / "rules"
TESTS = Path(__file__).parent
RECIPE = {"rules/guardrails.py", "rules/order.py"}
"""The modules that know every guardrail: all that has to be changed beside the folder, as docs/where-to-change.md
says."""
CHECKS = "policy/checks/"
"""Checks compare guardrails with each other."""
KNOWN_BY = {
    "collections": {"rules/schema/members.py"},
    "compress": {
        "cli/train_dictionary.py",
        "cli/transform.py",
        "server/stored/changes/rewrite.py",
        "server/stored/changes/rewritten.py",
        "server/stored/compressed_keys.py",
        "server/stored/judging.py",
        "server/stored/value_sample.py",
    },
    "lifetime": {"rules/schema/yaml.py"},
    "local_cache": {"net/policy/cache_scope.py", "net/cache/cache_uses.py"},
    "names": {"policy/acl/keys.py", "rules/schema/yaml.py"},
    "one_slot": {"rules/transactions/yaml.py"},
    "scripts": {
        "net/cache/local_caches.py",
        "policy/acl/scripts.py",
        "policy/tenant_scripts.py",
        "session/ports/ports.py",
    },
    "sizes": {"rules/schema/size.py"},
}
"""Who else knows a guardrail: guardrails that extend it, the local cache, which asks which keys a script uses, ACLs,
which have patterns for names and apply to scripts, tenants, whose scripts are judged by their text, and the commands
that rewrite and count what is stored compressed. All others ask rules for what they declare (``rules.rule``), and who
carries state between processes knows the ports of
``rules.shared_state``."""


def folders(root: Path) -> set[str]:
    return {file.parent.name for file in root.glob("*/*.py")}


def known_by(modules: Mapping[str, ast.Module]) -> Iterator[tuple[str, str]]:
    """Each guardrail, and a module outside of its folder that imports from it."""
    for module, tree in modules.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("proxy.rules."):
                guardrail = node.module.split(".")[2]
                if guardrail in GUARDRAILS and not module.startswith(f"rules/{guardrail}/"):
                    yield guardrail, module


def test_each_guardrail_is_a_folder_with_its_yaml_and_its_cases() -> None:
    assert folders(RULES) == GUARDRAILS.keys()
    assert folders(TESTS) == GUARDRAILS.keys()
    assert {name for name in GUARDRAILS if not (RULES / name / "yaml.py").exists()} == set()
    assert {name for name in GUARDRAILS if not (TESTS / name / "cases.py").exists()} == set()
    assert {kind.__module__.split(".")[2] for kind in ORDER} == GUARDRAILS.keys()


@pytest.mark.source
def test_who_adds_a_guardrail_changes_what_the_recipe_says() -> None:
    found: dict[str, set[str]] = {}
    for guardrail, module in known_by(trees()):
        if module not in RECIPE and not module.startswith(CHECKS):
            found.setdefault(guardrail, set()).add(module)
    assert found == KNOWN_BY


@pytest.mark.parametrize(
    "source", ["from proxy.rules.sizes.rule import Sizes", "if 1:\n from proxy.rules.sizes import x"]
)
def test_a_module_that_knows_a_guardrail_is_found(source: str) -> None:
    tree = ast.parse(source)
    assert list(known_by({"one.py": tree, "rules/sizes/rule.py": tree})) == [("sizes", "one.py")]
