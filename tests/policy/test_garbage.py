"""The garbage collector stops every client while it visits objects: plans give it few objects, and a policy that is no
longer in force is freed without it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from proxy.commands.table import STANDARD
from proxy.policy.compile import PolicyCompiler
from proxy.policy.load import load_policy
from proxy.policy.model import Policy
from proxy.policy_yaml.shipped import packaged
from proxy.rules.memory import Memory
from tests.policy.given import policy, with_plan

NAMES = ("large", "default", "strict", "cache", "observe")
ENTRIES = 100
LIFETIMES = "".join(
    f'  e{i}: {{key: "team{i % 2}:e{i}:{{id:int}}", type: string, ttl: {i + 5}m}}\n' for i in range(ENTRIES)
)


def large(apps: int) -> str:
    """A schema with lifetimes, rules about all of it, and some that differ from app to app."""
    clients = ", ".join(f"app{i}: {{match: {{user: app{i}}}}}" for i in range(apps))
    prefixes = ", ".join(f'app{i}: ["team{i % 2}:", "only{i}:"]' for i in range(apps))
    return (
        f"defaults: {{mode: enforce}}\napps: {{{clients}}}\nschema:\n{LIFETIMES}rules:\n"
        "  known: {names: {in_schema: true}}\n  types: {schema: type}\n  lifetimes: {schema: ttl}\n"
        f"  own: {{names: {{prefixes: {{{prefixes}, default: ['team0:']}}}}}}\n"
        "  no-walks: {refuse: [KEYS]}\n  unlink: {replace: {DEL: UNLINK}}\n  rates: {limits: {per: app, rate: 9/s}}\n"
    )


def named(name: str) -> Policy:
    return policy(large(2)) if name == "large" else load_policy(packaged(name))


@contextmanager
def without_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def looked_at() -> int:
    """The references that a collection follows."""
    return sum(len(gc.get_referents(each)) for each in gc.get_objects())


def test_a_further_app_gives_the_collector_little_to_look_at() -> None:
    policies = [policy(large(apps)) for apps in (2, 12)]
    with without_collections():
        found = []
        for each in policies:
            compiler, before = PolicyCompiler(each, STANDARD, frozenset(), memory=Memory()), looked_at()
            made = [with_plan(compiler, app) for app in each.apps]
            found.append(looked_at() - before)
            del compiler, made
    per_app = (found[1] - found[0]) / 10
    assert per_app < 2 * len(STANDARD.specs), "less than a few lists of all commands"


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_ends_without_the_collector(name: str) -> None:
    held = named(name)
    with without_collections():
        compiler = PolicyCompiler(held, STANDARD, memory=Memory())
        made = [with_plan(compiler, app) for app in (None, *held.apps)]
        parts: list[Any] = [*made, *(step.rule for each in made for step in each.steps)]
        alive = [weakref.ref(part) for part in parts]
        del compiler, made, parts
        assert [part for each in alive if (part := each()) is not None] == []


@pytest.mark.parametrize("name", NAMES)
def test_plans_that_are_made_again_leave_nothing_behind(name: str) -> None:
    held = named(name)
    compiler = PolicyCompiler(held, STANDARD, memory=Memory())

    def make() -> None:
        for paused in (False, True):
            for app in (None, *held.apps):
                with_plan(compiler, app, paused=paused)

    make()
    with without_collections():
        before = looked_at()
        make()
        assert looked_at() == before
