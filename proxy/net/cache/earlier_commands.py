"""Commands in flight when caching of their keys starts: they hold no keys in the local cache.

Most are answered soon, and hold everything back until then. A client that is blocked in Redis may stay so for hours.
Until its replies have come, it is on a connection of its own, where nothing is answered from memory; what it may write
changes nothing before. When they come, they hold everything back for a moment: until Redis's invalidations have come,
too. What stands in an open transaction does so when EXEC is sent.
"""

from collections.abc import Iterable, Sequence

from proxy.hotpath.cache.reply_cache import ReplyCache
from proxy.hotpath.intake.command_sender import CommandSender
from proxy.session.ports.client import ServedClient


class EarlierCommands:
    """Those of all clients of a route; they may be about any of the caches."""

    def __init__(self) -> None:
        self._lasting: dict[CommandSender, tuple[int, bool]] = {}

    def note(self, client: ServedClient, caches: Sequence[ReplyCache], untold: bool = True) -> None:
        """What this client has sent so far has held no keys, or not all; whether Redis may not tell of some."""
        sender = client.sender
        _note_queued(client)
        if not sender.finished(sender.requested) and not self._lasts(client, sender.pending_replies > 1):
            sender.notify_when_idle = True
            for cache in caches:
                cache.hold_back(sender, sender.requested, untold)

    def besides_lasting(self, clients: Iterable[ServedClient]) -> list[CommandSender]:
        """Keys become hot, which these clients have not held so far: those whose pending commands are to hold them."""
        found = []
        for client in clients:
            _note_queued(client)
            if not client.sender.finished(client.sender.requested) and not self._lasts(client, False):
                found.append(client.sender)
        return found

    def _lasts(self, client: ServedClient, untold: bool) -> bool:
        # A blocking command alone changes nothing that Redis does not tell.
        sender = client.sender
        if not client.blocked:
            return False
        sender.notify_when_idle = True
        _, known = self._lasting.get(sender, (0, False))
        self._lasting[sender] = (sender.requested, untold or known)
        return True

    def look_again(self, sender: CommandSender, caches: Sequence[ReplyCache]) -> None:
        """Replies to this client have come."""
        noted = self._lasting.get(sender)
        if noted is None:
            return
        position, untold = noted
        if not sender.finished(position):
            sender.notify_when_idle = True
            return
        del self._lasting[sender]
        for cache in caches:
            cache.hold_back(sender, position, untold)

    def look_at_all(self, caches: Sequence[ReplyCache]) -> None:
        """Look at those, too, who have left, or send more before their replies have come."""
        for sender in list(self._lasting):
            self.look_again(sender, caches)


def _note_queued(client: ServedClient) -> None:
    reads = client.intake.cached_reads
    if reads is not None and reads.queued is not None:
        reads.queued.add_any(False)
