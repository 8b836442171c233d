"""The ways in which a primary is lost to its clients, and how it comes back."""

from __future__ import annotations

from tests.failover.group import RealGroup, Server


class ByCommand:
    """Sentinels replace a primary that lives."""

    @staticmethod
    def begin(group: RealGroup, old: Server) -> None:
        group.ask_for_failover()

    @staticmethod
    def end(old: Server) -> None:
        """The Sentinels have made it a replica."""


class Killed:
    """It dies, and is started again."""

    @staticmethod
    def begin(group: RealGroup, old: Server) -> None:
        old.kill()

    @staticmethod
    def end(old: Server) -> None:
        old.start()


class Frozen:
    """It hangs, and goes on."""

    @staticmethod
    def begin(group: RealGroup, old: Server) -> None:
        old.freeze()

    @staticmethod
    def end(old: Server) -> None:
        old.thaw()


class Cut:
    """Nobody reaches it, and it lives: what was on the way arrives later."""

    @staticmethod
    def begin(group: RealGroup, old: Server) -> None:
        assert old.way is not None
        old.way.cut()

    @staticmethod
    def end(old: Server) -> None:
        assert old.way is not None
        old.way.mend()


WAYS = (ByCommand, Killed, Frozen, Cut)
