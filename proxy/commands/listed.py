"""Commands that no engine at hand reports, from their published documentation: an input of ``generate``.

One line each: where it appeared, name, arity, flags (``-`` for none), keys. Keys are read as ``RW 1``
(argument 1), ``RW 1..2``, ``RO 1..-2`` (to the last but one), ``OW 1../3`` (every third from 1 to the end),
``RO #1`` (argument 1 says how many follow it), several joined by ``;``. A line without arity opens a
container. ``module`` is the flag that engines give to what a module brings; Redis 8 bundles these modules.

Once an engine that knows a command is at hand, ``generate`` prefers what that engine says, and the line goes.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from proxy.commands.introspect import Description
from proxy.commands.spec import KeySpec

_CORE = """
    redis-8.0   SFLUSH               -3  write
    redis-8.0   VADD                 -5  write,denyoom       RW 1
    redis-8.0   VCARD                 2  readonly,fast       RO 1
    redis-8.0   VDIM                  2  readonly,fast       RO 1
    redis-8.0   VEMB                 -3  readonly,fast       RO 1
    redis-8.0   VGETATTR              3  readonly,fast       RO 1
    redis-8.0   VINFO                 2  readonly,fast       RO 1
    redis-8.0   VISMEMBER             3  readonly            RO 1
    redis-8.0   VLINKS               -3  readonly,fast       RO 1
    redis-8.0   VRANDMEMBER          -2  readonly            RO 1
    redis-8.0   VREM                  3  write               RW 1
    redis-8.0   VSETATTR              4  write,fast          RW 1
    redis-8.0   VSIM                 -4  readonly            RO 1
    redis-8.2   XACKDEL              -6  write,fast          RW 1
    redis-8.2   XDELEX               -5  write,fast          RW 1
    redis-8.4   CLUSTER|MIGRATION    -4  admin,stale
    redis-8.4   DELEX                -2  write,fast          RM 1
    redis-8.4   DIGEST                2  readonly,fast       RO 1
    redis-8.4   TRIMSLOTS            -4  write
    redis-8.4   VRANGE               -4  readonly            RO 1
    redis-8.6   HOTKEYS
    redis-8.6   HOTKEYS|GET           2  admin,noscript
    redis-8.6   HOTKEYS|HELP          2  admin,noscript
    redis-8.6   HOTKEYS|RESET         2  admin,noscript
    redis-8.6   HOTKEYS|START        -2  admin,noscript
    redis-8.6   HOTKEYS|STOP          2  admin,noscript
    redis-8.6   XCFGSET              -2  write,fast          RW 1
    redis-8.6   XIDMPRECORD          -2  write,fast          RW 1
    redis-8.8   ARCOUNT               2  readonly,fast       RO 1
    redis-8.8   ARDEL                -3  write               RW 1
    redis-8.8   ARDELRANGE           -4  write               RW 1
    redis-8.8   ARGET                 3  readonly,fast       RO 1
    redis-8.8   ARGETRANGE            4  readonly            RO 1
    redis-8.8   ARGREP               -6  readonly            RO 1
    redis-8.8   ARINFO               -2  readonly            RO 1
    redis-8.8   ARINSERT             -3  write,denyoom       RW 1
    redis-8.8   ARLASTITEMS          -3  readonly            RO 1
    redis-8.8   ARLEN                 2  readonly,fast       RO 1
    redis-8.8   ARMGET               -3  readonly,fast       RO 1
    redis-8.8   ARMSET               -4  write,denyoom       RW 1
    redis-8.8   ARNEXT                2  readonly,fast       RO 1
    redis-8.8   AROP                 -5  readonly            RO 1
    redis-8.8   ARRING               -4  write,denyoom       RW 1
    redis-8.8   ARSCAN               -4  readonly            RO 1
    redis-8.8   ARSEEK                3  write,fast          RW 1
    redis-8.8   ARSET                -4  write,denyoom       RW 1
    redis-8.8   INCREX               -2  write,denyoom,fast  RW 1
    redis-8.8   XNACK                -5  write,fast          RW 1
    redis-8.10  BACKUP
    redis-8.10  BACKUP|ABORT         -2  admin,noscript
    redis-8.10  BACKUP|CLEANUP       -2  admin,noscript
    redis-8.10  BACKUP|HELP           2  admin,noscript
    redis-8.10  BACKUP|LIST          -2  admin,noscript
    redis-8.10  BACKUP|SEAL          -2  admin,noscript
    redis-8.10  BACKUP|START         -2  admin,noscript
    redis-8.10  BACKUP|STATUS        -2  admin,noscript
    redis-8.10  BLMOVEM              -6  write,denyoom,blocking  RW 1..2
    redis-8.10  HIMPORT
    redis-8.10  HIMPORT|DISCARD       3  fast
    redis-8.10  HIMPORT|DISCARDALL    2  fast
    redis-8.10  HIMPORT|HELP          2  loading,stale
    redis-8.10  HIMPORT|PREPARE      -4  denyoom
    redis-8.10  HIMPORT|SET          -5  write,denyoom       OW 2
    redis-8.10  LMOVEM               -5  write,denyoom       RW 1..2
    redis-8.10  SDIFFCARD            -3  readonly            RO #1
    redis-8.10  SUNIONCARD           -3  readonly            RO #1
"""

_MODULES = """
    redis-8.0   BF.ADD                3  write,denyoom       RW 1
    redis-8.0   BF.CARD               2  readonly,fast       RO 1
    redis-8.0   BF.DEBUG              2  readonly            RO 1
    redis-8.0   BF.EXISTS             3  readonly,fast       RO 1
    redis-8.0   BF.INFO              -2  readonly,fast       RO 1
    redis-8.0   BF.INSERT            -4  write,denyoom       RW 1
    redis-8.0   BF.LOADCHUNK          4  write,denyoom       RW 1
    redis-8.0   BF.MADD              -3  write,denyoom       RW 1
    redis-8.0   BF.MEXISTS           -3  readonly,fast       RO 1
    redis-8.0   BF.RESERVE           -4  write,denyoom       RW 1
    redis-8.0   BF.SCANDUMP           3  readonly,fast       RO 1
    valkey-8.0  BF.LOAD               3  write,denyoom       RW 1
    redis-8.0   CF.ADD                3  write,denyoom       RW 1
    redis-8.0   CF.ADDNX              3  write,denyoom       RW 1
    redis-8.0   CF.COMPACT           -2  write               RW 1
    redis-8.0   CF.COUNT              3  readonly,fast       RO 1
    redis-8.0   CF.DEBUG              2  readonly            RO 1
    redis-8.0   CF.DEL                3  write,fast          RW 1
    redis-8.0   CF.EXISTS             3  readonly,fast       RO 1
    redis-8.0   CF.INFO               2  readonly,fast       RO 1
    redis-8.0   CF.INSERT            -4  write,denyoom       RW 1
    redis-8.0   CF.INSERTNX          -4  write,denyoom       RW 1
    redis-8.0   CF.LOADCHUNK          4  write,denyoom       RW 1
    redis-8.0   CF.MEXISTS           -3  readonly,fast       RO 1
    redis-8.0   CF.RESERVE           -3  write,denyoom       RW 1
    redis-8.0   CF.SCANDUMP           3  readonly,fast       RO 1
    redis-8.0   CMS.INCRBY           -4  write,denyoom       RW 1
    redis-8.0   CMS.INFO              2  readonly,fast       RO 1
    redis-8.0   CMS.INITBYDIM         4  write,denyoom       RW 1
    redis-8.0   CMS.INITBYPROB        4  write,denyoom       RW 1
    redis-8.0   CMS.MERGE            -4  write,denyoom       RW 1;RO #2
    redis-8.0   CMS.QUERY            -3  readonly,fast       RO 1
    redis-8.0   TDIGEST.ADD          -3  write,denyoom       RW 1
    redis-8.0   TDIGEST.BYRANK       -3  readonly,fast       RO 1
    redis-8.0   TDIGEST.BYREVRANK    -3  readonly,fast       RO 1
    redis-8.0   TDIGEST.CDF          -3  readonly,fast       RO 1
    redis-8.0   TDIGEST.CREATE       -2  write,denyoom       RW 1
    redis-8.0   TDIGEST.INFO          2  readonly,fast       RO 1
    redis-8.0   TDIGEST.MAX           2  readonly,fast       RO 1
    redis-8.0   TDIGEST.MERGE        -4  write,denyoom       RW 1;RO #2
    redis-8.0   TDIGEST.MIN           2  readonly,fast       RO 1
    redis-8.0   TDIGEST.QUANTILE     -3  readonly,fast       RO 1
    redis-8.0   TDIGEST.RANK         -3  readonly,fast       RO 1
    redis-8.0   TDIGEST.RESET         2  write,denyoom       RW 1
    redis-8.0   TDIGEST.REVRANK      -3  readonly,fast       RO 1
    redis-8.0   TDIGEST.TRIMMED_MEAN  4  readonly,fast       RO 1
    redis-8.0   TOPK.ADD             -3  write,denyoom       RW 1
    redis-8.0   TOPK.COUNT           -3  readonly,fast       RO 1
    redis-8.0   TOPK.INCRBY          -4  write,denyoom       RW 1
    redis-8.0   TOPK.INFO             2  readonly,fast       RO 1
    redis-8.0   TOPK.LIST            -2  readonly,fast       RO 1
    redis-8.0   TOPK.QUERY           -3  readonly,fast       RO 1
    redis-8.0   TOPK.RESERVE         -3  write,denyoom       RW 1
    redis-8.0   JSON.ARRAPPEND       -3  write,denyoom       RW 1
    redis-8.0   JSON.ARRINDEX        -4  readonly            RO 1
    redis-8.0   JSON.ARRINSERT       -5  write,denyoom       RW 1
    redis-8.0   JSON.ARRLEN          -2  readonly            RO 1
    redis-8.0   JSON.ARRPOP          -2  write,denyoom       RW 1
    redis-8.0   JSON.ARRTRIM          5  write,denyoom       RW 1
    redis-8.0   JSON.CLEAR           -2  write,denyoom       RW 1
    redis-8.0   JSON.DEBUG           -2  readonly            RO 2
    redis-8.0   JSON.DEL             -2  write               RW 1
    redis-8.0   JSON.FORGET          -2  write               RW 1
    redis-8.0   JSON.GET             -2  readonly            RO 1
    redis-8.0   JSON.MERGE           -4  write,denyoom       RW 1
    redis-8.0   JSON.MGET            -3  readonly            RO 1..-2
    redis-8.0   JSON.MSET            -4  write,denyoom       RW 1../3
    redis-8.0   JSON.NUMINCRBY        4  write,denyoom       RW 1
    redis-8.0   JSON.NUMMULTBY        4  write,denyoom       RW 1
    redis-8.0   JSON.OBJKEYS         -2  readonly            RO 1
    redis-8.0   JSON.OBJLEN          -2  readonly            RO 1
    redis-8.0   JSON.RESP            -2  readonly            RO 1
    redis-8.0   JSON.SET             -4  write,denyoom       RW 1
    redis-8.0   JSON.STRAPPEND       -3  write,denyoom       RW 1
    redis-8.0   JSON.STRLEN          -2  readonly            RO 1
    redis-8.0   JSON.TOGGLE          -2  write,denyoom       RW 1
    redis-8.0   JSON.TYPE            -2  readonly            RO 1
    redis-8.0   TS.ADD               -4  write,denyoom       RW 1
    redis-8.0   TS.ALTER             -2  write,denyoom       RW 1
    redis-8.0   TS.CREATE            -2  write,denyoom       RW 1
    redis-8.0   TS.CREATERULE        -6  write,denyoom       RW 1..2
    redis-8.0   TS.DECRBY            -3  write,denyoom       RW 1
    redis-8.0   TS.DEL                4  write               RW 1
    redis-8.0   TS.DELETERULE         3  write               RW 1..2
    redis-8.0   TS.GET               -2  readonly,fast       RO 1
    redis-8.0   TS.INCRBY            -3  write,denyoom       RW 1
    redis-8.0   TS.INFO              -2  readonly,fast       RO 1
    redis-8.0   TS.MADD              -4  write,denyoom       RW 1../3
    redis-8.0   TS.MGET              -3  readonly
    redis-8.0   TS.MRANGE            -5  readonly
    redis-8.0   TS.MREVRANGE         -5  readonly
    redis-8.0   TS.QUERYINDEX        -2  readonly
    redis-8.0   TS.RANGE             -4  readonly            RO 1
    redis-8.0   TS.REVRANGE          -4  readonly            RO 1
    redis-8.10  TS.QUERYLABELS       -1  readonly
    redis-8.0   FT._LIST              1  readonly
    redis-8.0   FT.AGGREGATE         -3  readonly
    redis-8.0   FT.ALIASADD           3  write
    redis-8.0   FT.ALIASDEL           2  write
    redis-8.10  FT.ALIASLIST         -1  readonly
    redis-8.0   FT.ALIASUPDATE        3  write
    redis-8.0   FT.ALTER             -6  write
    redis-8.0   FT.CONFIG            -3  admin
    redis-8.0   FT.CREATE            -5  write
    redis-8.0   FT.CURSOR            -4  readonly
    redis-8.0   FT.DICTADD           -3  write
    redis-8.0   FT.DICTDEL           -3  write
    redis-8.0   FT.DICTDUMP           2  readonly
    redis-8.0   FT.DROPINDEX         -2  write
    redis-8.0   FT.EXPLAIN           -3  readonly
    redis-8.0   FT.EXPLAINCLI        -3  readonly
    redis-8.4   FT.HYBRID            -3  readonly
    redis-8.0   FT.INFO               2  readonly
    redis-8.0   FT.PROFILE           -5  readonly
    redis-8.0   FT.SEARCH            -3  readonly
    redis-8.0   FT.SPELLCHECK        -3  readonly
    redis-8.0   FT.SUGADD            -4  write,denyoom       RW 1
    redis-8.0   FT.SUGDEL             3  write               RW 1
    redis-8.0   FT.SUGGET            -3  readonly            RO 1
    redis-8.0   FT.SUGLEN             2  readonly            RO 1
    redis-8.0   FT.SYNDUMP            2  readonly
    redis-8.0   FT.SYNUPDATE         -4  write
    redis-8.0   FT.TAGVALS            3  readonly
"""

_ACCESS_FLAGS = {
    "RO": frozenset({"RO", "access"}),
    "RW": frozenset({"RW", "access", "update"}),
    "OW": frozenset({"OW", "update"}),
    "RM": frozenset({"RM", "delete"}),
}

_KEYS = re.compile(
    r"(?P<access>R[OWM]|OW) "
    r"(?:#(?P<count>[0-9]+)|(?P<first>[0-9]+)(?P<dots>\.\.(?P<last>-?[0-9]+)?)?)"
    r"(?:/(?P<step>[0-9]+))?"
)


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of the lists above."""

    description: Description
    engine: str


def listed() -> Iterator[Listed]:
    """All commands listed here, containers before their subcommands."""
    for text, extra in ((_CORE, frozenset[str]()), (_MODULES, frozenset({"module"}))):
        for line in text.split("\n"):
            if line.strip():
                yield _listed(line.split(maxsplit=4), extra)


def _listed(fields: list[str], extra: frozenset[str]) -> Listed:
    engine, name, *rest = fields
    container = not rest
    flags = frozenset(rest[1].split(",")) if rest else frozenset[str]()
    keys = tuple(key_spec(part) for part in rest[2].strip().split(";")) if len(rest) > 2 else ()
    description = Description(
        name=name,
        arity=-2 if container else int(rest[0]),
        container=container,
        flags=flags | extra,
        categories=frozenset(flags & {"admin", "fast"}) | ({"write"} if "write" in flags else set()),
        key_specs=keys,
    )
    return Listed(description, engine)


def key_spec(text: str) -> KeySpec:
    """The specification that a listed form like ``RO 1..-2`` stands for; ValueError for any other text."""
    found = _KEYS.fullmatch(text)
    if found is None:
        raise ValueError(f"no form of keys: {text!r}")
    flags = _ACCESS_FLAGS[found["access"]]
    step = int(found["step"] or 1)
    if found["count"]:
        return KeySpec(flags, "index", start=int(found["count"]), find="keynum", first_key=1, step=step)
    first = int(found["first"])
    last = 0 if found["dots"] is None else int(found["last"] or -1)
    return KeySpec(flags, "index", start=first, last=last if last <= 0 else last - first, step=step)
