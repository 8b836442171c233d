"""Sliding TTLs: each use of a key renews its default.

A hidden command behind the use lengthens the remaining TTL. A key without a TTL gets none by a read, and a longer TTL
is kept.
"""

from collections.abc import Callable, Sequence
from functools import partial

from proxy.commands.command import Command
from proxy.commands.row import NULLS
from proxy.commands.table import ConnectionState, Spec
from proxy.rules.context import Context
from proxy.rules.lifetime.scope import LifetimeScope
from proxy.rules.lifetime.ttl_commands import TtlCommands
from proxy.rules.verdict import PASS, Pass, Surround, Verdict

_MOST_KEYS = 128
"""The most keys of one command that are renewed; an MGET of more keys is no use of a session."""


class Uses:
    """Renews the keys that commands use."""

    def __init__(self, scope: LifetimeScope, ttl_commands: TtlCommands) -> None:
        self._bounds_of = scope.bounds_of
        self._ttl_commands = ttl_commands

    def concerns(self, spec: Spec) -> bool:
        """Whether the command uses the values of keys; commands about keys (TTL, TYPE) or that delete them do not."""
        return spec.state is ConnectionState.POOL and "keyspace" not in spec.categories and spec.may_have_keys

    def judge(self, command: Command, context: Context) -> Verdict:
        """Follow the use of keys with sliding TTLs; PASS if there are none."""
        renewed = []
        for name in dict.fromkeys(key.name for key in command.keys):
            bounds = self._bounds_of(name)
            if bounds is not None and bounds.sliding and bounds.default is not None:
                renewed.append((name, bounds.seconds(context.random())))
        if not renewed:
            return PASS
        if self._ttl_commands.obstacle:
            return Pass(skipped=self._ttl_commands.obstacle)
        conclude = partial(_renew, self._ttl_commands.renew, renewed[:_MOST_KEYS])
        return Surround(conclude, "EXPIRE to lengthen what the key has left")


def _renew(
    renew: Callable[[bytes, int], list[bytes]],
    renewed: Sequence[tuple[bytes, int]],
    reply: bytes,
    _lines: Sequence[bytes],
) -> Sequence[Sequence[bytes]]:
    return [] if reply in NULLS else [renew(name, seconds) for name, seconds in renewed]
