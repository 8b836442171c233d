"""What each command is for a tenant: offered, with the places of the names in it, or refused, and why.

Every command of the table has its decision here; tests fail for one without. A command that only an engine knows has
none, and is refused. Names are keys, channels, and patterns of them. Keys of a request stand where the command table
says (``KeyFinder``); this module adds what is no key there, and where names stand in replies.
"""

from collections.abc import Collection
from enum import Enum
from typing import NamedTuple


class ScriptTerms(Enum):
    """Which scripts of tenants run."""

    REFUSE = "refuse"
    """None."""
    JUDGE = "judged"
    """Those that use no keys but those that they declare, as their text proves."""
    TRUST = "trusted"
    """All: somebody says that they use no keys but those that they declare."""


class RequestNames(Enum):
    """Where names stand in a request."""

    NONE = "nowhere"
    KEYS = "where its keys stand"
    PATTERN = "its first argument is a pattern of keys, for which Keyrail walks over them"
    COUNT = "nowhere: Keyrail walks over its keys to count them"
    ANY_KEY = "nowhere: Keyrail walks over its keys to choose one"
    COUNTED = "nowhere: Keyrail answers with what it has counted of the tenant's keys"
    SCAN = "MATCH has a pattern of keys, or there is none, and one is added"
    SORT = "its keys, and the patterns of BY and GET"
    CHANNEL = "its first argument is a channel"
    CHANNELS = "its arguments are channels"
    SUBSCRIPTIONS = "its arguments are channels, on some of which the server itself tells of keys"
    PATTERN_SUBSCRIPTIONS = "its arguments are patterns of such channels"
    TRACKING = "PREFIX has the beginnings of keys, or there is none, and BCAST gets one"
    SHOWN_CHANNELS = "its argument is a pattern of channels, or there is none, and one is added"
    HASHED = "its argument behind the subcommand is a key, which is only hashed"
    SLOT = "nowhere, but it is about the keys of a slot, and others than the tenant's are left out of the reply"


class ReplyNames(Enum):
    """Where names stand in a reply that is no error."""

    NONE = "nowhere"
    FIRST = "the first element of the array"
    ALL = "all elements of the array"
    PAGE = "all elements of the array that is the second element"
    STREAMS = "the first element of each member of the array, or each key of the map"
    PAIRS = "every other element of the array"
    PREFIXES = "all elements of the value that is called prefixes"
    SECTIONS = "in sections of a text, which are left out"


class Offer(NamedTuple):
    """Tenants may send the command. `in_scripts`: their scripts may call it, too, as no reply and no error names a
    key."""

    request: RequestNames
    reply: ReplyNames = ReplyNames.NONE
    in_scripts: bool = False


_KEYS = Offer(RequestNames.KEYS, in_scripts=True)
_KEYS_IN_ERRORS = Offer(RequestNames.KEYS)
_NO_NAMES = Offer(RequestNames.NONE)
_NO_NAMES_IN_SCRIPTS = Offer(RequestNames.NONE, in_scripts=True)
_FIRST_KEY = Offer(RequestNames.KEYS, ReplyNames.FIRST)
_STREAMS = Offer(RequestNames.KEYS, ReplyNames.STREAMS)
_SORTED = Offer(RequestNames.SORT)

_OFFERED = {
    _KEYS: """
        APPEND BITCOUNT BITFIELD BITFIELD_RO BITOP BITPOS COPY DECR DECRBY DEL DELEX DELIFEQ DIGEST DUMP EXISTS EXPIRE
        EXPIREAT EXPIRETIME GET GETBIT GETDEL GETEX GETRANGE GETSET INCR INCRBY INCRBYFLOAT LCS MEMORY|USAGE MGET MSET
        MSETEX MSETNX OBJECT|ENCODING OBJECT|FREQ OBJECT|IDLETIME OBJECT|REFCOUNT PERSIST PEXPIRE PEXPIREAT PEXPIRETIME
        PFADD PFCOUNT PFMERGE PSETEX PTTL RENAME RENAMENX RESTORE SET SETBIT SETEX SETNX SETRANGE STRLEN SUBSTR TOUCH
        TTL TYPE UNLINK
        HDEL HEXISTS HEXPIRE HEXPIREAT HEXPIRETIME HGET HGETALL HGETDEL HGETEX HINCRBY HINCRBYFLOAT HKEYS HLEN HMGET
        HMSET HPERSIST HPEXPIRE HPEXPIREAT HPEXPIRETIME HPTTL HRANDFIELD HSCAN HSET HSETEX HSETNX HSTRLEN HTTL HVALS
        BLMOVE BRPOPLPUSH LINDEX LINSERT LLEN LMOVE LPOP LPOS LPUSH LPUSHX LRANGE LREM LSET LTRIM RPOP RPOPLPUSH RPUSH
        RPUSHX
        SADD SCARD SDIFF SDIFFSTORE SINTER SINTERCARD SINTERSTORE SISMEMBER SMEMBERS SMISMEMBER SMOVE SPOP SRANDMEMBER
        SREM SSCAN SUNION SUNIONSTORE
        ZADD ZCARD ZCOUNT ZDIFF ZDIFFSTORE ZINCRBY ZINTER ZINTERCARD ZINTERSTORE ZLEXCOUNT ZMSCORE ZPOPMAX ZPOPMIN
        ZRANDMEMBER ZRANGE ZRANGEBYLEX ZRANGEBYSCORE ZRANGESTORE ZRANK ZREM ZREMRANGEBYLEX ZREMRANGEBYRANK
        ZREMRANGEBYSCORE ZREVRANGE ZREVRANGEBYLEX ZREVRANGEBYSCORE ZREVRANK ZSCAN ZSCORE ZUNION ZUNIONSTORE
        GEOADD GEODIST GEOHASH GEOPOS GEORADIUS GEORADIUSBYMEMBER GEORADIUSBYMEMBER_RO GEORADIUS_RO GEOSEARCH
        GEOSEARCHSTORE
        XACK XACKDEL XADD XDEL XDELEX XINFO|GROUPS XINFO|STREAM XLEN XRANGE XREVRANGE XSETID XTRIM
        """,
    _KEYS_IN_ERRORS: """
        WATCH
        XAUTOCLAIM XCLAIM XGROUP|CREATE XGROUP|CREATECONSUMER XGROUP|DELCONSUMER XGROUP|DESTROY XGROUP|SETID
        XINFO|CONSUMERS XPENDING
        """,
    _FIRST_KEY: "BLMPOP BLPOP BRPOP BZMPOP BZPOPMAX BZPOPMIN LMPOP ZMPOP",
    _STREAMS: "XREAD XREADGROUP",
    _SORTED: "SORT SORT_RO",
    Offer(RequestNames.PATTERN, ReplyNames.ALL): "KEYS",
    Offer(RequestNames.SCAN, ReplyNames.PAGE): "SCAN",
    Offer(RequestNames.COUNT): "DBSIZE",
    Offer(RequestNames.ANY_KEY): "RANDOMKEY",
    Offer(RequestNames.NONE, ReplyNames.SECTIONS): "INFO",
    Offer(RequestNames.TRACKING): "CLIENT|TRACKING",
    Offer(RequestNames.NONE, ReplyNames.PREFIXES): "CLIENT|TRACKINGINFO",
    # Messages and confirmations, which come as pushes, get their names from ``tenants.messages``.
    Offer(RequestNames.CHANNELS): "SSUBSCRIBE SUNSUBSCRIBE",
    Offer(RequestNames.SUBSCRIPTIONS): "SUBSCRIBE UNSUBSCRIBE",
    Offer(RequestNames.PATTERN_SUBSCRIPTIONS): "PSUBSCRIBE PUNSUBSCRIBE",
    Offer(RequestNames.CHANNEL, in_scripts=True): "PUBLISH SPUBLISH",
    Offer(RequestNames.SHOWN_CHANNELS, ReplyNames.ALL): "PUBSUB|CHANNELS PUBSUB|SHARDCHANNELS",
    Offer(RequestNames.CHANNELS, ReplyNames.PAIRS): "PUBSUB|NUMSUB PUBSUB|SHARDNUMSUB",
    Offer(RequestNames.HASHED): "CLUSTER|KEYSLOT",
    Offer(RequestNames.COUNTED): "KEYRAIL|HOTKEYS",
    Offer(RequestNames.SLOT): "CLUSTER|COUNTKEYSINSLOT CLUSTER|GETKEYSINSLOT",
    # With a cluster upstream, Keyrail answers what is here of CLUSTER: it tells of its own addresses alone.
    # COMMAND GETKEYS runs nothing: it tells the tenant's own names, as the tenant has given them.
    _NO_NAMES: """
        ACL|CAT ACL|GENPASS ACL|HELP ACL|WHOAMI AUTH CLIENT|CACHING CLIENT|CAPA CLIENT|GETNAME CLIENT|GETREDIR
        CLIENT|HELP CLIENT|ID CLIENT|INFO CLIENT|NO-EVICT CLIENT|NO-TOUCH CLIENT|REPLY CLIENT|SETINFO CLIENT|SETNAME
        CLUSTER|COUNT-FAILURE-REPORTS CLUSTER|HELP CLUSTER|INFO CLUSTER|LINKS CLUSTER|MYID CLUSTER|MYSHARDID
        CLUSTER|NODES CLUSTER|REPLICAS CLUSTER|SHARDS CLUSTER|SLAVES CLUSTER|SLOTS
        COMMAND COMMAND|COUNT COMMAND|DOCS COMMAND|GETKEYS COMMAND|GETKEYSANDFLAGS COMMAND|HELP COMMAND|INFO
        COMMAND|LIST DISCARD EXEC HELLO KEYRAIL|HELP LASTSAVE LOLWUT MEMORY|HELP MULTI OBJECT|HELP PUBSUB|HELP QUIT
        READONLY READWRITE RESET SELECT UNWATCH WAIT WAITAOF XGROUP|HELP XINFO|HELP
        """,
    _NO_NAMES_IN_SCRIPTS: "ECHO PING TIME",
}

_ALL_KEYS = "it is about the keys of all tenants"
_BY_ITSELF = "it takes the key where this Keyrail does not follow it"
_CLIENTS = "it is about other clients"
_CLUSTER = "it is about the nodes of a cluster"
_SCRIPTS = "only the script knows which keys it uses"
_SERVER = "it is about the server, which all tenants share"
_SHOWS_ALL = "its reply is about all tenants"
_UNTRIED = "nobody has tried where it has names"
_BARE = "a subcommand is missing"

_REFUSED = {
    _ALL_KEYS: "CLUSTER|FLUSHSLOT CLUSTER|FLUSHSLOTS FLUSHALL FLUSHDB SFLUSH SWAPDB TRIMSLOTS",
    _BY_ITSELF: "MIGRATE MOVE",
    _CLIENTS: """
        CLIENT|KILL CLIENT|LIST CLIENT|PAUSE CLIENT|UNBLOCK CLIENT|UNPAUSE COMMANDLOG|GET COMMANDLOG|HELP COMMANDLOG|LEN
        COMMANDLOG|RESET MONITOR SLOWLOG|GET SLOWLOG|HELP SLOWLOG|LEN SLOWLOG|RESET
        """,
    _CLUSTER: """
        ASKING CLUSTER|ADDSLOTS CLUSTER|ADDSLOTSRANGE CLUSTER|BUMPEPOCH CLUSTER|CANCELSLOTMIGRATIONS
        CLUSTER|DELSLOTS CLUSTER|DELSLOTSRANGE CLUSTER|FAILOVER CLUSTER|FORGET CLUSTER|GETSLOTMIGRATIONS CLUSTER|MEET
        CLUSTER|MIGRATESLOTS CLUSTER|MIGRATION CLUSTER|REPLICATE CLUSTER|RESET CLUSTER|SAVECONFIG
        CLUSTER|SET-CONFIG-EPOCH CLUSTER|SETSLOT CLUSTER|SLOT-STATS CLUSTER|SYNCSLOTS CLUSTERSCAN RESTORE-ASKING
        """,
    _SCRIPTS: """
        EVAL EVALSHA EVALSHA_RO EVAL_RO FCALL FCALL_RO FUNCTION|DELETE FUNCTION|DUMP FUNCTION|FLUSH FUNCTION|HELP
        FUNCTION|KILL FUNCTION|LIST FUNCTION|LOAD FUNCTION|RESTORE FUNCTION|STATS SCRIPT|DEBUG SCRIPT|EXISTS
        SCRIPT|FLUSH SCRIPT|HELP SCRIPT|KILL SCRIPT|LOAD SCRIPT|SHOW
        """,
    _SERVER: """
        ACL|DELUSER ACL|DRYRUN ACL|GETUSER ACL|LIST ACL|LOAD ACL|LOG ACL|SAVE ACL|SETUSER ACL|USERS BACKUP|ABORT
        BACKUP|CLEANUP BACKUP|HELP BACKUP|LIST BACKUP|SEAL BACKUP|START BACKUP|STATUS BGREWRITEAOF BGSAVE
        CLIENT|IMPORT-SOURCE CONFIG|GET CONFIG|HELP CONFIG|RESETSTAT CONFIG|REWRITE CONFIG|SET DEBUG FAILOVER HOST:
        LATENCY|DOCTOR LATENCY|GRAPH LATENCY|HELP LATENCY|HISTOGRAM LATENCY|HISTORY LATENCY|LATEST LATENCY|RESET
        MEMORY|DOCTOR MEMORY|MALLOC-STATS MEMORY|PURGE MEMORY|STATS MODULE|HELP MODULE|LIST MODULE|LOAD MODULE|LOADEX
        MODULE|UNLOAD PFDEBUG PFSELFTEST POST PSYNC REPLCONF REPLICAOF ROLE SAVE SHUTDOWN SLAVEOF SYNC
        """,
    _SHOWS_ALL: """
        HOTKEYS|GET HOTKEYS|HELP HOTKEYS|RESET HOTKEYS|START HOTKEYS|STOP KEYRAIL|CLIENTS KEYRAIL|EXPLAIN
        KEYRAIL|INCIDENTS KEYRAIL|INFO KEYRAIL|NODE KEYRAIL|PATTERNS KEYRAIL|POLICY KEYRAIL|RULES
        KEYRAIL|SCHEMA KEYRAIL|SLOTS KEYRAIL|SLOW PUBSUB|NUMPAT
        """,
    _UNTRIED: """
        ARCOUNT ARDEL ARDELRANGE ARGET ARGETRANGE ARGREP ARINFO ARINSERT ARLASTITEMS ARLEN ARMGET ARMSET ARNEXT AROP
        ARRING ARSCAN ARSEEK ARSET BLMOVEM HIMPORT|DISCARD HIMPORT|DISCARDALL HIMPORT|HELP HIMPORT|PREPARE HIMPORT|SET
        INCREX LMOVEM SDIFFCARD STRALGO SUNIONCARD VADD VCARD VDIM VEMB VGETATTR VINFO VISMEMBER VLINKS VRANDMEMBER
        VRANGE VREM VSETATTR VSIM XCFGSET XIDMPRECORD XNACK
        """,
    _BARE: """
        ACL BACKUP CLIENT CLUSTER COMMANDLOG CONFIG FUNCTION HIMPORT HOTKEYS KEYRAIL LATENCY MEMORY MODULE OBJECT PUBSUB
        SCRIPT SLOWLOG XGROUP XINFO
        """,
}
_MODULES = ("BF.", "CF.", "CMS.", "FT.", "JSON.", "TDIGEST.", "TOPK.", "TS.")
"""Families of commands of modules, about each of which nothing is decided."""

DECISIONS: dict[str, Offer | str] = {
    **{name: offer for offer, names in _OFFERED.items() for name in names.split()},
    **{name: why for why, names in _REFUSED.items() for name in names.split()},
}
"""By the name of a command: what is offered to tenants, or why it is not."""

_JUDGED_SCRIPTS: dict[str, Offer] = {
    **dict.fromkeys(("EVAL", "EVALSHA", "EVALSHA_RO", "EVAL_RO"), _KEYS_IN_ERRORS),
    **dict.fromkeys(("SCRIPT|EXISTS", "SCRIPT|LOAD"), _NO_NAMES),
}
_TRUSTED_SCRIPTS = _JUDGED_SCRIPTS | dict.fromkeys(("FCALL", "FCALL_RO"), _KEYS_IN_ERRORS)
_OF_SCRIPTS = {ScriptTerms.REFUSE: {}, ScriptTerms.JUDGE: _JUDGED_SCRIPTS, ScriptTerms.TRUST: _TRUSTED_SCRIPTS}
"""What is offered beside DECISIONS."""

EMPTYING = frozenset({"FLUSHDB"})
"""Commands in whose place Keyrail deletes the keys of the tenant, where a policy says so."""

_AT_ONCE = """
    APPEND BITCOUNT DECR DECRBY DEL EXISTS EXPIRE EXPIREAT GET GETBIT GETRANGE GETSET HDEL HEXISTS HGET HGETALL
    HINCRBY HINCRBYFLOAT HKEYS HLEN HMGET HMSET HSET HSETNX HSTRLEN HVALS INCR INCRBY INCRBYFLOAT LINDEX LINSERT LLEN
    LPOP LPUSH LPUSHX LRANGE LREM LSET LTRIM MGET MSET MSETNX PERSIST PEXPIRE PEXPIREAT PFADD PFCOUNT PSETEX PTTL
    RPOP RPOPLPUSH RPUSH RPUSHX SADD SCARD SDIFF SET SETBIT SETEX SETNX SETRANGE SINTER SISMEMBER SMEMBERS SMOVE SPOP
    SRANDMEMBER SREM STRLEN SUNION TOUCH TTL TYPE UNLINK ZADD ZCARD ZCOUNT ZINCRBY ZRANGE ZRANGEBYSCORE ZRANK ZREM
    ZREMRANGEBYRANK ZREMRANGEBYSCORE ZREVRANGE ZREVRANGEBYSCORE ZREVRANK ZSCORE
"""
"""Commands with names nowhere but where their keys stand: every server knows them, so that no error quotes their
arguments, as that about an unknown command does."""
_NAMED_AT_ONCE = frozenset(_AT_ONCE.split())

TWICE = sum(len(names.split()) for names in (*_OFFERED.values(), *_REFUSED.values())) - len(DECISIONS)
"""How many commands stand above more than once: none, or the last place would win in silence."""


def goes_at_once(name: str) -> bool:
    """Whether the keys of a tenant's command get their prefix on the hot path, and its reply needs no look."""
    return name in _NAMED_AT_ONCE


def decision_of(name: str, scripts: ScriptTerms = ScriptTerms.REFUSE) -> Offer | str | None:
    """The offer, or why there is none; None where nothing is decided about this command."""
    offer = _OF_SCRIPTS[scripts].get(name)
    if offer is not None:
        return offer
    return _UNTRIED if name.startswith(_MODULES) else DECISIONS.get(name)


def scripts_offered(scripts: ScriptTerms) -> Collection[str]:
    """The commands about scripts that are offered on these terms alone."""
    return _OF_SCRIPTS[scripts].keys()


def decision_in_scripts(name: str) -> Offer | str | None:
    """The same for a command that a script calls whose text is judged."""
    decision = decision_of(name)
    if not isinstance(decision, Offer) or decision.in_scripts:
        return decision
    if decision.reply is not ReplyNames.NONE:
        return "its reply can name keys"
    return _IN_SCRIPTS.get(decision.request, "it is about keys beyond those of the script")


_IN_SCRIPTS = {
    RequestNames.KEYS: "its errors can name keys",
    RequestNames.NONE: "it is about the connection or the server",
    RequestNames.SORT: "BY and GET name keys by patterns",
}
"""Why scripts may not call what is offered."""
