"""The fields of a row of ``rows``, and their types. A row has the facts about a command that engines do not report.

If a field is left out, the command's flags, categories and key specifications decide, or the fact does not apply to the
command.
"""

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, TypeAlias

from proxy.commands.over_nodes import OverNodes
from proxy.commands.spec import ConnectionState

UNKNOWN_TYPE = ""
"""The type of a key if only the key itself tells it."""

AS_ARGUMENTS = -1
"""Of a reply: no more elements than the command has arguments, its name included."""
NULLS = (b"$-1\r\n", b"*-1\r\n", b"_\r\n")

KeySyntax: TypeAlias = Literal["sort", "migrate", "georadius", "streams", "bitfield"]
SpanSyntax: TypeAlias = Literal[
    "ranks",
    "zrange",
    "zrangestore",
    "scores",
    "xrange",
    "xread",
    "xinfo stream",
    "xpending",
    "xautoclaim",
    "geosearch",
    "geosearchstore",
    "georadius",
    "georadiusbymember",
    "count",
    "popped",
    "lpos",
    "sort",
]
ValueSyntax: TypeAlias = Literal["msetex", "payload", "setrange", "setbit", "bitfield"]
ClusterAnswer: TypeAlias = Literal[
    "read mode",
    "asking",
    "keyslot",
    "slots",
    "shards",
    "nodes",
    "info",
    "myid",
    "myshardid",
    "links",
    "replicas",
    "failure reports",
    "help",
]
"""What Keyrail answers to a command about the cluster itself."""
NodeSigns: TypeAlias = Literal["info", "role", "clients", "client info", "config", "slow log", "hello"]
"""In which form a reply names the node that sends it, or others."""
ScriptUse: TypeAlias = Literal["text", "load", "sha", "function", "library", "payload", "exists"]
"""What a command does with scripts: it runs a text, loads one, runs one by its SHA1 or a function by its name, loads a
library, restores libraries from a payload, or asks which scripts exist."""


class Published(NamedTuple):
    """What the documentation says about a command that no available engine reports.

    `engine` is the first version that has it. Spaces separate `flags`; engines give the flag ``module`` to the commands
    of a module. ``published.key_spec`` reads `keys`; a ``;`` separates several.
    """

    engine: str
    arity: int
    flags: str = ""
    keys: str = ""
    container: bool = False


class Creation(NamedTuple):
    """How one command creates keys.

    `zero_is_nothing`: a reply of ``:0`` means that nothing was written. `counts_from` is the index of the first pushed
    element if the reply is the length of the list, else 0. `last_key_only`: of the keys that it may write, it creates
    only the last. `null_is_nothing`: a null means that nothing was written. `by_script`: it may also remove the TTL of
    an existing key. `takes_over`: the key gets the value of another key, and its TTL or the lack of one.
    """

    type: str
    fresh: bool = False
    zero_is_nothing: bool = False
    counts_from: int = 0
    last_key_only: bool = False
    null_is_nothing: bool = True
    by_script: bool = False
    takes_over: bool = False

    def may_have_written(self, reply: bytes) -> bool:
        """Whether the command may have written something, by the first line of a reply that is no error."""
        if reply in NULLS:
            return not self.null_is_nothing
        return not (self.zero_is_nothing and reply == b":0\r\n")


class ExpiryArgument(NamedTuple):
    """The `argument` that is a lifetime, in units of `scale` milliseconds; if `moment`, it is a point in time."""

    argument: int
    scale: int
    moment: bool = False


class ExpiryOptions(NamedTuple):
    """Options from argument `first` on may state a lifetime; `unstated` is what the command does without one.

    If `behind_pairs`, argument 1 is the number of pairs of keys and values before the options.
    """

    first: int
    unstated: Literal["KEEPTTL", "PERSIST"]
    behind_pairs: bool = False


class NeedsKey(NamedTuple):
    """The option with which a command writes only if its key exists. It stands at argument `first` or later, behind
    options that are `beside` it; None where nothing but options comes from there on."""

    word: bytes
    first: int
    beside: frozenset[bytes] | None = None


class Stores(NamedTuple):
    """Which arguments are values to be stored, and which are members: ``2`` is argument 2, ``2..`` all from there on,
    ``2../2`` every second of them, and an empty text none.

    `members` may also name the syntax that tells how many there are (``values``). If each value has its own key, the
    key is `key_before` arguments before the value. `syntax`: only the command's syntax tells what it stores.
    """

    values: str = ""
    members: str = ""
    key_before: int = 0
    syntax: ValueSyntax | None = None


class Grows(NamedTuple):
    """The collection that a command makes grow: its first key. If `moves`, the command moves a member of the first key
    into the second, and the second grows. `measure` is the command for the size.

    `told`: the reply is the new length of the list (0 or -1 if nothing was written). `pushes` is the end at which a
    push adds elements.
    """

    measure: str
    moves: bool = False
    told: bool = False
    pushes: Literal["head", "tail"] | None = None


class Derivation(NamedTuple):
    """How one command computes its result: `measures` return a source's size, `bound` the result's most members."""

    measures: tuple[str, ...]
    bound: Callable[[Iterable[int]], int]
    takes_over: bool = False


def first(sizes: Iterable[int]) -> int:
    """The bound of a result that has no more members than its first source."""
    return next(iter(sizes))


class Whole(NamedTuple):
    """A command that works on whole collections.

    One of ``measures`` returns the size of each (an operation on sorted sets takes plain sets too). With several
    collections, an intersection costs the size of the ``smallest``, any other operation the sum. If ``spans``, the
    command reads all of the collection only if its arguments name no end. ``instead`` is advice. If ``sent``, the
    client receives the whole collection.
    """

    measures: tuple[str, ...]
    instead: str
    smallest: bool = False
    spans: bool = False
    sent: bool = True


class Measured(NamedTuple):
    """What a command for the size of a collection measures, in words."""

    collection: str
    members: str


class CachedRead(NamedTuple):
    """A read whose reply depends on nothing but the value of its only key, so that a local cache can keep it.

    `fields` are the arguments that name fields of a hash, as in ``Stores``, or ``all`` if the reply depends on all
    fields: where fields can have a TTL, a field expires without an invalidation. With `parts`, the reply has one
    element for each of several keys, and each key's element is kept by itself.

    `resp2` is how a client of RESP2 gets nulls, and pairs of a member and its score: nulls as ``strings`` or as
    ``arrays``, the latter also if there is an argument `null_arrays_from`; pairs one after the other if ``flat``.
    """

    fields: str = ""
    parts: bool = False
    resp2: Literal["strings", "arrays", "flat"] = "strings"
    null_arrays_from: int = 0


class NamedDatabase(NamedTuple):
    """Which arguments name databases: as many as `arguments` from `first` on, or each one behind an `option`."""

    first: int
    arguments: int = 1
    option: bytes = b""


class Row(NamedTuple):
    """All facts about one command that engines do not report."""

    name: str
    published: Published | None = None
    own_arity: int = 0
    """The description of a command that Keyrail answers itself."""

    # Its connection
    state: ConnectionState | None = None
    """Needed unless the flags prove it."""
    subcommands: ConnectionState | None = None
    """The same for each subcommand without a state in its own row, including those of future engines."""
    timeout_argument: int = 0
    """Of a command that blocks: the argument that says for how many seconds; a negative one counts from the end."""
    slow: bool = False
    """Its work grows with the keyspace, with several whole collections, or with a script or a disk."""
    only_reads: bool = False
    """It changes nothing, although the engines flag it ``admin`` or ``noscript``."""
    process_bound: bool | None = None
    """Whether the client relies on memory that the server loses when it restarts, unless its category tells it."""
    at_primary: bool = False
    """A replica's answer would mislead: it speaks of the server's memory, or has a cursor that means nothing to another
    server. So do those of its subcommands."""
    handshake: bool = False
    """Client libraries send it while they connect, and branch on its errors."""
    tried_subcommands: bool = False
    """Client libraries try newer subcommands of it, and branch on the error for those that do not exist."""
    needed: bool = False
    """Without it a client cannot log in, or cannot leave its state."""
    always_allowed: bool = False
    """A list of allowed commands always contains it, as it contains `needed` commands."""
    from_web_page: bool = False
    """Browsers send it, and the commands of a web page may follow. Redis closes the connection of any client that sends
    it."""
    databases: NamedDatabase | None = None
    shows_in_no_reply: bool = False
    """It changes something that no read on another connection can see. (INFO counts clients and commands, but others
    change these counts, too.)"""
    changes_users: bool = False
    """For ``ConnectionState.ADMIN``: it may change users and passwords."""
    ends_waits_with: bytes = b""
    """For ``ConnectionState.IDLE``: only with this word among its arguments does it end what other clients wait for.
    Without the word it may begin something."""

    # Pauses of writes
    may_replicate: bool = False
    """A pause of writes holds it back, although it does not write: CMD_MAY_REPLICATE in the engines' source, which
    COMMAND tells of in Redis 6.2 alone."""
    pauses_writes: bool = False
    """It makes Redis hold writes back, unless it ends waits."""
    pauses_writes_with: bytes = b""
    """With this word among its arguments it does so."""

    # Over the nodes of a cluster
    over_nodes: OverNodes | None = None
    """Where it goes and how replies join, where tips and keys do not decide it."""
    subcommands_over_nodes: OverNodes | None = None
    """The same for the subcommands whose rows do not say it, those of engines to come included."""

    cluster_answer: ClusterAnswer | None = None
    """Keyrail answers it itself where the upstream is a cluster."""

    of_one_server: bool = False
    """It tells what has happened on one server, and is not replicated. Clients of a cluster add up what nodes say."""
    shows_nodes: NodeSigns | None = None
    """Its reply names nodes of a cluster, and in which form."""
    names_addresses: bool = False
    """Its arguments may be addresses of nodes, which SLOWLOG shows."""

    # Its keys
    key_syntax: KeySyntax | None = None
    """The code that walks its arguments, if its key specifications are wrong."""
    reads_keys: bool = False
    """It only reads its keys, although the engine says that it writes them."""
    types: str = ""
    """The types of its keys, if its categories do not tell them: ``any``, or types in the words of TYPE. With
    ``zset set > zset`` it reads keys of the first two types and writes one of the last."""
    changes_data: bool = False
    """It may change or replace data without a flag that says so."""

    # Keys that it creates, and their lifetimes
    creates: Creation | None = None
    creates_elsewhere: str = ""
    """Why no hidden command on its own connection can act on the key that it creates."""
    never_creates: bool = False
    """A write that creates no key."""
    needs_key: NeedsKey | None = None
    deletes: Literal["one", "keys", "all"] | None = None
    """It is there to remove keys: at most ``one``, any of its ``keys``, or any of a database or slot (``all``)."""
    drops_ttl: bool = False
    """It may remove the TTL of a key."""
    expiry: ExpiryArgument | ExpiryOptions | Literal["restore", "persist"] | None = None
    """How it states or removes a lifetime."""
    ttl_with: str = ""
    """The command that does the same and can state a lifetime."""

    # What it stores and reads
    numbers: tuple[int, ...] = ()
    """The arguments that are numbers and no data, beside those of options: times, ranks, offsets, counts. Negative ones
    count from the end."""
    only_data: bool = False
    """It has no options: what looks like one, behind its keys, is data."""
    stores: Stores | None = None
    """Every command that may take memory has one."""
    grows: Grows | None = None
    adds_to_field: Literal["int", "float"] | None = None
    """It adds a number of this kind to a field of a hash."""
    derives: Derivation | None = None
    """It writes a whole collection: computed from others, or copied."""
    whole: Whole | None = None
    span: SpanSyntax | None = None
    """It asks for a span of elements: how its arguments tell the length of the span."""
    string_span: bool = False
    """It asks for a part of a string."""
    walks_keys: bool = False
    """It walks the keyspace by a pattern of keys."""
    scan_options: int = 0
    """Where the options of one of the SCAN family begin."""
    large_reply: bool = False
    """Its reply may be large, although it asks for no span and no whole collection."""
    reply_elements: int | None = None
    """The most elements of its reply (of the array, set or map itself, whose fields and values count each; 0 for a
    number), or AS_ARGUMENTS, if that is known whatever the other arguments are."""
    measures: Measured | None = None
    cached: CachedRead | None = None
    """A local cache can keep its reply."""
    not_cached: str = ""
    """Why a local cache does not keep the reply of a read."""
    reads_others: bool = False
    """Its reply, or what it stores, depends on keys that its arguments do not name. (SCAN's does, too, and promises
    nothing about keys that change meanwhile.)"""
    changes_untold: bool = False
    """It changes keys, and a client that tracks them gets no invalidation."""
    script: ScriptUse | None = None

    # Other commands in its place
    alias_of: str = ""
    """The other name of the same command."""
    interchangeable: str = ""
    """The command that has the same effect and the same reply: each can be sent in place of the other."""
    async_option: bool = False
    """The argument ASYNC changes only how long the command takes."""
    read_with: str = ""
    """The command that only reads, and has the same reply."""
    instead: str = ""
    """The advice in a refusal of it."""

    @property
    def display(self) -> str:
        """The name as people write it: ``CLIENT SETNAME``."""
        return self.name.replace("|", " ")
