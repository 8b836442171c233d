"""What one row of ``rows`` says about a command beyond the engines' own tables: its fields, and their types.

A field that is left out says nothing: then the command's flags, categories and key specifications decide, or the
command has nothing of the kind.
"""

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, TypeAlias

from proxy.commands.over_nodes import OverNodes
from proxy.commands.spec import ConnectionState

UNKNOWN_TYPE = ""
"""Of a key whose type only the key itself can tell."""

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
"""What the command is to scripts: it runs a text, loads one, runs one by its SHA1 or a function by its name, loads a
library, restores libraries from a payload, or asks which scripts there are."""


class Published(NamedTuple):
    """What the documentation says of a command that no engine at hand reports.

    `engine` is where it appeared. `flags` are separated by spaces; ``module`` is the flag that engines give to what a
    module brings. `keys` is read by ``listed.key_spec``, several are joined by ``;``.
    """

    engine: str
    arity: int
    flags: str = ""
    keys: str = ""
    container: bool = False


class Creation(NamedTuple):
    """How one command creates keys.

    `zero_is_nothing`: so a reply of ``:0`` is to be read. `counts_from` is where the pushed elements begin, for the
    commands whose reply is their length, otherwise 0. `last_key_only`: of the keys that it may write, it creates the
    last. `null_is_nothing`: so is a null. `by_script`: it may also take away the lifetime of a key that is there.
    `takes_over`: the key gets what another key has, its value, and its lifetime or the lack of one.
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
        """Whether something may have been written, by the first line of a reply that is no error."""
        if reply in NULLS:
            return not self.null_is_nothing
        return not (self.zero_is_nothing and reply == b":0\r\n")


class ExpiryArgument(NamedTuple):
    """The `argument` that is a lifetime, in units of `scale` milliseconds; `moment` says that it is a time of day."""

    argument: int
    scale: int
    moment: bool = False


class ExpiryOptions(NamedTuple):
    """Options from argument `first` on may state a lifetime, or `unstated` what becomes of the one that a key has.

    If `behind_pairs`, argument 1 counts the pairs of keys and values that stand before the options.
    """

    first: int
    unstated: Literal["KEEPTTL", "PERSIST"]
    behind_pairs: bool = False


class Stores(NamedTuple):
    """Which arguments are values to be stored, and which are members: ``2`` is argument 2, ``2..`` all from there on,
    ``2../2`` every second of them, and nothing is none.

    `members` may also name the syntax that tells how many there are (``values``). Where each value has a key of its
    own, that is `key_before` arguments before it. `syntax`: only the command's syntax tells what it stores.
    """

    values: str = ""
    members: str = ""
    key_before: int = 0
    syntax: ValueSyntax | None = None


class Grows(NamedTuple):
    """The collection that a command makes grow: the first of its keys, or if `moves` the second, into which it moves a
    member of the first. `measure` asks for its size.

    `told`: the reply is the length that the list has now (0 or -1 where nothing was written). `pushes` is the end at
    which a push adds elements.
    """

    measure: str
    moves: bool = False
    told: bool = False
    pushes: Literal["head", "tail"] | None = None


class Derivation(NamedTuple):
    """How one command derives its result: `measures` tell a source's size, `bound` what sizes allow at most."""

    measures: tuple[str, ...]
    bound: Callable[[Iterable[int]], int]
    takes_over: bool = False


def first(sizes: Iterable[int]) -> int:
    """The bound of what has no more members than its first source."""
    return next(iter(sizes))


class Whole(NamedTuple):
    """A command that works on whole collections.

    One of ``measures`` tells the size of each (an operation on sorted sets takes plain sets too). Of several, an
    intersection costs what the ``smallest`` has, anything else the sum. Where ``spans``, it is about the whole only
    when its arguments name no end. ``instead`` is advice. ``sent`` says that the client is sent all of it.
    """

    measures: tuple[str, ...]
    instead: str
    smallest: bool = False
    spans: bool = False
    sent: bool = True


class Measured(NamedTuple):
    """What a command that tells a collection's size measures, in words."""

    collection: str
    members: str


class NamedDatabase(NamedTuple):
    """Which arguments name databases: so many `arguments` from `first` on, or each behind an `option` from there on."""

    first: int
    arguments: int = 1
    option: bytes = b""


class Row(NamedTuple):
    """All that Keyrail must know about one command beyond the engines' own tables."""

    name: str
    published: Published | None = None
    own_arity: int = 0
    """Of a command that Keyrail answers itself."""

    # Its connection
    state: ConnectionState | None = None
    """Unless the flags prove it."""
    subcommands: ConnectionState | None = None
    """The same for the subcommands whose rows do not say it, those of engines to come included."""
    slow: bool = False
    """Its work grows with the keyspace, with several whole collections, or with a script or a disk."""
    only_reads: bool = False
    """Changes nothing, though the engines flag it as a command of administrators or of no script."""
    process_bound: bool | None = None
    """Whether the client counts on what dies with the server process, unless its category says it."""
    handshake: bool = False
    """Client libraries send it while they connect, and branch on its errors."""
    tried_subcommands: bool = False
    """Client libraries try newer subcommands of it, and branch on the error for those that do not exist."""
    needed: bool = False
    """Without it a client cannot log in, or cannot leave a state that it is in."""
    always_allowed: bool = False
    """A list of allowed commands always has it, as it has those that are `needed`."""
    from_web_page: bool = False
    """Browsers send it, and commands of a web page may follow: Redis closes the connection, whoever sends it."""
    databases: NamedDatabase | None = None
    shows_in_no_reply: bool = False
    """It changes something, and no reply to a read of another connection tells whether it has run. (INFO counts
    clients and commands, which come and go by themselves.)"""
    changes_users: bool = False
    """Of ``ConnectionState.ADMIN``: who may log in, or with which password, may be another after it."""
    ends_waits_with: bytes = b""
    """Of ``ConnectionState.IDLE``: it only ends what others wait for with this word among its arguments, and may begin
    something without."""

    # Over the nodes of a cluster
    over_nodes: OverNodes | None = None
    """Where it goes and how replies join, where tips and keys do not decide it."""
    subcommands_over_nodes: OverNodes | None = None
    """The same for the subcommands whose rows do not say it, those of engines to come included."""

    cluster_answer: ClusterAnswer | None = None
    """Keyrail answers it itself where the upstream is a cluster."""

    shows_nodes: NodeSigns | None = None
    """Its reply names nodes of a cluster, and in which form."""
    names_addresses: bool = False
    """Its arguments may be addresses of nodes, which SLOWLOG shows."""

    # Its keys
    key_syntax: KeySyntax | None = None
    """What walks its arguments, where key specifications do not tell the truth."""
    reads_keys: bool = False
    """Its keys are only read, although the engine says that they are written."""
    types: str = ""
    """Of its keys, where categories do not tell: ``any``, or types in the words of TYPE; ``zset set > zset`` reads the
    first two and writes the last."""
    changes_data: bool = False
    """It may change or replace data without a flag that says so."""

    # Keys that it creates, and their lifetimes
    creates: Creation | None = None
    creates_elsewhere: str = ""
    """It creates a key where, or in a way that, nothing can be done about it from its own connection, and why."""
    never_creates: bool = False
    """A write that creates no key."""
    drops_ttl: bool = False
    """It may leave a key without the lifetime that it had."""
    expiry: ExpiryArgument | ExpiryOptions | Literal["restore", "persist"] | None = None
    """How it states a lifetime, or takes it away."""
    ttl_with: str = ""
    """The command that does the same and can state a lifetime."""

    # What it stores and reads
    stores: Stores | None = None
    """Any command that may take memory has it."""
    grows: Grows | None = None
    derives: Derivation | None = None
    """It writes a collection whole, made of others or taken over."""
    whole: Whole | None = None
    span: SpanSyntax | None = None
    """It asks for a span of elements, and how its arguments tell how long that is."""
    string_span: bool = False
    """It asks for a part of a string."""
    walks_keys: bool = False
    """It walks the keyspace by a pattern of keys."""
    scan_options: int = 0
    """Where the options of one of the SCAN family begin."""
    large_reply: bool = False
    """It may be answered by much, beside those that ask for spans or for whole collections."""
    measures: Measured | None = None
    script: ScriptUse | None = None

    # Other commands in its place
    alias_of: str = ""
    """The command that does one and the same thing under another name."""
    interchangeable: str = ""
    """The command that can be sent in its place, and it in place of that: no client can tell from the reply."""
    async_option: bool = False
    """The argument ASYNC changes nothing that a client can see but how long it takes."""
    read_with: str = ""
    """The command that does its reading without writing."""
    instead: str = ""
    """Advice for those whom it is refused."""

    @property
    def display(self) -> str:
        """The name as people write it: ``CLIENT SETNAME``."""
        return self.name.replace("|", " ")
