"""``apps: {checkout: {team: checkout, contact: "#checkout", match: {user: checkout}}}``."""

import re
from collections.abc import Callable
from dataclasses import replace

from proxy.policy.apps import UNKNOWN, App, Match, covers_text
from proxy.policy.networks import Network, contains
from proxy.policy.sections.networks import read_network
from proxy.policy.sections.rollout import DEFAULT
from proxy.policy_yaml.errors import shown
from proxy.policy_yaml.fields import Fields, one_or_more, read_fields, read_line, read_mapping
from proxy.policy_yaml.globs import read_pattern
from proxy.policy_yaml.yaml_source import Problems, Value

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?")
_TAKEN = (UNKNOWN, DEFAULT)
"""Reserved names: for clients of no app, and in a rollout for all apps."""
_TEXTS = ("user", "client_name", "listener", "certificate")
_ADDRESS = "address"
_read_texts = one_or_more(read_pattern, covers_text)
_read_networks: Callable[[Value, Problems], tuple[Network, ...] | None] = one_or_more(read_network, contains)
_ANY: tuple[str, ...] = ()


def read_apps(value: Value, problems: Problems) -> tuple[App, ...] | None:
    """The apps, in the order of the file."""
    mapping = read_mapping(value, problems)
    if mapping is None:
        return None
    found: list[App] = []
    for name, body in mapping.entries.items():
        path = f"{mapping.path}.{name}"
        if not _NAME.fullmatch(name) or name in _TAKEN:
            expected = "a name of lower-case letters, digits, hyphens and underscores, at most 64, and not "
            expected += " or ".join(_TAKEN)
            problems.add(mapping.keys[name], path, shown(name), expected)
        fields = read_fields(body, problems)
        if fields is not None:
            found.append(_read_app(name, fields, found))
    return tuple(found)


def _read_app(name: str, fields: Fields, others: list[App]) -> App:
    team, contact = fields.read("team", read_line, ""), fields.read("contact", read_line, "")
    app = App(name, fields.where, team, contact)
    match = fields.take("match")
    if fields.lacks("match"):
        expected = "how its clients are recognised, such as {user: checkout}"
        fields.problems.add(fields.where, fields.path_of("match"), "nothing", expected)
    elif match is not None:
        matched = read_fields(match, fields.problems)
        if matched is not None:
            app = _read_match(app, matched)
            same = next((each for each in others if each.match == app.match), None)
            if same is not None and app.match.conditions:
                expected = f"other conditions than those of {same.name}: no client can match this app"
                fields.problems.add(matched.where, matched.path, "the same clients", expected)
    fields.finish()
    return app


def _read_match(app: App, fields: Fields) -> App:
    user, client_name, listener, certificate = (fields.read(key, _read_texts, _ANY) for key in _TEXTS)
    networks: tuple[Network, ...] = fields.read(_ADDRESS, _read_networks, ())
    known = (*_TEXTS, _ADDRESS)
    if not any(key in fields for key in known) and not fields.says_more_than(""):
        fields.problems.add(fields.where, fields.path, "nothing", f"at least one of {', '.join(known)}")
    fields.finish()
    listener = tuple({each.rpartition("://")[2] for each in listener})
    # In one order, so that equal lists are equal.
    user, client_name, listener, certificate = map(_ordered, (user, client_name, listener, certificate))
    return replace(app, match=Match(user, client_name, listener, certificate, tuple(sorted(networks, key=str))))


def _ordered(patterns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(patterns))
