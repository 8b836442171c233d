"""Reads whose replies a local cache can keep: they depend on nothing but the value of their only key, or each element
of the reply on that of one of their keys.

Where hashes have fields with a TTL, a field expires without an invalidation. A reply that depends on named fields can
be kept until the first of them expires; a reply that depends on all fields cannot be kept.
"""

from collections.abc import Sequence

from proxy.commands.overlay import may_change_data
from proxy.commands.row import CachedRead
from proxy.commands.rows import ROWS
from proxy.commands.spec import Spec
from proxy.commands.words import word_of
from proxy.wire.conversion import as_resp2

NO_KEYS = 0
"""It neither reads nor writes keys."""
CACHED = 1
"""It can be answered from memory."""
CACHED_PARTS = 2
"""The same, with one element of its reply for each of several keys."""
READS = 3
"""It reads the keys that its arguments name, and no others."""
KEYS = 4
"""It may write the keys that its arguments name, and no others."""
ANY_KEYS = 5
"""It may read or write any key, also of another database."""
ANY_KEYS_UNTOLD = 6
"""The same, and Redis does not tell which keys it changes."""
READS_ANY_KEYS = 7
"""It only reads, and its reply may depend on any key: what memory has stays, and is not for its client until Redis has
told what changed before."""

_PATTERNS = frozenset({b"BY", b"GET"})
"""Options of SORT, before a pattern of further keys."""

CACHED_READS = {row.name: row.cached for row in ROWS.values() if row.cached is not None}
"""By the command's name."""


def depends_on_whole_hash(read: CachedRead) -> bool:
    """Whether the expiry of any field of a hash changes the reply."""
    return read.fields == "all"


def fields_read(read: CachedRead, argv: Sequence[bytes]) -> Sequence[bytes]:
    """The fields of a hash that the reply depends on, if the request names them."""
    if read.fields in ("", "all"):
        return ()
    first, _, rest = read.fields.partition(".")
    return argv[int(first) :] if rest else argv[int(first) : int(first) + 1]


def reply_in_resp2(read: CachedRead, argc: int, frame: bytes) -> bytes:
    """The RESP3 reply to a request with ``argc`` arguments, its name included, as a client of RESP2 gets it."""
    null_arrays = read.resp2 == "arrays" or 0 < read.null_arrays_from < argc
    return as_resp2(frame, null_arrays=null_arrays, flat=read.resp2 == "flat")


def cache_role(spec: Spec) -> int:
    """What a command is to a cache that must know which keys clients read and write."""
    row = ROWS.get(spec.name)
    if spec.name in CACHED_READS:
        return CACHED_PARTS if CACHED_READS[spec.name].parts else CACHED
    if row is not None and row.changes_untold:
        return ANY_KEYS_UNTOLD
    reads_others = row is not None and row.reads_others
    if reads_others and not spec.only_reads and spec.may_have_keys:
        return ANY_KEYS
    if spec.own_errors and "readonly" in spec.flags:
        return READS_ANY_KEYS  # EVAL_RO and its relatives
    if reads_others or ("module" in spec.flags and spec.only_reads and not spec.may_have_keys):
        return READS_ANY_KEYS
    far = row is not None and row.databases is not None
    if spec.only_reads or not (spec.own_errors or spec.id == 0 or may_change_data(spec.name, spec.flags)):
        return (READS if spec.only_reads else KEYS) if spec.may_have_keys else NO_KEYS
    known = spec.may_have_keys and not (far or spec.own_errors)
    return KEYS if known else ANY_KEYS


def reads_no_others(spec: Spec, argv: Sequence[bytes]) -> bool:
    """Whether a command that can read keys which it does not name reads none in this form of it."""
    row = ROWS.get(spec.name)
    if row is None or not row.reads_others or row.key_syntax != "sort":
        return False
    return _PATTERNS.isdisjoint(map(word_of, argv[2:]))
