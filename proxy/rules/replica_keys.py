"""The reads that several rules leave to replicas, for a plan: which of the rules a key belongs to.

Each set of rules that some key belongs to has terms of its own: those of the enforced rule with the smallest lag, or,
where none of them is enforced, terms that only count.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from proxy.hotpath.plan.automaton import NOBODY, Automaton
from proxy.hotpath.plan.plan import Plan
from proxy.hotpath.plan.replica_reads import ReplicaReads, ReplicaTerms
from proxy.rules.key_globs import KeyGlob
from proxy.rules.name_language import MOST_CELLS
from proxy.schema.automaton import automaton_of_sets
from proxy.schema.globs import parts_expression

_MOST_STEPS = 2_000_000
"""The most steps to build the automaton of all patterns: about a second of a worker's thread."""


@dataclass(frozen=True, slots=True)
class ReplicaRule:
    """One rule at its place among all rules: its terms, and the keys that it is about."""

    place: int
    terms: ReplicaTerms
    keys: tuple[KeyGlob, ...]


def strictest(terms: Sequence[ReplicaTerms]) -> ReplicaTerms:
    """What holds where all of these do; there is at least one."""
    return min(terms, key=lambda each: (not each.enforced, each.max_lag, not each.same_zone))


def fit_plan(rules: Sequence[ReplicaRule]) -> bool:
    """Whether a plan can find the keys of these rules."""
    return not rules or _owners(tuple(rule.keys for rule in rules)) is not None


def add_rules(rules: Sequence[ReplicaRule], plan: Plan) -> dict[int, tuple[int, ...]]:
    """Add rules that ``fit_plan`` to a plan without any; return the places of the rules that each counter is for."""
    found = _owners(tuple(rule.keys for rule in rules))
    assert found is not None, "they fit"
    keys, sets = found
    together = [[rules[number] for number in numbers] for numbers in sets]
    counters = {plan.add_counter(): tuple(rule.place for rule in each) for each in together}
    terms = [strictest([rule.terms for rule in each]) for each in together]
    plan.replica_reads = ReplicaReads(keys, terms, list(counters))
    return counters


@lru_cache(maxsize=64)  # the same keys concern most commands, and a policy is bound for each application and user
def _owners(keys: tuple[tuple[KeyGlob, ...], ...]) -> tuple[Automaton, tuple[tuple[int, ...], ...]] | None:
    """The automaton that finds the number of a set of rules, and these sets; None if it would be too large."""
    rule_of = [number for number, globs in enumerate(keys) for _ in globs]
    numbers: dict[tuple[int, ...], int] = {}

    def owner(languages: frozenset[int]) -> int:
        rules = tuple(sorted({rule_of[language] for language in languages}))
        return numbers.setdefault(rules, len(numbers)) if rules else NOBODY

    languages = [parts_expression(glob.parts) for globs in keys for glob in globs]
    automaton = automaton_of_sets(languages, owner, MOST_CELLS, _MOST_STEPS)
    return None if automaton is None else (automaton, tuple(numbers))
