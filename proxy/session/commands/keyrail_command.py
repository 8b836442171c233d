"""KEYRAIL …: questions to the proxy itself, answered here in their place among the replies.

EXPLAIN judges a command as it would be judged now, but for limits: it sees them with nothing used up, and uses up
nothing. What spans workers comes from the supervisor, and says how old it is. Inside MULTI they are refused (EXEC's
array is Redis's own), before a login they are not answered, and a policy can refuse them like any other command.
"""

from typing import Any

from proxy.commands.keyrail_commands import CONTAINER
from proxy.commands.table import ConnectionState, Spec
from proxy.policy.explain import explain
from proxy.policy.schema_export import entry_facts
from proxy.rules.rule import takes
from proxy.schema.nearest import nearest_entry
from proxy.session.commands import sending, switching
from proxy.session.commands.handler import Handler
from proxy.session.item import JudgedCommand
from proxy.session.policy import judging
from proxy.session.ports.info_query import TRAFFIC, InfoQuery, read_options, shortened
from proxy.session.session import Session
from proxy.session.state import Awaited
from proxy.wire.encode import encode_error, encode_lines, encode_value

_HELP = (
    f"{CONTAINER} <subcommand> [<arg> ...]. Subcommands are:",
    "CLIENTS [COUNT <count>] [WINDOW 5|10|60|600|3600]",
    "    The busiest clients by app, user, name, library and host: rates, bytes, refusals.",
    "EXPLAIN <command> [<arg> ...]",
    "    What the policy would do with a command of yours, rule by rule, and why. Nothing is sent to Redis.",
    "HOTKEYS [COUNT <count>] [WINDOW 5|10|60|600|3600] [BY reads|writes|bytes]",
    "    The busiest keys of the last so many seconds, and the clients behind each.",
    "INCIDENTS [COUNT <count>]",
    "    Hot keys, hot slots and large values of a week, the newest first, with what relieves them.",
    "INFO",
    "    What this Keyrail is, and how it does.",
    "NODE <node> <command> [<arg> ...]",
    "    Run a command of yours on this node of the cluster: n1, n2 … as /nodes on the admin port has them.",
    "PATTERNS [COUNT <count>] [WINDOW 5|10|60|600|3600]",
    "    The same by pattern of keys: reads, writes, bytes, hits, latency.",
    "POLICY",
    "    The policy in force: its files, its rules, each rule's mode.",
    "RULES [<rule>]",
    "    What each rule has found: hits by mode and outcome, out of how many commands. With a rule also who",
    "    and which keys, for each application.",
    "SCHEMA [<key>]",
    "    The keys that the policy knows: patterns, owners, types, TTLs, sizes. With a key, the entry that owns it.",
    "SLOTS [COUNT <count>] [WINDOW 5|10|60|600|3600]",
    "    The busiest hash slots and hash tags, as a cluster would have them.",
    "SLOW [COUNT <count>]",
    "    The slowest of the commands that were traced in an hour, with their time at Redis and in Keyrail.",
    "HELP",
    "    Print this help.",
)
_HELP_FOR_TENANTS = (
    f"{CONTAINER} <subcommand> [<arg> ...]. Subcommands for tenants are:",
    "HOTKEYS [COUNT <count>] [WINDOW 5|10|60|600|3600] [BY reads|writes|bytes]",
    "    The busiest of your keys of the last so many seconds.",
    "HELP",
    "    Print this help.",
)
_UNAUTHENTICATED = encode_error("NOAUTH Authentication required.")
_ONLY_SUBSCRIPTIONS = (
    "ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
)
_EXPLAINED = 20
"""The calls of scripts that an explanation counts as."""
_NO_ANSWER = encode_error("ERR Keyrail: its supervisor does not answer; try again")


def answer(session: Session, item: JudgedCommand) -> None:
    """Answer one of the commands, or the error that Redis would have for it."""
    command = item.command
    spec = command.spec
    words = command.argv
    if spec.container or not takes(spec, len(words)):
        sending.answer(session, wrong_number(spec))
    elif session.ports.capabilities.unauthenticated(session.key):
        sending.answer(session, _UNAUTHENTICATED)
    elif session.state.subscriptions is not None and session.state.subscriptions.confines():
        sending.answer(session, confined_error(spec))
    else:
        _tell(session, spec, words[2:])


def unknown_subcommand(argv: list[bytes]) -> bytes:
    """The error for KEYRAIL and a subcommand that does not exist."""
    name = argv[1][:128].decode("utf-8", "replace")
    return encode_error(f"ERR unknown subcommand '{name}'. Try {CONTAINER} HELP.")


def confined_error(spec: Spec) -> bytes:
    """Redis's error for a command of a RESP2 client that is subscribed."""
    return encode_error(_ONLY_SUBSCRIPTIONS % spec.name.lower())


def wrong_number(spec: Spec) -> bytes:
    """Redis's error for a command with too few or too many arguments."""
    return encode_error(f"ERR wrong number of arguments for '{spec.name.lower()}' command")


def _tell(session: Session, spec: Spec, arguments: list[bytes]) -> None:
    subject = spec.name.partition("|")[2]
    if subject == "EXPLAIN":
        compiled = session.ports.policies.rehearsal(session.key, session.caller())
        judging.note_calls(session, _EXPLAINED)
        explained = str(explain(compiled, arguments, judging.context_of(session))).split("\n")
        sending.answer(session, encode_value(explained, session.key.protocol))
        return
    if subject == "HELP":
        sending.answer(session, encode_lines(_HELP if session.tenant is None else _HELP_FOR_TENANTS))
        return
    if subject == "SCHEMA":
        sending.answer(session, wrong_number(spec) if len(arguments) > 1 else _schema(session, arguments))
        return
    query, count = InfoQuery(subject.lower()), 0
    if query.subject in TRAFFIC:
        try:
            query, count = read_options(query.subject, arguments, _prefix_of(session))
        except ValueError as error:
            sending.answer(session, encode_error(f"ERR {error}. Try {CONTAINER} HELP."))
            return
    elif len(arguments) > 1:
        sending.answer(session, wrong_number(spec))
        return
    told = session.ports.supervisor.group_info(session, query)
    if told is None:
        switching.must_wait(session, Awaited.GROUP)
    if not told:
        sending.answer(session, _NO_ANSWER)
    elif count:
        sending.answer(session, encode_value(shortened(told, count), session.key.protocol))
    elif subject == "RULES":
        sending.answer(session, _rules(told, arguments, session.key.protocol))
    else:
        sending.answer(session, encode_value(told, session.key.protocol))


def _prefix_of(session: Session) -> bytes:
    if session.tenant is None:
        return b""
    session.intake.used_prefix = True
    return session.tenant.prefix


def _schema(session: Session, arguments: list[bytes]) -> bytes:
    schema = session.effective_policy.compiled.policy.schema
    if not arguments:
        return encode_value({"entries": [entry_facts(entry) for entry in schema.entries]}, session.key.protocol)
    owner = schema.owner_of(arguments[0])
    if owner is not None:
        return encode_value(entry_facts(owner), session.key.protocol)
    nearest = nearest_entry(schema.entries, arguments[0])
    hint = "" if nearest is None else f" The nearest is {nearest.described}."
    return encode_error(f"ERR no entry of the schema owns this key.{hint} Try {CONTAINER} SCHEMA.")


def _rules(told: dict[str, Any], arguments: list[bytes], protocol: int) -> bytes:
    if not arguments:
        rules = [{key: value for key, value in rule.items() if key != "apps"} for rule in told["rules"]]
        return encode_value({**told, "rules": rules}, protocol)
    name = arguments[0].decode("utf-8", "replace")
    for rule in told["rules"]:
        if rule["rule"] == name:
            return encode_value({"age": told["age"], **rule}, protocol)
    return encode_error(f"ERR no rule '{name[:64]}' in this policy. Try {CONTAINER} RULES.")


HANDLERS: dict[ConnectionState, Handler] = {ConnectionState.KEYRAIL: answer}
