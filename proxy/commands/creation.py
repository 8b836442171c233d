"""How commands bring keys into being: which keys, of what type, and what their replies tell of it.

``overlay`` says *that* a command may create; this says how, for whoever has to act on it. A creation is *fresh* where
what the command leaves is a whole new value, without anything of an old one, its lifetime included (…STORE, MSET).
Otherwise it writes into the key that is there, and only a reply, or a look beforehand, can tell whether it was there.
No reply but that of LPUSH and RPUSH does: a list is never empty, so a length that equals what was pushed is a new list.
(A string can be empty: APPEND's reply tells nothing.)

A reply of ``:0`` says of some commands that nothing was written, and of others (SETBIT, INCRBY) nothing. A null always
says it, but for scripts.
"""

from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.commands.spec import Spec

TYPES = ("string", "hash", "list", "set", "zset", "stream", "other")
"""As TYPE names them; what a module calls its own is ``other``."""
UNKNOWN_TYPE = ""


@dataclass(frozen=True, slots=True)
class Creation:
    """How one command creates keys.

    `type` is UNKNOWN_TYPE where only the key itself can tell. `zero_is_nothing`: so a reply of ``:0`` is to be read.
    `counts_from` is where the pushed elements begin, for the commands whose reply is their length, otherwise 0.
    `last_key_only`: of the keys that it may write, it creates the last. `null_is_nothing`: so is a null. `by_script`:
    it may also take away the lifetime of a key that is there.
    """

    type: str
    fresh: bool = False
    zero_is_nothing: bool = False
    counts_from: int = 0
    last_key_only: bool = False
    null_is_nothing: bool = True
    by_script: bool = False

    @property
    def takes_over(self) -> bool:
        """Whether the key gets what another key has: its value, and its lifetime or the lack of one."""
        return self is _TAKEN_OVER

    def may_have_written(self, reply: bytes) -> bool:
        """Whether something may have been written, by the first line of a reply that is no error."""
        if reply in NULLS:
            return not self.null_is_nothing
        return not (self.zero_is_nothing and reply == b":0\r\n")


NULLS = (b"$-1\r\n", b"*-1\r\n", b"_\r\n")

_STRING = Creation("string")
_HASH = Creation("hash")
_COUNTED_HASH = Creation("hash", zero_is_nothing=True)
_PUSHED = Creation("list", counts_from=2)
_MOVED = Creation("list", last_key_only=True)
_ZSET = Creation("zset", zero_is_nothing=True)
_STORED_SET = Creation("set", fresh=True, zero_is_nothing=True)
_STORED_ZSET = Creation("zset", fresh=True, zero_is_nothing=True)
_OTHER = Creation("other")
_SCRIPT = Creation(UNKNOWN_TYPE, null_is_nothing=False, by_script=True)
_TAKEN_OVER = Creation(UNKNOWN_TYPE, fresh=True, zero_is_nothing=True, last_key_only=True)

_LISTED: tuple[tuple[str, Creation], ...] = (
    ("INCR INCRBY INCRBYFLOAT DECR DECRBY APPEND SETBIT BITFIELD PFMERGE", _STRING),
    ("SETRANGE PFADD", Creation("string", zero_is_nothing=True)),
    ("SET GETSET SETEX PSETEX MSET", Creation("string", fresh=True, null_is_nothing=False)),
    ("SETNX MSETNX MSETEX BITOP", Creation("string", fresh=True, zero_is_nothing=True)),
    ("HINCRBY HINCRBYFLOAT HMSET", _HASH),
    ("HSET HSETNX HSETEX", _COUNTED_HASH),
    ("LPUSH RPUSH", _PUSHED),
    ("LMOVE RPOPLPUSH BLMOVE BRPOPLPUSH LMOVEM BLMOVEM", _MOVED),
    ("SORT", Creation("list", fresh=True, zero_is_nothing=True)),
    ("SADD", Creation("set", zero_is_nothing=True)),
    ("SMOVE", Creation("set", zero_is_nothing=True, last_key_only=True)),
    ("SDIFFSTORE SINTERSTORE SUNIONSTORE", _STORED_SET),
    ("ZADD GEOADD", _ZSET),
    ("ZINCRBY", Creation("zset")),
    ("ZDIFFSTORE ZINTERSTORE ZUNIONSTORE ZRANGESTORE GEOSEARCHSTORE", _STORED_ZSET),
    ("GEORADIUS GEORADIUSBYMEMBER", Creation("zset", fresh=True, zero_is_nothing=True, last_key_only=True)),
    ("XADD XGROUP|CREATE", Creation("stream")),
    ("COPY RENAME RENAMENX", _TAKEN_OVER),
    ("RESTORE RESTORE-ASKING", Creation(UNKNOWN_TYPE, fresh=True)),
    ("EVAL EVALSHA FCALL", _SCRIPT),
    ("VADD ARINSERT ARMSET ARRING ARSET FT.SUGADD", _OTHER),
    ("BF.ADD BF.INSERT BF.LOAD BF.LOADCHUNK BF.MADD BF.RESERVE", _OTHER),
    ("CF.ADD CF.ADDNX CF.INSERT CF.INSERTNX CF.LOADCHUNK CF.RESERVE", _OTHER),
    ("CMS.INITBYDIM CMS.INITBYPROB CMS.MERGE TDIGEST.CREATE TDIGEST.MERGE TOPK.RESERVE", _OTHER),
    ("JSON.MERGE JSON.MSET JSON.SET TS.ADD TS.CREATE TS.DECRBY TS.INCRBY", _OTHER),
)
_CREATIONS = {name: creation for names, creation in _LISTED for name in names.split()}

ELSEWHERE: dict[str, str] = {
    "MOVE": "the key appears in another database",
    "HIMPORT|SET": "its connection is its own",
    "INCREX": "what its options say of the lifetime is not known here",
}
"""Commands that create a key where, or in a way that, nothing can be done about it from their own connection."""


def creation_of(spec: Spec) -> Creation | None:
    """How the command creates keys; None for one that does not, or of which it is not known."""
    return _CREATIONS.get(spec.name)


def created_keys(command: Command, creation: Creation) -> tuple[bytes, ...]:
    """The keys that a command of this creation may bring into being, each once."""
    names = [key.name for key in (*command.keys, *command.named) if key.write]
    if creation.last_key_only:
        names = names[-1:]
    return tuple(dict.fromkeys(names))
