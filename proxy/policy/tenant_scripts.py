"""Scripts of tenants, judged by their text before they run.

A script passes if its text proves that it can use no keys but those that are declared for it, which get the prefix, and
that their names come neither into its reply nor into a value: each call names a command that tenants may call in
scripts, with elements of KEYS where it has keys, and they stand nowhere else (``rules.scripts.lua_reach``). What cannot
be proven is refused.
"""

from functools import partial

from proxy.commands.command import Command
from proxy.commands.table import Table
from proxy.commands.tenant_commands import Offer, RequestNames, ScriptTerms, decision_in_scripts
from proxy.policy.tenants import Tenants
from proxy.rules.memory import Memory
from proxy.rules.rule import takes
from proxy.rules.scripts.calls import SCRIPT_USES, PreparedCall
from proxy.rules.scripts.memory import ScriptMemory
from proxy.rules.scripts.own_arguments import fault_of_channel, fault_of_keys
from proxy.rules.scripts.seen import hiding, keys_of, not_known, text_of
from proxy.rules.scripts.text import ScriptCall, ScriptCalls
from proxy.rules.shared_state import FactKey
from proxy.rules.verdict import Answer, Refuse, ReplyEdit
from proxy.tenants.requests import denied

_MOST_JUDGED = 5_000
"""The most texts whose verdict is kept."""
_AS_ARGUMENTS = "pass keys only as KEYS[n] to redis.call, and no other names"
_TOO_LONG = "its script is too long to be read; use a shorter one"


def judge_of_scripts(tenants: Tenants, app: str, table: Table, memory: Memory) -> "TenantScripts | None":
    """The judge for the clients of an app; None where no script needs one."""
    if app not in tenants.apps or tenants.terms.scripts is not ScriptTerms.JUDGE:
        return None
    return TenantScripts(table, memory.shared(ScriptMemory))


class TenantScripts:
    """Judges scripts by their text, for the clients of tenants. A script is known if a client has sent its text through
    Keyrail, to this worker or another one."""

    def __init__(self, table: Table, memory: ScriptMemory) -> None:
        self._table = table
        self._memory = memory
        self._judged: dict[int, tuple[ScriptCalls, str]] = {}

    def lacks(self, command: Command) -> frozenset[FactKey]:
        """The scripts that must be known to judge a command, and are not."""
        return frozenset(key for key in keys_of(command) if self._memory.recall(key) is None)

    def edit_of_reply(self, command: Command) -> ReplyEdit | None:
        """The edit of a reply to SCRIPT EXISTS: a script is missing if EVALSHA would get NOSCRIPT."""
        lacking = self.lacks(command) if SCRIPT_USES.get(command.spec.name) == "exists" else ()
        return hiding([key in lacking for key in keys_of(command)]) if lacking else None

    def refusal(self, command: Command, *, in_transaction: bool) -> Refuse | Answer | None:
        """What the client gets in place of a script; None if it may run or be loaded, and for every other command."""
        use = SCRIPT_USES.get(command.spec.name)
        if use not in ("text", "load", "sha") or not takes(command.spec, len(command.argv)):
            return None
        refuse = partial(_refused, command)
        if use == "sha":
            found = self._memory.recall(keys_of(command)[0])
            if found is None:
                return not_known(in_transaction=in_transaction)
        else:
            text = text_of(command)
            if text is None:
                return refuse(_TOO_LONG)
            found = self._memory.read(text)
        fault = self._fault(found, command)
        return refuse(f"its script {fault}") if fault else None

    def _fault(self, found: ScriptCalls, command: Command) -> str:
        kept = self._judged.get(id(found))
        if kept is None or kept[0] is not found:
            if len(self._judged) >= _MOST_JUDGED:
                self._judged.clear()
            command.judged_calls += len(found.calls)
            kept = self._judged[id(found)] = found, self._find_fault(found)
        return kept[1]

    def _find_fault(self, found: ScriptCalls) -> str:
        beyond = found.dynamic or found.reaches
        if beyond:
            return f"{beyond}; {_AS_ARGUMENTS}"
        return next(filter(None, map(self._fault_of_call, found.calls)), "")

    def _fault_of_call(self, call: ScriptCall) -> str:
        prepared = PreparedCall(self._table, call)
        name, spec = prepared.beginning.name, prepared.beginning.spec
        if prepared.chooses_subcommand:
            return f"chooses a subcommand of {name} at run time; name it in the text"
        decision = decision_in_scripts(spec.name)
        if not isinstance(decision, Offer):
            return f"calls {name}: {decision or 'this Keyrail does not know where it has names'}; leave that call out"
        if decision.request is RequestNames.CHANNEL:
            fault = fault_of_channel(call)
        else:
            fault = fault_of_keys(self._table, spec, call)
        return f"calls {name} {fault}; {_AS_ARGUMENTS}" if fault else ""


def _refused(command: Command, why: str) -> Refuse:
    return Refuse(denied(command, why))
