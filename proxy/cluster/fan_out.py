"""One command for several nodes: what each of them is sent, and how their replies become one.

Most commands are the same for each node. RANDOMKEY also asks how many keys each node has, so that each key is as likely
as others. PUBLISH is not one of these: see ``publishing``.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from proxy.cluster.joins import Joiner, joiner, random_key
from proxy.commands.command import Command
from proxy.commands.over_nodes import Destination, Join

_DESTINATIONS = frozenset({Destination.ALL_PRIMARIES, Destination.ALL_NODES})


class FanOut(NamedTuple):
    """``requests`` has for each node the commands that it is sent; ``joined`` makes one frame of the frames for all of
    them, in this order. ``command`` and ``names`` are the client's command and the nodes, for errors."""

    requests: Sequence[Sequence[Sequence[bytes]]]
    joined: Joiner
    command: str = ""
    names: Sequence[str] = ()

    def without(self, missing: Mapping[int, bytes]) -> "FanOut":
        """The same where some nodes, by their places, cannot be asked: these are the frames in place of theirs."""
        if not missing:
            return self
        requests = [each for index, each in enumerate(self.requests) if index not in missing]
        return self._replace(requests=requests, joined=partial(_joined_with, self.joined, self.requests, missing))


def _joined_with(
    joined: Joiner, requests: Sequence[Sequence[object]], missing: Mapping[int, bytes], frames: Sequence[bytes]
) -> bytes:
    came, every = iter(frames), []
    for index, each in enumerate(requests):
        every += [missing[index] if index in missing else next(came) for _ in each]
    return joined(every)


def goes_to_several(command: Command) -> bool:
    """Whether ``fan_out`` has to do with it."""
    return command.spec.over_nodes.destination in _DESTINATIONS


def fan_out(command: Command, nodes: Sequence[str], protocol: int, chance: float) -> FanOut:
    """The requests for these nodes, named as errors are to name them. ``chance`` is a random number from 0 to 1."""
    argv, join = command.argv, command.spec.over_nodes.join
    if join is Join.NOT_NULL:
        return FanOut([[argv, [b"DBSIZE"]]] * len(nodes), partial(random_key, chance, protocol))
    return FanOut([[argv]] * len(nodes), joiner(join, command.name, nodes), command.name, nodes)
