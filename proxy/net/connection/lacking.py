"""Texts about commands that rules send and that Redis does not have, or that the user may not run.

The start log, ``keyrail_feature_off`` and `keyrail doctor` use the same texts.
"""

from collections.abc import Collection, Sequence
from typing import Protocol

WITHOUT_MULTI = "this needs MULTI and DISCARD, which Redis refuses; rules send none of these commands"
UNCLEAR = "Redis is a replica, is loading, or answers another error of the moment; Keyrail asks again"

_FORMS = {"EXPIRE": "EXPIRE with NX"}
"""The form in which rules send a command."""


_RENAMED = "so no rule applies to "
_NO_ALIAS = "--aliases: "
_SHOWN = 8


class KnownEngine(Protocol):
    """An engine, as far as texts name it."""

    name: str
    version_text: str


def renamed(names: Sequence[str]) -> str:
    """The text about commands that Redis has, but not by these names."""
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    return (
        f"Redis has renamed {shown} (rename-command), {_RENAMED}what it calls them now: "
        f"name it, as in --aliases {names[0]}=NEW-NAME"
    )


def alias_unknown(alias: str) -> str:
    """The text about an alias that Redis does not know."""
    return f"{_NO_ALIAS}Redis has no command {alias}"


def is_gap(text: str) -> bool:
    """Whether a text is about commands that pass without a rule that is meant for them."""
    return _RENAMED in text or text.startswith(_NO_ALIAS)


def not_allowed(names: Collection[str]) -> str:
    """The text about commands that the user may not run."""
    return f"the user may not run {', '.join(sorted(names))}, which rules of the policy send"


def not_told(names: Collection[str], why: str) -> str:
    """The text about commands of which it is not known whether the user may run them."""
    return (
        f"it cannot be told whether the user may run {', '.join(sorted(names))}, which rules of the policy send: {why}"
    )


def not_known(engine: KnownEngine, name: str, able: Collection[str]) -> str:
    """The text about a command that the engine does not have, where the user may run the ``able`` ones."""
    known = f"{engine.name.capitalize()} {engine.version_text}".strip()
    return f"{known} has no {_FORMS.get(name, name)}; {_instead_of(name, able)}"


def has_substitute(name: str, able: Collection[str]) -> bool:
    """Whether rules can send another command in place of one that the engine does not have."""
    return name in ("MSETEX", "EXPIRE") and ("EXPIRE" in able or "EVAL" in able)


def _instead_of(name: str, able: Collection[str]) -> str:
    if not has_substitute(name, able):
        return "rules that send it leave the client's command as it is"
    if name == "EXPIRE":
        return "Keyrail runs a script (EVAL) instead"
    follow_up = "EXPIRE" if "EXPIRE" in able else "EVAL"
    return f"lifetimes on MSET and MSETNX use a follow-up {follow_up} instead"
