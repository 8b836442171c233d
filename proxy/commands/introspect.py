"""An engine's COMMAND reply, read into plain descriptions.

The reply differs by engine and protocol: Redis 6.2 has no key specifications, tips or subcommands; RESP3
turns the specifications into maps. Text may be bytes or str, as the decoder is configured. Entries that
cannot be read are left out: an unexpected reply must not prevent the proxy from starting.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from proxy.commands.spec import KeySpec

_MOST_ARGUMENTS = 1 << 20
"""Larger positions are invalid: Redis takes no more arguments."""


class Description(NamedTuple):
    """What an engine reports about one command."""

    name: str
    arity: int
    container: bool
    flags: frozenset[str]
    categories: frozenset[str]
    key_specs: tuple[KeySpec, ...]
    request_policy: str = ""
    response_policy: str = ""


def descriptions(reply: object) -> Iterator[Description]:
    """The commands of a decoded COMMAND reply, each container before its subcommands."""
    for entry in _items(reply):
        yield from _described(entry, parent="")


def _described(entry: object, parent: str) -> Iterator[Description]:
    fields = _items(entry)
    if len(fields) < 6 or not isinstance(fields[1], int):
        return
    name = text(fields[0]).upper()
    if not name.isascii() or not name.isprintable() or not name:
        return
    if parent and "|" not in name:
        name = f"{parent}|{name}"
    subcommands = _items(fields[9]) if len(fields) > 9 else []
    key_specs = tuple(_key_specs(fields[8])) if len(fields) > 8 else ()
    if not key_specs and not subcommands:
        key_specs = tuple(_legacy_range(fields))
    tips = dict(tip.split(":", 1) for tip in map(text, _items(fields[7] if len(fields) > 7 else ())) if ":" in tip)
    yield Description(
        name=name,
        arity=fields[1],
        container=bool(subcommands),
        flags=frozenset(text(flag) for flag in _items(fields[2])),
        categories=frozenset(text(category).removeprefix("@") for category in _items(fields[6]))
        if len(fields) > 6
        else frozenset(),
        key_specs=key_specs,
        request_policy=tips.get("request_policy", ""),
        response_policy=tips.get("response_policy", ""),
    )
    if not parent:
        for subcommand in subcommands:
            yield from _described(subcommand, parent=name)


def _legacy_range(fields: list[Any]) -> Iterator[KeySpec]:
    first, last, step = fields[3:6]
    if not all(isinstance(value, int) and abs(value) < _MOST_ARGUMENTS for value in (first, last, step)):
        return
    flags = {text(flag) for flag in _items(fields[2])}
    access = frozenset({"RO"} if "readonly" in flags else {"RW"})
    if "movablekeys" in flags:
        yield KeySpec(access, "unknown", find="unknown")
    if first <= 0 or step <= 0:
        return
    yield KeySpec(access, "index", start=first, last=last if last < 0 else last - first, step=step)


def _key_specs(reply: object) -> Iterator[KeySpec]:
    for item in _items(reply):
        fields = pairs(item)
        begin = pairs(fields.get("begin_search"))
        find = pairs(fields.get("find_keys"))
        begin_type, find_type = text(begin.get("type")), text(find.get("type"))
        where, how = pairs(begin.get("spec")), pairs(find.get("spec"))
        flags = frozenset(text(flag) for flag in _items(fields.get("flags")))
        values: dict[str, Any] = {"begin": "unknown", "find": "unknown"}
        if begin_type == "index" and _number(where, "index") > 0:
            values.update(begin="index", start=_number(where, "index"))
        elif begin_type == "keyword":
            word = text(where.get("keyword"))
            values.update(begin="keyword", keyword=word, start=_number(where, "startfrom"))
        if find_type == "range":
            values.update(
                find="range",
                last=_number(how, "lastkey"),
                step=max(1, _number(how, "keystep")),
                limit=max(0, _number(how, "limit")),
            )
        elif find_type == "keynum":
            values.update(
                find="keynum",
                count_at=max(0, _number(how, "keynumidx")),
                first_key=max(0, _number(how, "firstkey")),
                step=max(1, _number(how, "keystep")),
            )
        yield KeySpec(flags, **values)


def pairs(value: object) -> dict[str, Any]:
    """A RESP3 map, or RESP2's flat list of names and values, as a dictionary with text keys."""
    if isinstance(value, dict):
        return {text(key): item for key, item in value.items()}
    items = _items(value)
    return {text(key): item for key, item in zip(items[::2], items[1::2], strict=False)}


def text(value: object) -> str:
    """A name as str; empty if the value is not text."""
    if isinstance(value, bytes):
        return value.decode("ascii", "replace")
    return value if isinstance(value, str) else ""


def _number(fields: dict[str, Any], name: str) -> int:
    value = fields.get(name)
    return value if isinstance(value, int) and abs(value) < _MOST_ARGUMENTS else 0


def _items(value: object) -> list[Any]:
    if isinstance(value, dict) or not isinstance(value, Iterable) or isinstance(value, (str, bytes)):
        return []
    return list(value)
