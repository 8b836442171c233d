"""The hidden commands that give a key a TTL or renew it, and those that prove that the key may get one.

    give     EXPIRE k n NX     only if the key has no TTL: a TTL that the application sets meanwhile stays
    renew    EXPIRE k n GT     only if the key has a shorter TTL: no TTL counts as the longest
    change   EXPIRE k n XX     only if the key has a TTL

Redis before 7.0 has none of these options; there a script of one line does the same.
"""

from proxy.rules.own_scripts import CHANGE, GIVE, RENEW
from proxy.rules.rule import Binding
from proxy.rules.verdict import Renewal

NEEDS = frozenset({"EVAL", "EXEC", "EXISTS", "EXPIRE", "TTL", "TYPE"})
"""The names of hidden commands. EXPIRE stands for EXPIRE with its options."""


class TtlCommands:
    """The hidden commands that this engine runs for this user.

    `obstacle` says why no TTL can be set or renewed, `proof_obstacle` why nothing can be proved before a command; both
    are empty if there is no obstacle.
    """

    def __init__(self, binding: Binding) -> None:
        self._has_options = binding.can_send("EXPIRE")
        self.obstacle = "" if self._has_options or binding.can_send("EVAL") else _unknown("EXPIRE with NX")
        missing = [name for name in ("EXEC", "EXISTS", "TTL", "TYPE") if not binding.can_send(name)]
        self.proof_obstacle = _unknown(missing[0]) if missing else self.obstacle

    def give(self, key: bytes, seconds: int) -> list[bytes]:
        """Give the key a lifetime if it has none."""
        return self._expire(key, seconds, b"NX", GIVE)

    def renew(self, key: bytes, seconds: int) -> Renewal:
        """Lengthen the key's lifetime."""
        return Renewal(key, b"GT", self._expire(key, seconds, b"GT", RENEW))

    def stamp(self, key: bytes, seconds: int) -> Renewal:
        """Give the key a lifetime if it has none, whoever has created it."""
        return Renewal(key, b"NX", self.give(key, seconds))

    def change(self, key: bytes, seconds: int) -> list[bytes]:
        """Give the key another lifetime if it has one."""
        return self._expire(key, seconds, b"XX", CHANGE)

    def _expire(self, key: bytes, seconds: int, option: bytes, script: bytes) -> list[bytes]:
        number = b"%d" % seconds
        return [b"EXPIRE", key, number, option] if self._has_options else [b"EVAL", script, b"1", key, number]


def _unknown(name: str) -> str:
    return f"Redis does not have {name}, or this user may not run it"
