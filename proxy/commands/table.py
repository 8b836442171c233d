"""The command table: what engines report, joined with the rows of commands.

Ids are positions in ``Table.specs``; they index everything on the hot path. They do not change when a table is
completed from a running engine. They mean nothing outside the process.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from proxy.commands.introspect import Description, descriptions
from proxy.commands.keyrail_commands import keyrail_commands
from proxy.commands.keys import UNKNOWN_KEYS, KeyFinder
from proxy.commands.lookup import Lookup
from proxy.commands.over_nodes import ANY_NODE, REFUSED, tipped
from proxy.commands.overlay import (
    creates_of,
    drops_ttl,
    lane_of,
    only_reads,
    over_nodes,
    own_errors,
    process_bound,
    state_of,
)
from proxy.commands.published import published_commands
from proxy.commands.recorded import standard_commands
from proxy.commands.spec import ConnectionState, KeySpec, Lane, Spec
from proxy.commands.words import LONGEST
from proxy.wire.request import Request

__all__ = ["STANDARD", "ConnectionState", "KeySpec", "Lane", "Spec", "Table"]


UNKNOWN = Spec(
    id=0,
    name="",
    arity=0,
    container=False,
    flags=frozenset(),
    categories=frozenset(),
    key_specs=(),
    state=ConnectionState.UNKNOWN,
    lane=Lane.SLOW,
    creates=True,
    drops_ttl=True,
    only_reads=False,
    own_errors=True,
    process_bound=False,
    over_nodes=ANY_NODE,
    since="",
    engines=(),
)
"""Stands for every command that the table does not know; the worst is assumed."""


NOTIFICATIONS = "CLIENT|MAINT_NOTIFICATIONS"
"""With it a server tells clients of other addresses, which lead past Keyrail: to clients no engine knows it."""


class Table:
    """All commands by id, by name, and by the request that carries them."""

    def __init__(self, specs: Sequence[Spec]) -> None:
        self.specs = tuple(specs)
        self._by_name = {spec.name: self.specs[spec.stands_for or spec.id] for spec in self.specs if spec.id}
        self._subcommands: dict[str, list[Spec]] = {}
        for spec in self.specs:
            container, separator, _ = spec.name.partition("|")
            if separator:
                self._subcommands.setdefault(container, []).append(spec)
        stands_for = [spec.stands_for or spec.id for spec in self.specs]
        self.lookup = Lookup([spec.name for spec in self.specs], [spec.container for spec in self.specs], stands_for)
        key_specs = [(spec.name, spec.key_specs) for spec in self.specs]
        self.keys = KeyFinder(key_specs)
        # A finder holds its last answer. Judging a command must not overwrite the answer that the hot path still reads.
        self._judged_keys = KeyFinder(key_specs)
        self._judged = Request()
        self.states = bytes(spec.state for spec in self.specs)
        self.lanes = bytes(spec.lane.value for spec in self.specs)

    def find(self, name: str) -> Spec | None:
        """The command of that name, ``config set`` or ``CONFIG|SET``; None if it is unknown."""
        return self._by_name.get("|".join(name.upper().replace("|", " ").split()))

    def has(self, spec: Spec) -> bool:
        """Whether the command, which was looked up in some table, is one of this table."""
        return spec.id < len(self.specs) and self.specs[spec.id] is spec

    def subcommands(self, container: str) -> tuple[Spec, ...]:
        """The subcommands of a container; empty for any other name."""
        return tuple(self._subcommands.get(container.upper(), ()))

    def spec_of(self, argv: Sequence[bytes]) -> Spec:
        """The command of a request, by its split arguments."""
        self._judged.load(argv[:2])
        return self.specs[self.lookup.find(self._judged)]

    def container_of(self, argv: Sequence[bytes]) -> Spec | None:
        """The container (CONFIG, KEYRAIL) that the first argument names, as Redis reads it; None if it names none."""
        spec = self.spec_of(argv[:1])
        return spec if spec.container else None

    def keys_of(self, spec: Spec, argv: Sequence[bytes]) -> list[tuple[int, bool]] | None:
        """The split arguments of a request that are keys: their indexes, and whether it may write each.

        None if the keys are unknown, which is not the same as a request without keys.
        """
        finder = self._judged_keys
        # No keyword and no count is longer, and values need no copy.
        self._judged.load([argument[:LONGEST] for argument in argv])
        return None if finder.find(spec.id, self._judged) == UNKNOWN_KEYS else finder.listed()

    def with_aliases(self, aliases: Iterable[tuple[str, str]]) -> "Table":
        """This table, in which requests with other names are these commands, too: (command, alias), in capitals.

        All that is known and decided about the command holds for them. An alias that is a command's own name is left
        out: what Redis itself calls so is that command.
        """
        specs = list(self.specs)
        for name, alias in aliases:
            if alias not in self._by_name:
                specs.append(replace(self._by_name[name], id=len(specs), name=alias, stands_for=self._by_name[name].id))
        return self if len(specs) == len(self.specs) else Table(specs)

    @property
    def aliases(self) -> Mapping[str, str]:
        """The command that each alias stands for."""
        return {spec.name: self.specs[spec.stands_for].name for spec in self.specs if spec.stands_for}

    def completed_by(self, command_reply: object) -> "Table":
        """This table and, with new ids, the commands of a running engine that it lacks.

        ``command_reply`` is the engine's COMMAND reply as hiredis decodes it; unreadable entries are left out.
        """
        described = descriptions(command_reply)
        new = [found for found in described if found.name not in self._by_name and found.name != NOTIFICATIONS]
        known = {spec.name: spec.container for spec in self.specs}
        known.update((found.name, found.container) for found in new)
        specs = list(self.specs)
        for found in new:
            container, is_subcommand, _ = found.name.partition("|")
            # A plain command of the table stays one: its ids and its lookups must not change.
            if not is_subcommand or known.get(container):
                specs.append(_spec(len(specs), found))
        return Table(specs)


def _spec(spec_id: int, found: Description, since: str = "", engines: Iterable[str] = ()) -> Spec:
    has_keys = any(key_spec.names_keys for key_spec in found.key_specs)
    state = state_of(found.name, found.flags, has_keys, found.container)
    creates = creates_of(found.name, found.flags)
    nodes = over_nodes(
        found.name,
        found.flags,
        tipped(found.request_policy, found.response_policy),
        has_keys=bool(found.key_specs),
        container=found.container,
    )
    return Spec(
        id=spec_id,
        name=found.name,
        arity=found.arity,
        container=found.container,
        flags=found.flags,
        categories=found.categories,
        key_specs=found.key_specs,
        state=ConnectionState.PIN if state is None else state,
        lane=lane_of(found.name, found.flags),
        creates=True if creates is None else creates,
        drops_ttl=drops_ttl(found.name),
        only_reads=only_reads(found.name, found.flags, container=found.container),
        own_errors=own_errors(found.name, found.flags),
        process_bound=process_bound(found.name, found.categories),
        over_nodes=REFUSED if nodes is None else nodes,
        since=since,
        engines=tuple(engines),
    )


def _standard() -> Table:
    specs = [UNKNOWN]
    for recorded in sorted(
        (*standard_commands(), *published_commands()), key=lambda recorded: recorded.description.name
    ):
        specs.append(_spec(len(specs), recorded.description, recorded.since, recorded.engines))
    for own in keyrail_commands():
        specs.append(replace(_spec(len(specs), own), state=ConnectionState.KEYRAIL))
    return Table(specs)


STANDARD = _standard()
"""The commands of all engines that ``generate`` has read, those that rows describe, and Keyrail's own."""
