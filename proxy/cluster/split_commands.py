"""The commands that the hot path may split by the slots of their keys, and the errors if parts fail."""

from collections.abc import Sequence

from proxy.cluster.hidden_nodes import hidden_redirect
from proxy.cluster.joins import first_error, keys_failed
from proxy.commands.over_nodes import Destination, Join
from proxy.commands.table import Table
from proxy.hotpath.order.split_join import SUM, VALUES, SplitCommands

_KINDS = {Join.BY_KEY: VALUES, Join.SUM: SUM}


def split_commands(table: Table) -> SplitCommands:
    """Those of this table."""
    kinds = [
        _KINDS.get(spec.over_nodes.join, 0) if spec.over_nodes.destination is Destination.SPLIT else 0
        for spec in table.specs
    ]

    def failed(command_id: int, renamed: bytes, places: list[list[int]], frames: Sequence[bytes]) -> bytes:
        spec = table.specs[command_id]
        name = renamed.split(b"\r\n")[1].decode() if renamed else spec.name
        return hidden_redirect(keys_failed(name, 1, places, frames) if spec.write else first_error(frames))

    return SplitCommands(bytes(kinds), failed)
