"""A tenant's client: names in what it sends, and in what Keyrail asks and sends for it, get its prefix, and lose it in
replies.

Rules judge the client's own names. All that stands behind their decision (the memory of hot keys, follow-ups, what
a client watches, counts of keys) has the names as Redis has them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from proxy.commands.command import Command
from proxy.commands.over_nodes import Destination
from proxy.commands.table import Table
from proxy.policy.decision import Decision, HiddenCommands
from proxy.policy.tenants import Tenant
from proxy.rules.verdict import Answer, End, Procedure, Refuse, Renewal, ReplyEdit, Rewrite, Steps, chained
from proxy.session.item import Item
from proxy.session.session import Session
from proxy.tenants import messages
from proxy.tenants.replies import ErrorEdit
from proxy.tenants.requests import (
    NotOfferedError,
    has_names,
    own_prefixed,
    prefixed,
    refusal_of,
)
from proxy.wire.encode import encode_command, encode_error


class TenantCommand(NamedTuple):
    """A command as Redis gets it, the edit of its reply, and the hidden commands that go with it."""

    command: Command
    edit: ReplyEdit | None
    hidden: tuple[HiddenCommands, ...]


def prefix_of(session: Session) -> bytes:
    """What stands before the client's names in Redis."""
    return b"" if session.tenant is None else session.tenant.prefix


def refusal(tenant: Tenant, command: Command) -> Refuse | None:
    """The refusal of a command that is not offered to the tenant; None for one that is."""
    error = b"" if tenant.empties(command.spec.name) else refusal_of(command, tenant.scripts)
    if not error and tenant.problem and has_names(command):
        error = encode_error(f"DENIED keyrail: this client is of a tenant, and {tenant.problem}")
    return Refuse(error) if error else None


def refusal_of_script(session: Session, command: Command) -> Refuse | Answer | None:
    """What a tenant's client gets in place of a script that its text does not allow; None for every other command."""
    judge = session.effective_policy.compiled.tenant_scripts
    return None if judge is None else judge.refusal(command, in_transaction=session.state.transaction is not None)


def for_redis(session: Session, tenant: Tenant, command: Command, hidden: tuple[HiddenCommands, ...]) -> TenantCommand:
    """A command of a tenant's client with its prefix. Raises NotOfferedError."""
    table, prefix = session.effective_policy.table, tenant.prefix
    assert not (tenant.problem and has_names(command)), "it is refused before rules judge it"
    argv, edit = prefixed(command, prefix, tenant.scripts)
    if argv != command.argv:
        session.intake.used_prefix = True
    # CLUSTER COUNTKEYSINSLOT travels as another command.
    spec = table.spec_of(argv) if command.spec.over_nodes.destination is Destination.SLOT_NUMBER else command.spec
    full = Command(table, argv, spec, command.streamed, command.streamed_length)
    full.further = command.further
    return TenantCommand(full, edit, tuple(_hidden(each, table, prefix) for each in hidden))


def put_prefix(
    session: Session, tenant: Tenant, item: Item, own: Command, decision: Decision, learned: ReplyEdit | None
) -> None:
    """Give what goes on its prefix: ``own``, by the decision about the item's command. ``learned`` is the edit with
    which rules learn from its reply. Raises NotOfferedError."""
    rewrite = decision.verdict if type(decision.verdict) is Rewrite else None
    edit = chained(learned, decision.edit if rewrite is None else rewrite.edit)
    full = for_redis(session, tenant, item.wrapper or own, item.hidden)
    item.instead_of, item.command, item.hidden = item.command, full.command, full.hidden
    item.raw = encode_command(full.command.argv)
    item.edit = chained(full.edit, edit)
    item.only_prefixed = rewrite is None and learned is None and (full.edit is None or type(full.edit) is ErrorEdit)
    if item.only_prefixed:
        item.terms, item.value_edit = decision.replica, decision.edit


def own_command(session: Session, item: Item) -> Command:
    """The command of an item for reports: of a tenant's client with the names that it knows."""
    return item.command if session.tenant is None or item.instead_of is None else item.instead_of


def raw_for_redis(tenant: Tenant, command: Command) -> bytes | None:
    """A command of its clients with the names by which a node is found for it, before it is judged. None for one that
    is not offered: it goes to no node."""
    if refusal(tenant, command) is not None:
        return None
    try:
        return encode_command(prefixed(command, tenant.prefix, tenant.scripts).argv)
    except NotOfferedError:
        return None


def begun_for_redis(session: Session, command: Command, streamed_length: int) -> Command | None:
    """A command of which all has arrived but the last argument, of so many bytes, with the names by which a node is
    found for it. None for a tenant's that is not offered."""
    tenant = session.tenant
    if tenant is None:
        return command
    table, arrived = session.effective_policy.table, len(command.argv)
    whole = Command(table, [*command.argv, b""], command.spec, arrived, streamed_length)
    if refusal(tenant, whole) is not None:
        return None
    try:
        argv = prefixed(whole, tenant.prefix, tenant.scripts).argv
    except NotOfferedError:
        return None
    return Command(table, argv[:arrived], command.spec)


def message_edit(tenant: Tenant | None) -> ReplyEdit | None:
    """The edit of messages, and of confirmations of subscriptions, for its clients; None for clients of none."""
    return None if tenant is None else messages.message_edit(tenant.prefix)


def _hidden(hidden: HiddenCommands, table: Table, prefix: bytes) -> HiddenCommands:
    surround = hidden.surround
    full = partial(_all_full, table, prefix)

    def conclude(line: bytes, lines: Sequence[bytes]) -> Sequence[Sequence[bytes]]:
        return full(surround.conclude(line, lines))

    changed = replace(surround, conclude=conclude, before=full(surround.before), after=full(surround.after))
    return replace(hidden, surround=changed)


def _all_full(table: Table, prefix: bytes, commands: Sequence[Sequence[bytes]]) -> Sequence[Sequence[bytes]]:
    return [_full(table, prefix, argv) for argv in commands]


def _full(table: Table, prefix: bytes, argv: Sequence[bytes]) -> Sequence[bytes]:
    full = own_prefixed(Command(table, argv), prefix).argv
    return Renewal(prefix + argv.key, argv.option, full) if isinstance(argv, Renewal) else full


def asked_for(session: Session, procedure: Procedure) -> Procedure:
    """A rule's procedure, which knows the names as the client does, with questions that have the prefix."""
    tenant = session.tenant
    if tenant is None:
        return procedure
    return replace(procedure, steps=partial(_steps, procedure.steps, session.effective_policy.table, tenant.prefix))


def _steps(begin: Callable[[], Steps], table: Table, prefix: bytes) -> Steps:
    own = begin()
    try:
        questions = next(own)
        while True:
            full = [own_prefixed(Command(table, question), prefix) for question in questions]
            frames = yield [each.argv for each in full]
            told = [frame if each.edit is None else each.edit(frame) for each, frame in zip(full, frames, strict=True)]
            questions = own.send(told)
    except StopIteration as stop:
        end: End = stop.value
        return end
    finally:
        own.close()
