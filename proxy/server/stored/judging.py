"""What the rules of a policy find wrong with stored keys, and whose keys they are.

A key is judged by the rules for its owner's clients (``policy.key_owners``), each in its mode for this key, as if the
owner wrote it now. An exception for an app spares the keys that it owns.

Whether a key may be changed is asked of the rules that are enforced for its owner's clients, but of those about the key
itself: what is wrong with a name, a type, a TTL or a size is a reason to clean up. Rates, which other commands decide
about, are left out, too.

A key that begins with the prefix of a tenant is that tenant's, and is judged by the name that the tenant gives it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from proxy.commands.command import Command, KeysUnknownError
from proxy.commands.table import STANDARD
from proxy.policy.compile import PolicyCompiler
from proxy.policy.decision import Step
from proxy.policy.key_owners import KeyOwners
from proxy.policy.model import Mode, Policy
from proxy.policy.tenants import StoredNames
from proxy.rules.compress.terms import Terms
from proxy.rules.context import Context
from proxy.rules.rule import Rule
from proxy.rules.stored import Fault, StoredFault, StoredKey
from proxy.rules.stored_sizes import STRING
from proxy.rules.verdict import Answer, Refuse
from proxy.schema.entries import Owner
from proxy.server.stored.compressed_keys import CompressedKeys
from proxy.server.stored.model import ValueForm
from proxy.traffic.shapes import shape


@dataclass(frozen=True, slots=True)
class Finding:
    """What one rule finds wrong with a key, in the rule's mode for this key.

    `excepted`: an exception spares the key; `mode` is that without the exception.
    """

    rule: str
    mode: str
    excepted: bool
    fault: StoredFault


@dataclass(frozen=True, slots=True)
class Judged:
    """What is known of a key: the `entry` of the schema that owns it ("" for none) and its `pattern`, the entry or else
    the key's shape; its `app` and that app's `team` ("" if it is nobody's); and what is wrong with it. If a rule
    compresses its values, the rule and their `form`; if it is a tenant's, the tenant's `own` name for it, and its app
    as the name in Redis tells it."""

    pattern: str
    entry: str
    app: str
    team: str
    findings: tuple[Finding, ...]
    form: tuple[str, ValueForm] | None = None
    own: tuple[bytes, str] | None = None


class _Owned(NamedTuple):
    """A key by the name that its owner gives it, the entry that owns it, and the app."""

    name: bytes
    entry: Owner
    app: str


class StoredJudge:
    """Judges stored keys by a policy. `now` (seconds since the epoch) tells which exceptions are over.

    The rules are bound for each app when the first of its keys comes, and only those are kept that judge stored keys.
    """

    def __init__(self, policy: Policy, now: float) -> None:
        self._now = now
        self._apps = {app.name: app for app in policy.apps}
        self._teams = {app.name: app.team for app in policy.apps}
        self._owners = KeyOwners(policy)
        self._tenants = StoredNames(policy.tenants)
        self._compressed = CompressedKeys(policy, now)
        self._last: tuple[bytes | None, _Owned] = None, _Owned(b"", None, "")
        self._compiler = PolicyCompiler(policy, STANDARD)
        self._steps: dict[str, tuple[Step, ...]] = {}
        self._forbidding: dict[tuple[str, bytes], tuple[Step, ...]] = {}

    def judge(self, key: StoredKey) -> Judged:
        """Whose key it is, and what the rules that are not off for it find wrong."""
        name, entry, app = self._owned(key.name)
        own = _named(key, name)
        findings: tuple[Finding, ...] = ()
        for step in self._steps_for(app):
            fault = step.rule.judge_stored(own)
            if fault is not None:
                mode, excepted = self._mode(step, name)
                if mode is not Mode.OFF:
                    findings += (Finding(step.rule.name, mode.value, excepted, fault),)
        title = "" if entry is None else entry.title
        tenant = None if own is key else self._tenants.own(key.name)
        whose = title, app, self._teams.get(app, "")
        return Judged(title or shape(name), *whose, findings, self._form(key), tenant)

    def wants_members(self, key: StoredKey) -> bool:
        """Whether only the number of the key's members, for a string of its bytes, tells what is wrong with it."""
        name, _, app = self._owned(key.name)
        own = _named(key, name)
        wanting = (step for step in self._steps_for(app) if step.rule.members_wanted(own))
        return any(self._mode(step, name)[0] is not Mode.OFF for step in wanting)

    def wants_head(self, key: StoredKey) -> bool:
        """Whether the first bytes of a string tell what its plain size is: it may be compressed."""
        return key.type == STRING and self._compressed.rule_of(key.name) is not None

    def faults(self) -> frozenset[Fault]:
        """The faults that the rules can find, in the keys of any app."""
        found: frozenset[Fault] = frozenset()
        for app in ("", *self._apps):
            steps = (each for each in self._steps_for(app) if each.varies or each.mode is not Mode.OFF)
            found = found.union(*(each.rule.stored_faults for each in steps))
            if found == {*Fault}:
                break
        return found

    def ttl_by(self, rule: str, app: str, key: StoredKey, chance: float) -> int | None:
        """The TTL, in milliseconds, that this rule gives to a key of the app, by a random number in [0, 1). None if it
        gives none, is off for the key, or an exception spares it."""
        own = _named(key, self._owned(key.name).name)
        for step in self._steps_for(app):
            if step.rule.name == rule:
                mode, excepted = self._mode(step, own.name)
                return None if excepted or mode is Mode.OFF else step.rule.ttl_of_stored(own, chance)
        return None

    def forbidden_by(self, app: str, argv: Sequence[bytes], database: int = 0) -> str:
        """The first rule that refuses a command whose first argument is a key to the clients of the key's owner; "" if
        none does."""
        name, key, *rest = argv
        command = Command(STANDARD, [name, self._owned(key).name, *rest])
        context = Context("", "", database, False, self._now, _without_chance, app)
        for step in self._forbidding_steps(app, command):
            if step.mode_for(command, context) is Mode.ENFORCE and _refuses(step.rule, command, context):
                return step.rule.name
        return ""

    def _form(self, key: StoredKey) -> tuple[str, ValueForm] | None:
        rule = self._compressed.rule_of(key.name) if key.type in (STRING, "hash") else None
        if rule is None:
            return None
        if key.type != STRING:
            return rule.name, ValueForm.HASH
        if key.stored is not None:
            return rule.name, _compressed_form(rule.terms, key.dictionary)
        if key.members is None:
            return rule.name, ValueForm.UNKNOWN
        return rule.name, ValueForm.PLAIN if key.members > rule.terms.above else ValueForm.SMALL

    def _forbidding_steps(self, app: str, command: Command) -> tuple[Step, ...]:
        which = app, command.argv[0]
        if which not in self._forbidding:
            found = (each for each in self._compiler.bind(self._apps.get(app)).steps if each.rule.touches(command.spec))
            self._forbidding[which] = tuple(
                each for each in found if not _judges_stored(each.rule) and not each.rule.needs.place
            )
        return self._forbidding[which]

    def _owned(self, key: bytes) -> _Owned:
        # Each key is asked about twice: whether to count members, and what is wrong with it.
        if self._last[0] != key:
            own = self._tenants.own(key)
            name = key if own is None else own.name
            entry, app = self._owners.find(name)
            self._last = key, _Owned(name, entry, app if own is None else own.app or app)
        return self._last[1]

    def _steps_for(self, app: str) -> tuple[Step, ...]:
        steps = self._steps.get(app)
        if steps is None:
            bound = self._compiler.bind(self._apps.get(app))
            steps = self._steps[app] = tuple(each for each in bound.steps if _judges_stored(each.rule))
        return steps

    def _mode(self, step: Step, key: bytes) -> tuple[Mode, bool]:
        """The mode for this key, exceptions aside, and whether an exception spares it."""
        return step.effective_mode.mode_for_key(key, self._now) if step.varies else (step.mode, False)


def _named(key: StoredKey, name: bytes) -> StoredKey:
    return key if name is key.name else replace(key, name=name)


def _compressed_form(terms: Terms, dictionary: bytes) -> ValueForm:
    if not dictionary or (terms.dictionary is not None and dictionary == terms.dictionary.name):
        return ValueForm.COMPRESSED
    return ValueForm.OLDER_DICTIONARY if dictionary in terms.dictionaries else ValueForm.MISSING_DICTIONARY


def _refuses(rule: Rule, command: Command, context: Context) -> bool:
    try:
        return isinstance(rule.judge(command, context), Refuse | Answer)
    except KeysUnknownError:
        return True


def _without_chance() -> float:
    return 0.5


def _judges_stored(rule: Rule) -> bool:
    return type(rule).judge_stored is not Rule.judge_stored
