"""Refusals of what client libraries send while they connect.

Libraries branch on the errors to these commands: one that finds ``NOPERM`` behind INFO or CLIENT SETINFO goes on
without it, where after any other error it may never get ready. So these few keep Redis's own text, and the rule
is only named where the refusal is counted.
"""

from proxy.commands.command import Command
from proxy.commands.overlay import HANDSHAKE
from proxy.commands.spec import Spec
from proxy.commands.words import word_of
from proxy.rules.verdict import Refuse, refusal
from proxy.wire.encode import encode_error

_CONTAINERS = (b"CLIENT", b"COMMAND")
_SHOWN = 64


def refusal_of(spec: Spec, rule: str, why: str, instead: str) -> Refuse:
    """The refusal of any request of a known command."""
    if spec.name in HANDSHAKE:
        return Refuse(encode_error(f"NOPERM this user has no permissions to run the '{spec.name.lower()}' command"))
    return refusal(rule, why, instead)


def refusal_of_unknown(command: Command, rule: str, why: str, instead: str) -> Refuse:
    """The refusal of a command that the table does not know, be it a subcommand of CLIENT that is newer."""
    container = word_of(command.argv[0])
    if container in _CONTAINERS and len(command.argv) > 1:
        name = command.argv[1][:_SHOWN].decode("ascii", "replace")
        return Refuse(encode_error(f"ERR unknown subcommand '{name}'. Try {container.decode()} HELP."))
    return refusal(rule, why, instead)
