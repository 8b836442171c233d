"""What no engine says about its commands: the one hand-written list of decisions.

An engine's COMMAND tells arity, flags and keys. It does not tell what a command needs of its connection,
whether it can hold up everybody behind it, whether it creates keys, or whether it takes a key's lifetime
away. A command that no rule here provably settles and no list names is *undecided*: ``generate`` and the
tests refuse such a table, and a running proxy, which may meet one in a newer engine, keeps it on a private
connection.
"""

from proxy.commands.spec import Lane, State


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_STATES: dict[State, str] = {
    State.MULTI: "MULTI",
    State.EXEC: "EXEC",
    State.DISCARD: "DISCARD",
    State.WATCH: "WATCH",
    State.UNWATCH: "UNWATCH",
    State.SUBSCRIBE: "SUBSCRIBE PSUBSCRIBE SSUBSCRIBE",
    State.UNSUBSCRIBE: "UNSUBSCRIBE PUNSUBSCRIBE SUNSUBSCRIBE",
    # Redis before 7 does not flag these.
    State.BLOCKING: """
        BLPOP BRPOP BRPOPLPUSH BLMOVE BLMOVEM BLMPOP BZPOPMIN BZPOPMAX BZMPOP XREAD XREADGROUP""",
    State.WAIT: "WAIT WAITAOF",
    State.MONITOR: "MONITOR",
    # HOST: and POST are what a browser sends: Redis logs an attack and closes the connection, so it must be
    # the client's own. DEBUG can change how its connection speaks. HIMPORT's fieldsets live on theirs.
    State.PIN: """
        CLIENT|ID CLIENT|INFO CLIENT|GETREDIR CLIENT|TRACKING CLIENT|TRACKINGINFO CLIENT|CACHING
        CLIENT|NO-EVICT CLIENT|NO-TOUCH CLIENT|CAPA CLIENT|IMPORT-SOURCE READONLY READWRITE ASKING
        SCRIPT|DEBUG DEBUG HOST: POST HIMPORT|PREPARE HIMPORT|SET HIMPORT|DISCARD HIMPORT|DISCARDALL""",
    State.REPLY: "CLIENT|REPLY",
    State.SELECT: "SELECT",
    State.AUTH: "AUTH",
    State.HELLO: "HELLO",
    State.RESET: "RESET",
    State.QUIT: "QUIT",
    State.NAME: "CLIENT|SETNAME CLIENT|GETNAME CLIENT|SETINFO",
    # Commands that end what others wait for. They never wait behind it.
    State.IDLE: "CLIENT|UNBLOCK CLIENT|UNPAUSE FAILOVER FUNCTION|KILL SCRIPT|KILL SHUTDOWN",
    State.REFUSED: "PSYNC SYNC REPLCONF CLUSTER|SYNCSLOTS",
}

_STATE_OF = {name: state for state, names in _STATES.items() for name in names.split()}

_STATELESS = _names("""
    ACL|* BACKUP|* CLUSTER|* COMMAND|* COMMANDLOG|* CONFIG|* FUNCTION|* HOTKEYS|* LATENCY|* MEMORY|* MODULE|*
    OBJECT|* PUBSUB|* SCRIPT|* SLOWLOG|* XGROUP|* XINFO|* HIMPORT|HELP CLIENT|HELP CLIENT|KILL CLIENT|LIST
    CLIENT|PAUSE BGREWRITEAOF BGSAVE CLUSTERSCAN DBSIZE ECHO EVAL EVALSHA
    EVALSHA_RO EVAL_RO FCALL FCALL_RO FLUSHALL FLUSHDB INFO KEYS LASTSAVE LOLWUT PFSELFTEST PING
    PUBLISH SPUBLISH RANDOMKEY REPLICAOF ROLE SAVE SCAN SFLUSH SLAVEOF STRALGO SWAPDB TIME TRIMSLOTS""")
"""Commands that no rule below proves to leave their connection as it was, and that do."""

_SLOW = _names("""
    EVAL EVALSHA EVALSHA_RO EVAL_RO FCALL FCALL_RO FUNCTION|LOAD FUNCTION|RESTORE FUNCTION|FLUSH SCRIPT|FLUSH
    KEYS SORT SORT_RO FLUSHALL FLUSHDB SFLUSH SAVE BGSAVE BGREWRITEAOF DEBUG MIGRATE PFSELFTEST PFDEBUG
    PFMERGE SINTER SINTERSTORE SINTERCARD SUNION SUNIONSTORE SUNIONCARD SDIFF SDIFFSTORE SDIFFCARD ZINTER
    ZINTERSTORE ZINTERCARD ZUNION ZUNIONSTORE ZDIFF ZDIFFSTORE ZRANGESTORE GEOSEARCHSTORE BITOP LCS STRALGO
    ARGREP AROP VSIM CLUSTERSCAN CLUSTER|FLUSHSLOT CLUSTER|FLUSHSLOTS CLUSTER|RESET TRIMSLOTS MEMORY|DOCTOR
    MEMORY|MALLOC-STATS MEMORY|PURGE MODULE|LOAD MODULE|LOADEX MODULE|UNLOAD ACL|LOAD ACL|SAVE CONFIG|REWRITE
    FAILOVER REPLICAOF SLAVEOF""")
"""Commands whose work grows with the keyspace, with several whole collections, or with a script or a disk.
Reads of ONE collection (HGETALL, SMEMBERS, LRANGE) are left out: they are daily bread, usually small, and
splitting every run at them would cost more than it saves."""

_CREATES = _names("""
    APPEND BITFIELD BITOP BLMOVE BLMOVEM BRPOPLPUSH COPY DECR DECRBY EVAL EVALSHA FCALL GEOADD GEORADIUS
    GEORADIUSBYMEMBER GEOSEARCHSTORE GETSET HIMPORT|SET HINCRBY HINCRBYFLOAT HMSET HSET HSETEX HSETNX INCR
    INCRBY INCRBYFLOAT INCREX LMOVE LMOVEM LPUSH MOVE MSET MSETEX MSETNX PFADD PFMERGE PSETEX RENAME RENAMENX
    RESTORE RESTORE-ASKING RPOPLPUSH RPUSH SADD SDIFFSTORE SET SETBIT SETEX SETNX SETRANGE SINTERSTORE SMOVE
    SORT SUNIONSTORE VADD XADD XGROUP|CREATE ZADD ZDIFFSTORE ZINCRBY ZINTERSTORE ZRANGESTORE ZUNIONSTORE
    ARINSERT ARMSET ARRING ARSET BF.ADD BF.INSERT BF.LOADCHUNK BF.LOAD BF.MADD BF.RESERVE CF.ADD CF.ADDNX
    CF.INSERT CF.INSERTNX CF.LOADCHUNK CF.RESERVE CMS.INITBYDIM CMS.INITBYPROB CMS.MERGE TDIGEST.CREATE
    TDIGEST.MERGE TOPK.RESERVE JSON.SET JSON.MSET JSON.MERGE TS.ADD TS.CREATE TS.DECRBY TS.INCRBY
    FT.SUGADD""")

_NEVER_CREATES = _names("""
    ARDEL ARDELRANGE ARSEEK BACKUP|START BACKUP|SEAL BACKUP|ABORT BACKUP|CLEANUP BLMPOP BLPOP BRPOP BZMPOP
    BZPOPMAX BZPOPMIN CLUSTER|FLUSHSLOT DEL DELEX DELIFEQ EXPIRE EXPIREAT FLUSHALL FLUSHDB FUNCTION|DELETE
    FUNCTION|FLUSH FUNCTION|LOAD FUNCTION|RESTORE GETDEL GETEX HDEL HEXPIRE HEXPIREAT HGETDEL HGETEX HPERSIST
    HPEXPIRE HPEXPIREAT LINSERT LMPOP LPOP LPUSHX LREM LSET LTRIM MIGRATE PERSIST PEXPIRE PEXPIREAT PFDEBUG
    RPOP RPUSHX SFLUSH SPOP SREM SWAPDB TRIMSLOTS UNLINK VREM VSETATTR XACK XACKDEL XAUTOCLAIM XCFGSET XCLAIM
    XDEL XDELEX XGROUP|CREATECONSUMER XGROUP|DELCONSUMER XGROUP|DESTROY XGROUP|SETID XIDMPRECORD XNACK
    XREADGROUP XSETID XTRIM ZMPOP ZPOPMAX ZPOPMIN ZREM ZREMRANGEBYLEX ZREMRANGEBYRANK ZREMRANGEBYSCORE
    CF.COMPACT CF.DEL CMS.INCRBY TDIGEST.ADD TDIGEST.RESET TOPK.ADD TOPK.INCRBY JSON.ARRAPPEND JSON.ARRINSERT
    JSON.ARRPOP JSON.ARRTRIM JSON.CLEAR JSON.DEL JSON.FORGET JSON.NUMINCRBY JSON.NUMMULTBY JSON.STRAPPEND
    JSON.TOGGLE TS.ALTER TS.CREATERULE TS.DEL TS.DELETERULE TS.MADD FT.ALIASADD FT.ALIASDEL FT.ALIASUPDATE
    FT.ALTER FT.CREATE FT.CURSOR FT.DICTADD FT.DICTDEL FT.DROPINDEX FT.SUGDEL FT.SYNUPDATE""")

_DROPS_TTL = _names("""
    BITOP COPY EVAL EVALSHA FCALL GEORADIUS GEORADIUSBYMEMBER GEOSEARCHSTORE GETEX GETSET HIMPORT|SET INCREX
    MSET MSETEX PERSIST RENAME RESTORE RESTORE-ASKING SDIFFSTORE SET SINTERSTORE SORT SUNIONSTORE ZDIFFSTORE
    ZINTERSTORE ZRANGESTORE ZUNIONSTORE""")

_NOT_PROCESS_BOUND = _names("""
    FUNCTION|DELETE FUNCTION|DUMP FUNCTION|FLUSH FUNCTION|HELP FUNCTION|KILL FUNCTION|LIST FUNCTION|STATS SCRIPT|DEBUG
    SCRIPT|FLUSH SCRIPT|HELP SCRIPT|KILL SCRIPT|SHOW""")
"""Commands about scripts after which no client library believes that the server knows a script."""

HANDSHAKE = _names("""
    AUTH CLIENT|CAPA CLIENT|GETNAME CLIENT|ID CLIENT|SETINFO CLIENT|SETNAME CLIENT|TRACKING CLUSTER|INFO
    CLUSTER|NODES CLUSTER|SHARDS CLUSTER|SLOTS COMMAND COMMAND|COUNT COMMAND|DOCS COMMAND|INFO HELLO INFO READONLY
    ROLE""")
"""What client libraries send while they connect, and whose errors they branch on."""

_ALSO_CHANGES_DATA = _names("CLUSTER|REPLICATE CLUSTER|RESET DEBUG EVAL EVALSHA FCALL REPLICAOF SLAVEOF")
"""Commands that may change or replace data without a flag that says so."""

READ_KEYS = frozenset({"PFCOUNT"})
"""Commands whose keys are read although the engine says RW: PFCOUNT only writes its own cache into them."""


def state_of(name: str, flags: frozenset[str], has_keys: bool, container: bool) -> State | None:
    """What the command needs of its connection; None where nothing here decides it.

    Provable from flags: a blocking command blocks; a command that scripts may run, with keys and no channels,
    can't have to do with its connection, for a script has none.
    """
    stated = _STATE_OF.get(name)
    if stated is not None:
        return stated
    if "blocking" in flags:
        return State.BLOCKING
    if name in _STATELESS or f"{name.partition('|')[0]}|*" in _STATELESS or container or "module" in flags:
        return State.POOL
    if has_keys and not flags & {"noscript", "pubsub", "no_multi"}:
        return State.POOL
    return None


def lane_of(name: str, flags: frozenset[str]) -> Lane:
    """Slow for what can hold up everybody behind it; what a module does is not known."""
    return Lane.SLOW if name in _SLOW or "module" in flags else Lane.FAST


def creates_of(name: str, flags: frozenset[str]) -> bool | None:
    """Whether the command may create a key; None for a write that nothing here decides."""
    if name in _CREATES:
        return True
    if name in _NEVER_CREATES or "write" not in flags:
        return False
    return None


def drops_ttl(name: str) -> bool:
    """Whether the command may leave a key without the lifetime that it had."""
    return name in _DROPS_TTL


def process_bound(name: str, categories: frozenset[str]) -> bool:
    """Whether the client counts on something that the server forgets when it restarts.

    ioredis keeps a list of loaded scripts for each socket, and does not load them again inside MULTI.
    """
    return name == "CLIENT|TRACKING" or ("scripting" in categories and name not in _NOT_PROCESS_BOUND)


def may_change_data(name: str, flags: frozenset[str]) -> bool:
    """Whether the command may change what is stored: of a module's command the worst is assumed."""
    return "write" in flags or name in _ALSO_CHANGES_DATA or ("module" in flags and "readonly" not in flags)


def decided_names() -> frozenset[str]:
    """Every command that the lists above name: each must exist in the table."""
    listed = _STATELESS | _SLOW | _CREATES | _NEVER_CREATES | _DROPS_TTL | READ_KEYS | _STATE_OF.keys()
    listed |= HANDSHAKE | _ALSO_CHANGES_DATA | _NOT_PROCESS_BOUND
    return frozenset(name for name in listed if not name.endswith("|*"))
