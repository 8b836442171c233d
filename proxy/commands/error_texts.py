"""How error replies begin from which Keyrail concludes anything: who else can make such a text, and what proves it.

``redis.error_reply('NOSCRIPT x')``: a script, a function or a module's command answers any text, also after it has
written. So no text is believed by itself. Each decision has one row here, of the type that says what proves it, and no
other module compares the text of an error (``tests/commands/test_error_texts.py``):

    EngineTexts     The reply answers a command of Keyrail's own choice, or one that runs nothing of a client's (EXEC:
                    what scripts return stands inside its array). Only the engine can have said it.
    CommandTexts    The reply answers a client's command. It counts only if the command has no errors of its own
                    (``Spec.own_errors``): the caller has to say.
    Hints           Anybody may have said it. It makes Keyrail ask Redis, or do what harms nobody.

Not believed at all, and so in no row: NOSCRIPT behind a script (whether it ran is told by the TTL before it), OOM,
MISCONF, NOREPLICAS, UNKILLABLE.
"""

import re

_REDIRECT = re.compile(rb"-(?:MOVED|ASK) [0-9]{1,5} (.*):([0-9]{1,5})\r\n")
_REFUSED = re.compile(rb"-(?:NOPERM [^'`]*|ERR unknown command )['`]([^'`\s]+)")


def _ends(word: bytes) -> tuple[bytes, ...]:
    # A word ends with a space, or with the line: BUSY is not BUSYKEY.
    return (word, word[:-1] + b"\r") if word.endswith(b" ") else (word,)


class ErrorTexts:
    """A row: an error that begins with one of these decides something. ``answers`` is the command whose error it is,
    ``proof`` why that is enough, ``used_in`` the modules that decide by it."""

    def __init__(self, *beginnings: str, answers: str, proof: str, used_in: tuple[str, ...]) -> None:
        words = (b"-" + each.encode() for each in beginnings)
        self.beginnings = tuple(end for word in words for end in _ends(word))
        self.answers = answers
        self.proof = proof
        self.used_in = used_in


class EngineTexts(ErrorTexts):
    """What only the engine can have said."""

    def begin(self, reply: bytes) -> bool:
        """Whether the reply begins so."""
        return reply.startswith(self.beginnings)


class CommandTexts(ErrorTexts):
    """What the engine has said, unless the command makes its own errors."""

    def begin(self, reply: bytes, *, own_errors: bool) -> bool:
        """Whether the reply begins so, and the command cannot have made that up."""
        return not own_errors and reply.startswith(self.beginnings)


class Hints(ErrorTexts):
    """What anybody may have said."""

    def hinted(self, reply: bytes) -> bool:
        """Whether the reply begins so."""
        return reply.startswith(self.beginnings)


def endpoint_named(error: bytes) -> tuple[bytes, int] | None:
    """The host and the port in a MOVED or ASK, which is a hint: only a node that the cluster has is gone to."""
    found = _REDIRECT.fullmatch(error)
    return None if found is None else (found[1], int(found[2]))


def command_named(error: bytes) -> str:
    """The command that an error says is unknown, or not allowed; empty if it names none. A hint."""
    found = _REFUSED.match(error)
    return "" if found is None else found[1].decode("ascii", "replace").upper().partition("|")[0]


_REDIRECTS = ("MOVED ", "ASK ")
_ELSEWHERE = (*_REDIRECTS, "TRYAGAIN ", "CLUSTERDOWN ")
_STATES = ("LOADING ", "BUSY ", "MASTERDOWN ", "CLUSTERDOWN ")

# Whose slot it is

REDIRECTED = Hints(
    *_ELSEWHERE,
    answers="any command of a client with a cluster upstream",
    proof="its client is held back, and each row below says what it then takes to send the command again",
    used_in=("hotpath/upstream/error_words.py",),
)
NAMES_NODE = Hints(
    *_REDIRECTS,
    answers="a command that has not run, as the rows below prove",
    proof="only a node that the cluster has is gone to, and what must be proved before is",
    used_in=("session/cluster/refused_commands.py",),
)
ASKS = Hints(
    "ASK ",
    answers="a command that has not run, as the rows below prove",
    proof="as for NAMES_NODE; ASKING changes nothing at a node that is not importing",
    used_in=(
        "net/follow/nodes.py",
        "session/cluster/blocking.py",
        "session/commands/follow_ups.py",
        "session/policy/node_questions.py",
        "session/cluster/redirects.py",
    ),
)
EXEC_NOT_RUN = EngineTexts(
    "EXECABORT",
    *_ELSEWHERE,
    answers="EXEC",
    proof="errors of what ran stand in EXEC's array; without a transaction EXEC answers ERR",
    used_in=("session/cluster/refused_commands.py",),
)
EXEC_ABORTED = EngineTexts(
    "EXECABORT",
    answers="EXEC",
    proof="errors of what ran stand in EXEC's array",
    used_in=("session/commands/hidden_commands.py",),
)
EXEC_BECAUSE = EngineTexts(
    "EXECABORT Transaction discarded because of: ",
    answers="EXEC",
    proof="errors of what ran stand in EXEC's array",
    used_in=("session/commands/exec_abort.py", "net/connection/engine.py"),
)
EXEC_SLOT = EngineTexts(
    "CLUSTERDOWN ",
    "TRYAGAIN ",
    answers="EXEC",
    proof="errors of what ran stand in EXEC's array",
    used_in=("session/commands/exec_abort.py",),
)
NO_MULTI = EngineTexts(
    "NOPERM ",
    "ERR ",
    answers="EXEC behind a MULTI of Keyrail's own",
    proof="where MULTI was refused, EXEC itself says so: nothing of a client's runs in it",
    used_in=("session/commands/script_units.py",),
)
UNBLOCKED = CommandTexts(
    *_ELSEWHERE,
    "UNBLOCKED force ",
    answers="a client's blocking command, or WAIT",
    proof="the command makes no errors of its own, and a node answers so where nothing has been popped",
    used_in=("session/cluster/blocking.py",),
)
SLOT_CANNOT_BE_SERVED = Hints(
    "TRYAGAIN ",
    "CLUSTERDOWN ",
    answers="a blocking command of which UNBLOCKED is proved",
    proof="it is only what the client is told in the end",
    used_in=("session/cluster/blocking.py",),
)
WAITS_AT_REPLICA = EngineTexts(
    "ERR WAIT cannot be used with replica",
    "ERR WAITAOF cannot be used with replica",
    answers="WAIT and WAITAOF",
    proof="nothing of a client's runs in them",
    used_in=("session/cluster/wait_for_replicas.py",),
)
FOLLOW_UP_ELSEWHERE = EngineTexts(
    *_ELSEWHERE,
    answers="EXPIRE, EXISTS and TTL of Keyrail's own, or its one-line script",
    proof="nothing of a client's runs in them",
    used_in=("session/commands/follow_ups.py", "session/commands/hidden_commands.py"),
)
QUESTION_REDIRECTED = EngineTexts(
    *_REDIRECTS,
    answers="a question of a rule: TYPE, HLEN, SCAN …",
    proof="nothing of a client's runs in them",
    used_in=("session/policy/node_questions.py",),
)
TTL_ELSEWHERE = EngineTexts(
    *_ELSEWHERE,
    answers="PTTL of Keyrail's own",
    proof="nothing of a client's runs in it",
    used_in=("net/policy/expiries.py",),
)
SUBSCRIBED_ELSEWHERE = EngineTexts(
    *_ELSEWHERE,
    answers="(S|P)SUBSCRIBE and (S|P)UNSUBSCRIBE",
    proof="nothing else is sent on that connection but PING",
    used_in=("session/cluster/subscriber.py", "session/cluster/subscription_link.py"),
)
SUBSCRIPTION_REDIRECTED = EngineTexts(
    *_REDIRECTS,
    answers="(S|P)SUBSCRIBE and (S|P)UNSUBSCRIBE",
    proof="nothing else is sent on that connection but PING",
    used_in=("session/cluster/subscription_link.py",),
)
SUBSCRIBES_LATER = EngineTexts(
    "LOADING ",
    "MASTERDOWN ",
    "BUSY ",
    answers="(S|P)SUBSCRIBE and (S|P)UNSUBSCRIBE",
    proof="nothing else is sent on that connection but PING",
    used_in=("session/cluster/subscriber.py",),
)
FILL_ELSEWHERE = EngineTexts(
    *_ELSEWHERE,
    answers="PTTL, HPTTL and the read of a fill of the local cache",
    proof="only reads of the engine's own are cached",
    used_in=("local_cache/expected.py",),
)
READ_ELSEWHERE = Hints(
    *_ELSEWHERE,
    answers="a client's read that has been asked at a replica, and now at the key's owner",
    proof="a read changes nothing where it runs once more, and it does so once",
    used_in=("session/replicas/read_retries.py",),
)
SHOWS_NODES = Hints(
    *_REDIRECTS,
    "REDIRECT ",
    answers="any command of a client with a cluster upstream",
    proof="it is only told to the client in other words",
    used_in=("cluster/hidden_nodes.py",),
)
NOT_ASKED = EngineTexts(
    "CLUSTERDOWN ",
    answers="SCRIPT KILL, FUNCTION KILL and others that all nodes are asked",
    proof="nothing of a client's runs in them",
    used_in=("cluster/joins.py",),
)
NOTHING_TO_END = EngineTexts(
    "NOTBUSY ",
    answers="SCRIPT KILL and FUNCTION KILL",
    proof="nothing of a client's runs in them",
    used_in=("cluster/joins.py",),
)

# Whether the server can work now

READ_ONLY = Hints(
    "READONLY ",
    answers="any command",
    proof="ROLE is asked, and decides",
    used_in=("hotpath/upstream/error_words.py",),
)
PROBE_LOADING = EngineTexts(
    "LOADING ",
    answers="PING of the circuit breaker",
    proof="nothing of a client's runs in it",
    used_in=("net/pool/latency_probe.py",),
)
PROBE_FAILING = EngineTexts(
    "BUSY ",
    "MASTERDOWN ",
    "CLUSTERDOWN ",
    answers="PING of the circuit breaker",
    proof="nothing of a client's runs in it",
    used_in=("net/pool/latency_probe.py",),
)
REPLICA_UNABLE = CommandTexts(
    *_STATES,
    "NOAUTH ",
    answers="a client's read at a replica",
    proof="the command makes no errors of its own",
    used_in=("net/replicas/replica_connections.py",),
)
REPLICA_WANTS_LOGIN = Hints(
    "NOAUTH ",
    answers="a read of which REPLICA_UNABLE is proved",
    proof="the replica is only connected to again later",
    used_in=("net/replicas/replica_connections.py",),
)
REPLICA_REFUSES = Hints(
    *_STATES,
    "NOAUTH ",
    "NOPERM ",
    "NOSCRIPT ",
    *_ELSEWHERE,
    answers="a client's read at a replica",
    proof="a read changes nothing where it runs once more: the primary is asked, and its answer counts",
    used_in=("hotpath/upstream/error_words.py", "net/replicas/replica_connections.py"),
)
REPLICA_LACKS_SCRIPT = Hints(
    "NOSCRIPT ",
    answers="EVALSHA_RO at a replica",
    proof="the script is only loaded there once more",
    used_in=("net/replicas/replica_connections.py",),
)
NODE_CANNOT_TELL = EngineTexts(
    "BUSY ",
    "NOAUTH ",
    answers="CLUSTER MYID",
    proof="nothing of a client's runs in it",
    used_in=("net/topology/node_guard.py",),
)
IS_BUSY = EngineTexts(
    "BUSY ",
    answers="INFO on a new connection",
    proof="nothing of a client's runs in it",
    used_in=("net/pool/restarts.py",),
)
WANTS_LOGIN = EngineTexts(
    "NOAUTH ",
    answers="PING on a connection without a login, and HELLO on a new one",
    proof="nothing of a client's runs in it",
    used_in=("net/pool/relearning.py", "session/dispatcher/leaving.py"),
)
RUNS_WRITES = EngineTexts(
    "WRONGTYPE ",
    answers="a command of Keyrail's own that a pause of writes would hold back",
    proof="nothing of a client's runs in it",
    used_in=("net/pool/write_probe.py",),
)

# What the user may run, and what the engine has

REFUSES_COMMAND = Hints(
    "NOPERM ",
    "ERR unknown ",
    answers="any command",
    proof="the user is probed, and the probe decides",
    used_in=("hotpath/upstream/error_words.py",),
)
PROBE_ALLOWED = EngineTexts(
    *_ELSEWHERE,
    "CROSSSLOT ",
    answers="a command of a probe, inside MULTI",
    proof="nothing of a client's runs there: a node asks for permission before it asks whose the keys are",
    used_in=("net/connection/engine.py",),
)
# Other errors are temporary: OOM, BUSY, LOADING, MASTERDOWN, MISCONF. When it is out of memory, Redis refuses any
# command inside MULTI.
PROBE_REFUSED = EngineTexts(
    "ERR ",
    "NOPERM ",
    answers="MULTI, or a command of a probe, inside MULTI",
    proof="nothing of a client's runs there",
    used_in=("net/connection/engine.py",),
)
PROBE_UNKNOWN = EngineTexts(
    "ERR ",
    answers="a command of a probe, inside MULTI",
    proof="nothing of a client's runs there",
    used_in=("net/connection/engine.py",),
)
PROBE_FORBIDDEN = EngineTexts(
    "NOPERM ",
    answers="a command of Keyrail's own: of a probe, PTTL, SCAN, TTL of a fill",
    proof="nothing of a client's runs there",
    used_in=(
        "net/connection/engine.py",
        "net/policy/expiries.py",
        "rules/key_walk.py",
        "session/cluster/wait_for_replicas.py",
    ),
)
COMMAND_UNKNOWN = Hints(
    "ERR unknown command",
    "ERR unknown subcommand",
    "ERR Unknown subcommand",
    answers="a command that the table and the engine's COMMAND lack",
    proof="it goes over a shared connection from now on, which leaves its pool after any other reply",
    used_in=("session/commands/pinned.py",),
)
SAYS_NOTHING = Hints(
    *_STATES,
    "NOAUTH ",
    answers="a command that COMMAND_UNKNOWN has been said of",
    proof="what is known of it stays as it is",
    used_in=("session/commands/pinned.py",),
)
REPLY_MODE_UNKNOWN = EngineTexts(
    "ERR syntax error",
    answers="CLIENT REPLY with a mode that there is not",
    proof="nothing of a client's runs in it",
    used_in=("session/commands/pinned.py",),
)
FILL_REFUSED = EngineTexts(
    "NOPERM ",
    "ERR unknown command",
    answers="a command of Keyrail's own on a tracking connection",
    proof="nothing of a client's runs there",
    used_in=("local_cache/expected.py",),
)
FILL_LASTING = EngineTexts(
    "WRONGTYPE ",
    "NOPERM ",
    answers="the read of a fill of the local cache",
    proof="only reads of the engine's own are cached",
    used_in=("local_cache/expected.py",),
)
FIELD_TTLS_UNKNOWN = EngineTexts(
    "ERR unknown command",
    answers="HPTTL of Keyrail's own",
    proof="nothing of a client's runs in it",
    used_in=("net/cache/tracking_setup.py",),
)
FIELD_TTLS_ELSEWHERE = EngineTexts(
    *_ELSEWHERE,
    answers="HPTTL of Keyrail's own",
    proof="nothing of a client's runs in it",
    used_in=("net/cache/tracking_setup.py",),
)
SCRIPT_REFUSED = EngineTexts(
    "ERR ",
    "NOPERM ",
    answers="SCRIPT LOAD of Keyrail's own",
    proof="nothing of a client's runs in it: the script is only compiled",
    used_in=("net/topology/known_scripts.py",),
)
DATABASE_LACKING = EngineTexts(
    "ERR ",
    answers="SELECT of Keyrail's own",
    proof="nothing of a client's runs in it",
    used_in=("net/pool/databases.py",),
)
NO_SIZE = EngineTexts(
    "WRONGTYPE ",
    answers="a question of a rule: HLEN, LLEN …",
    proof="nothing of a client's runs in it",
    used_in=("rules/collections/rule.py", "rules/whole_collections/rule.py"),
)

# Who the client is

WRONG_PASSWORD = EngineTexts(
    "WRONGPASS ",
    answers="AUTH and HELLO",
    proof="nothing else of a client's runs in them",
    used_in=("session/logins/handshake.py",),
)
GREETING_UNCHANGED = EngineTexts(
    "WRONGPASS ",
    "NOPROTO ",
    answers="HELLO",
    proof="nothing else of a client's runs in it",
    used_in=("session/logins/handshake.py",),
)
