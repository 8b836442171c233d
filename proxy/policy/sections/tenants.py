"""``tenants: {prefix: "{app}:", apps: [acme, globex], scripts: trusted, walk: {time: 5s}, count_age: 60s}``.

``flush: walk`` needs ``only_keyrail: yes``: Keyrail holds the writes of its own clients, and nobody else's.
"""

import os
import re
from functools import partial

from proxy.commands.tenant_commands import ScriptTerms
from proxy.policy.tenants import NAMES, NO_TENANTS, TEXT, Piece, Tenants, TenantTerms
from proxy.policy_yaml.errors import shown
from proxy.policy_yaml.fields import Fields, choice, read_duration, read_fields, read_list, read_switch, scan
from proxy.policy_yaml.yaml_source import Problems, Scalar, Value
from proxy.rules.key_walk import WalkBudget
from proxy.rules.key_walk_yaml import read_walk_budget
from proxy.tenants.messages import OF_THE_SERVER

_VARIABLE = r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}"
_NAMED = rf"\{{({'|'.join(NAMES)})\}}"
_PIECE = re.compile(rf"{_VARIABLE}|{_NAMED}|({TEXT}+)")
_PREFIX = re.compile(rf"(?:{_VARIABLE}|{_NAMED}|{TEXT})+")
_TEXT = re.compile(f"{TEXT}+")
_EXPECTED = (
    'a prefix such as "{app}:", of {app}, {user}, {listener}, ${VARIABLE} of the environment, letters, digits and '
    "_.:/@+=,~|#-; other braces would put all keys of a tenant into one slot of a cluster"
)


def read_tenants(value: Value, problems: Problems) -> Tenants | None:
    """The prefix, and the apps whose clients have one."""
    fields = read_fields(value, problems)
    if fields is None:
        return None
    pieces: tuple[Piece, ...] = fields.require("prefix", _read_prefix, (), 'a prefix such as "{app}:"')
    apps: tuple[Scalar, ...] = fields.require("apps", read_list, (), "the apps that are tenants, such as [acme]")
    terms = TenantTerms(
        fields.read("scripts", choice({each.value: each for each in ScriptTerms}), TenantTerms().scripts),
        fields.read("walk", partial(read_walk_budget, make=WalkBudget), WalkBudget()),
        fields.read("count_age", read_duration, TenantTerms().count_age),
        _read_flush(fields),
    )
    fields.finish()
    names = [app.text for app in apps]
    for app in apps:
        if names.count(app.text) > 1:
            problems.unexpected(app, "each app once")
    return Tenants(pieces, frozenset(names), terms, fields.where) if pieces and names else NO_TENANTS


def _read_flush(fields: Fields) -> bool:
    flushes = fields.read("flush", choice({"refuse": False, "walk": True}), False)
    alone = fields.read("only_keyrail", read_switch, False)
    if flushes and not alone:
        expected = "only_keyrail: yes beside it, which says that these tenants' keys are written through this one alone"
        fields.problems.add(fields.where, fields.path_of("flush"), "walk", expected)
        return False
    return flushes


def _read_prefix(value: Value, problems: Problems) -> tuple[Piece, ...] | None:
    match = scan(value, _PREFIX, _EXPECTED, problems)
    if match is None:
        return None
    pieces: list[Piece] = []
    text = ""
    for variable, name, literal in _PIECE.findall(match[0]):
        if name:
            pieces.append(Piece(text, name))
            text = ""
        elif variable and not _TEXT.fullmatch(os.environ.get(variable, "")):
            found = shown(os.environ[variable]) if variable in os.environ else "nothing"
            problems.unexpected(value, f"{variable} in the environment with text of such characters: it has {found}")
            return None
        else:
            text += os.environ[variable] if variable else literal
    pieces.append(Piece(text))
    first, alone = pieces[0].text.encode("ascii"), len(pieces) == 1
    if any(first.startswith(each) or (alone and each.startswith(first)) for each in OF_THE_SERVER):
        problems.unexpected(value, "a prefix that does not begin channels on which Redis itself sends, such as __key")
        return None
    if any(not piece.text for piece in pieces[1:]):
        problems.unexpected(value, 'a character behind each {…} that ends the name, such as the ":" of "{app}:"')
        return None
    return tuple(pieces)
