"""A policy's schema as Markdown: its keys, their owners, what each contains, and how they belong together."""

from collections.abc import Sequence

from proxy.policy.apps import App
from proxy.policy.model import Policy
from proxy.policy_yaml.fields import write_duration
from proxy.schema.bounds import Bounds
from proxy.schema.entries import KeyEntry, KeySize

_SIZES = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"), (1, "B"))
_SPECIAL = "\\`*_[]<>|#"
_HEADER = "| keys | name | type | TTL | size | about |\n|---|---|---|---|---|---|"


def schema_docs(policy: Policy) -> str:
    """The whole text: one table for each app with entries, and one for shared entries."""
    apps = {app.name: app for app in policy.apps}
    sections = ["# Keys"]
    for name in sorted({entry.app for entry in policy.schema.entries}):
        entries = sorted(
            (entry for entry in policy.schema.entries if entry.app == name), key=lambda entry: entry.pattern.text
        )
        sections += [_heading(name, apps.get(name)), "\n".join([_HEADER, *map(_row, entries)])]
    if not policy.schema.entries:
        sections.append("This policy has no schema.")
    if any(entry.relates_to for entry in policy.schema.entries):
        sections += ["## How they belong together", _picture(policy.schema.entries)]
    return "\n\n".join(sections) + "\n"


def _heading(name: str, app: App | None) -> str:
    if not name:
        return "## Shared"
    known = [] if app is None else [f"team {app.team}" if app.team else "", app.contact]
    said = ", ".join(_plain(each) for each in known if each)
    return f"## {name}\n\nOwned by {said}." if said else f"## {name}"


def _row(entry: KeyEntry) -> str:
    example = f"<br/>such as {_code(entry.example)}" if entry.example else ""
    cells = (
        _code(entry.pattern.text) + example,
        entry.name,
        (entry.type or "any") + _fields(entry),
        "" if entry.lifetime is None else _lifetime(entry.lifetime),
        "" if entry.size is None else _size(entry.size),
        _plain(entry.about),
    )
    return f"| {' | '.join(cells)} |"


def _fields(entry: KeyEntry) -> str:
    if entry.fields is None:
        return ""
    return " of " + ", ".join(f"{_code(name)} {kind}" for name, kind in entry.fields.types)


def _picture(entries: Sequence[KeyEntry]) -> str:
    """Entries that relate to others, as a graph of Mermaid."""
    number = {entry.title: i for i, entry in enumerate(entries)}
    edges = [(number[entry.title], number[other]) for entry in entries for other in entry.relates_to]
    shown = sorted({end for edge in edges for end in edge})
    nodes = [f'    e{i}["{entries[i].title}<br/>{_in_mermaid(entries[i].pattern.text)}"]' for i in shown]
    return "\n".join(
        ["```mermaid", "flowchart LR", *nodes, *(f"    e{one} --> e{other}" for one, other in edges), "```"]
    )


def _in_mermaid(text: str) -> str:
    """Text in a quoted label: Mermaid's own escapes are character references with "#" in place of "&#"."""
    return "".join(char if char.isalnum() or char in "-_./" else f"#{ord(char)};" for char in text)


def _lifetime(lifetime: Bounds) -> str:
    if lifetime.permanent:
        return "none, on purpose"
    said = []
    if lifetime.default is not None:
        jitter = f" ± {100 * lifetime.jitter:.3g}%" if lifetime.jitter else ""
        renewed = ", renewed by each access" if lifetime.sliding else ""
        said.append(f"{write_duration(lifetime.default)}{jitter}{renewed}")
    if lifetime.required:
        said.append("required")
    if lifetime.least is not None:
        said.append(f"at least {write_duration(lifetime.least)}")
    if lifetime.most is not None:
        said.append(f"at most {write_duration(lifetime.most)}")
    if lifetime.jitter_stated:
        said.append(f"stated ones ± {100 * lifetime.jitter_stated:.3g}%")
    return "; ".join(said)


def _size(size: KeySize) -> str:
    said = []
    if size.most_bytes is not None:
        said.append(_largest_unit(size.most_bytes))
    if size.most_members is not None:
        trimmed = ", lists trimmed" if size.trims else ""
        said.append(f"{size.most_members:,} members{trimmed}")
    if size.members_per_write is not None:
        said.append(f"{size.members_per_write:,} members per write")
    return ", ".join(said)


def _largest_unit(count: int) -> str:
    return next(f"{count // size}{unit}" for size, unit in _SIZES if count % size == 0)


def _code(text: str) -> str:
    """Code in a cell: the bar would end it, and a backquote the code."""
    fence = "``" if "`" in text else "`"
    return fence + text.replace("|", "\\|") + fence


def _plain(text: str) -> str:
    """Text with its Markdown escaped."""
    return "".join(f"\\{char}" if char in _SPECIAL else char for char in text)
