"""What has to be asked of an engine to prove that the users of an ACL are as wide as the policy, and no wider than the
list says."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.policy.acl.users import Acl, AclUser
from proxy.policy.acl.versions import Version
from proxy.policy.compile import CompiledPolicy, PolicyCompiler
from proxy.policy.decision import Decision
from proxy.policy.explain import judged_first, refused_alone, shown_command
from proxy.policy.model import Policy
from proxy.policy.tenants import TENANTS, Tenant
from proxy.rules.context import Context
from proxy.rules.verdict import Answer, Procedure, Refuse, Rewrite
from proxy.tenants.requests import NotOfferedError, own_prefixed, refusal_of, walk_of

_ANY_LISTENER = "any"


@dataclass(frozen=True, slots=True)
class Request:
    """A command that clients send: those of an app ("": of none), or of any if it is None."""

    argv: tuple[bytes, ...]
    app: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """Whether a user may run ``asked``. A client of the ``app`` sends ``command``. If a ``rule`` refuses that, the user
    must not run it; if none does, Keyrail sends ``asked`` for it, and the user has to be allowed that."""

    user: str
    app: str
    command: tuple[bytes, ...]
    asked: tuple[bytes, ...]
    rule: str = ""

    def fault(self, may_run: bool | None) -> str:
        """What is wrong with the answer; empty if nothing is. None: the engine does not know the command."""
        if may_run is None or may_run is not bool(self.rule):
            return ""
        who = f"user {self.user}, app {self.app or 'none'}: {shown_command(self.command)}"
        if self.rule:
            return f"{who}: {self.rule} refuses it, and Redis does not; no line says so"
        return f"{who}: Redis refuses {shown_command(self.asked)}, which Keyrail sends"


def questions(
    policy: Policy, acl: Acl, version: Version, requests: Sequence[Request], now: float
) -> Iterator[Question]:
    """What to ask about these requests. Each is judged for each app that a user's clients may be of."""
    apps = {app.name: app for app in policy.apps}
    compiler = PolicyCompiler(policy, STANDARD, available(version))
    for user in acl.users:
        for app in user.apps:
            compiled = compiler.bind(apps.get(app))
            for request in requests:
                if request.app in (None, app):
                    yield from _about(compiled, user, app, request.argv, version, now)


def available(version: Version) -> frozenset[str]:
    """The commands that rules may send: before 7.0, EXPIRE has no options."""
    names = {spec.display for spec in STANDARD.specs if spec.id and version.has(spec)}
    return frozenset(names if version.selectors else names - {"EXPIRE"})


def _about(
    compiled: CompiledPolicy, user: AclUser, app: str, argv: tuple[bytes, ...], version: Version, now: float
) -> Iterator[Question]:
    tenant = compiled.policy.tenants.of(app, user.name, _ANY_LISTENER)
    context = Context("", "", 0, False, now, _without_chance, app)
    command = judged_first(compiled, Command(STANDARD, argv), context)
    if not command.spec.id or not version.has(command.spec):
        return
    decision = compiled.judge(command, context)
    alone = refused_alone(command, decision)[1]
    rule = (alone or decision.hits[-1].rule) if isinstance(decision.verdict, Refuse) or alone else ""
    try:
        if tenant is not None:
            rule = _refused_to(tenant, compiled, command) or rule
        sent = [tuple(command.argv)] if rule else map(tuple, _sent(command.argv, decision))
        asked = [each if tenant is None or rule == TENANTS else _prefixed(tenant, each) for each in sent]
    except NotOfferedError:
        return  # in words of Keyrail, about arguments
    if any(command.spec.name in each.commands for each in user.narrower):
        return  # when it runs SORT, Redis asks for more rights than ACL DRYRUN says
    if rule and not any(each.rule == rule and command.spec.name in each.commands for each in user.wider):
        yield Question(user.name, app, argv, asked[0], rule)
    elif not rule:
        yield from (Question(user.name, app, argv, each) for each in asked)


def _refused_to(tenant: Tenant, compiled: CompiledPolicy, command: Command) -> str:
    """TENANTS if the command is not offered to tenants. Raises NotOfferedError for one that an ACL says nothing of."""
    if tenant.problem or tenant.empties(command.spec.name) or walk_of(command) is not None:
        raise NotOfferedError(b"")
    judge = compiled.tenant_scripts
    if judge is not None and judge.refusal(command, in_transaction=False) is not None:
        raise NotOfferedError(b"")
    return TENANTS if refusal_of(command, tenant.scripts) else ""


def _prefixed(tenant: Tenant, argv: Sequence[bytes]) -> tuple[bytes, ...]:
    return tuple(own_prefixed(Command(STANDARD, argv), tenant.prefix).argv)


def _sent(argv: Sequence[bytes], decision: Decision) -> Iterable[Sequence[bytes]]:
    """What Keyrail sends for a command that it does not refuse."""
    match decision.verdict:
        case Rewrite(argv=rewritten):
            yield rewritten
        case Procedure(steps=steps):
            yield from next(steps())
            yield argv
        case Answer():
            return
        case _:
            yield argv
    for each in decision.hidden:
        surround = each.surround
        yield from (*surround.before, *surround.after)
        lines = [b":0\r\n"] * len(surround.before) + [b"+hash\r\n"] * len(surround.after)
        yield from surround.conclude(b":1\r\n", lines)


def _without_chance() -> float:
    return 0.5
