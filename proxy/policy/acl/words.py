"""Rights as the words of ``ACL SETUSER``: first all that the user had is taken away, but for its passwords."""

from collections.abc import Iterator, Mapping

from proxy.commands.sort_patterns import SORTS
from proxy.commands.spec import Spec
from proxy.commands.table import STANDARD
from proxy.policy.acl.keys import KeyRights
from proxy.policy.acl.rights import Rights
from proxy.policy.acl.versions import Version, is_keyrails_own


def words_of(rights: Rights, version: Version) -> tuple[str, ...]:
    """All words behind the user's name. A policy says nothing about channels, but for those of tenants."""
    sorts = [f"+{name.lower()}" for name in sorted(SORTS) if name not in rights.denied]
    return (
        "on",
        *(["clearselectors"] if version.selectors else []),
        *("resetkeys", "resetchannels"),
        *_key_words(rights.keys),
        *(["&*"] if rights.channels is None else [f"&{each.glob}" for each in rights.channels]),
        *_command_words(rights, version),
        *([f"({' '.join(sorts)} ~*)"] if rights.sorts and version.selectors else []),
    )


def words_elsewhere(rights: Rights, version: Version) -> tuple[str, ...]:
    """The words about commands that this engine does not have: modules may bring them, or a later version. Redis takes
    no word about a command that it does not have."""
    absent = [spec for spec in STANDARD.specs if not is_keyrails_own(spec) and not version.has(spec)]
    if not version.selectors:
        absent = [spec for spec in absent if "|" not in spec.name]
    if rights.passing_categories is None:
        return tuple(f"-{spec.name.lower()}" for spec in absent if spec.name in rights.denied)
    untold = (spec for spec in absent if spec.name not in rights.denied)
    return tuple(f"+{spec.name.lower()}" for spec in untold if rights.passing_categories.isdisjoint(spec.categories))


def _key_words(keys: KeyRights) -> Iterator[str]:
    if keys.written is None:
        yield "~*"
        return
    yield from (f"~{each.glob}" for each in keys.written)
    if keys.read is None:
        yield "%R~*"
        return
    for each in keys.read:
        if not any(written.covers(each) for written in keys.written):
            yield f"%R~{each.glob}"


def _command_words(rights: Rights, version: Version) -> Iterator[str]:
    if rights.passing_categories is None:
        yield "+@all"
    else:
        yield "-@all"
        yield from (f"+@{category}" for category in sorted(rights.passing_categories))
    for spec in STANDARD.specs:
        if not is_keyrails_own(spec) and version.has(spec) and "|" not in spec.name:
            yield from _words_about(spec, rights, version)


def _words_about(spec: Spec, rights: Rights, version: Version) -> Iterator[str]:
    name = spec.name.lower()
    family = [each for each in STANDARD.subcommands(spec.name) if version.has(each)] if spec.container else []
    allowed = {each.name.lower(): each.name not in rights.denied for each in (family or [spec])}
    whole = spec.name not in rights.denied
    if rights.passing_categories is None:
        if not (whole or any(allowed.values())):
            yield f"-{name}"
        elif not all(allowed.values()):
            yield from _some(name, allowed, version)
    elif whole and all(allowed.values()):
        yield f"+{name}"
    else:
        if rights.passing_categories:
            yield f"-{name}"  # one of the categories may have it
        yield from (f"+{each}" for each, is_allowed in allowed.items() if is_allowed)


def _some(container: str, allowed: Mapping[str, bool], version: Version) -> Iterator[str]:
    """The words that deny some subcommands and leave the others. Redis 6.2 can only add to a denied command."""
    if version.selectors:
        yield from (f"-{each}" for each, is_allowed in allowed.items() if not is_allowed)
    else:
        yield f"-{container}"
        yield from (f"+{each}" for each, is_allowed in allowed.items() if is_allowed)
