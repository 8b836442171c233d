"""Each guardrail × each form in which a command can come × audit and enforce: no way to bypass it, and no side effect.

The same bytes go to the engine itself and through Keyrail, with the same keys. Audited, replies and keys are the same.
Enforced, a refused command changes nothing and its error names the rule; a rewritten command gets the reply that the
application expects. An error of Redis to the client's own command is the same; an error to a hidden command is not
forwarded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from proxy.policy.load import load_policy
from proxy.rules.order import ORDER, parts_of
from tests.conftest import Fleet
from tests.engines import Engine
from tests.guardrails import faults
from tests.guardrails.faults import FAULTS, Fault
from tests.guardrails.matrix import CASES, FORMS, MODES, app_of, policy_text
from tests.keyrail_process import DIRECT
from tests.resp import Wire, commands, eventually, pack
from tests.rules.cases import SILENT, Case, elsewhere

pytestmark = pytest.mark.skipif(DIRECT, reason="guardrails are Keyrail's own")

State = dict[bytes, tuple[object, bool]]


def test_every_guardrail_has_a_case(policies: dict[str, Path]) -> None:
    rules = [rule for file in policies.values() for rule in load_policy(file).rules]
    tried = {type(part) for rule in rules for part in parts_of(rule.settings)}
    assert {kind.__module__.split(".")[2] for kind in set(ORDER) - tried} == elsewhere().keys()


@pytest.fixture
def engine(fleet: Fleet) -> Engine:
    return fleet.engine("valkey-9.1")


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("matrix")
    files = {group: folder / f"{group}.yaml" for group in {case.group for case in CASES}}
    for group, file in files.items():
        file.write_text(policy_text(group), encoding="utf-8")
    return files


@pytest.fixture
def direct(engine: Engine, protocol: int) -> Iterator[Wire]:
    with engine.wire(protocol) as wire:
        yield wire


def begin(engine: Engine, case: Case) -> State:
    return made_by(engine, case.setup)


def made_by(engine: Engine, lines: Sequence[str]) -> State:
    with engine.wire() as direct:
        direct.send(pack("FLUSHALL") + commands(lines))
        assert not any(frame.startswith(b"-") for frame in direct.frames(1 + len(lines)))
        return state_through(direct)


def values(keys: State) -> dict[bytes, object]:
    return {key: value for key, (value, _) in keys.items()}


def state(engine: Engine) -> State:
    with engine.wire() as direct:
        return state_through(direct)


def state_through(direct: Wire) -> State:
    """Each key with its value and whether it has a TTL."""
    found = direct.value("KEYS", "*")
    assert isinstance(found, list)
    keys = [key for key in found if isinstance(key, bytes)]
    direct.send(b"".join(pack("DUMP", key) + pack("TTL", key) for key in keys))
    return {key: (direct.frame(), direct.frame() != b":-1\r\n") for key in keys}


def play(wire: Wire, form: str, line: str) -> list[bytes]:
    encode, send = FORMS[form]
    return send(wire, encode(line.split()))


def assert_refused(case: Case, form: str, replies: list[bytes], usual: list[bytes]) -> None:
    denied = [reply for reply in replies if reply.startswith(b"-DENIED ")]
    assert all(reply.startswith(b"-DENIED keyrail/%s: " % case.name.encode()) for reply in denied)
    assert all(reply.count(b"\r\n") == 1 for reply in denied)
    assert len(denied) == (form not in SILENT), (form, replies)
    if form.startswith("transaction"):
        assert replies[-1].startswith(b"-EXECABORT"), (form, replies)
    else:
        others = [(reply, at_first) for reply, at_first in zip(replies, usual, strict=True) if reply not in denied]
        assert all(reply == at_first for reply, at_first in others), (form, replies)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_way_around_and_nothing_in_the_way(
    fleet: Fleet, engine: Engine, policies: dict[str, Path], direct: Wire, protocol: int, case: Case, mode: str
) -> None:
    keyrail = fleet.keyrail(engine.name, policy=policies[case.group])
    with keyrail.wire(protocol) as wire:
        assert wire.ask("CLIENT", "SETNAME", app_of(case, mode)) == b"+OK\r\n"
        for form in FORMS:
            if form in case.without or (form == "tracking" and protocol == 2):
                continue
            for line in filter(None, (case.send, case.second)):
                before = begin(engine, case)
                usual = play(direct, form, line)
                after = state(engine)
                begin(engine, case)
                replies = play(wire, form, line)
                if not case.refused:
                    wire.ask("ECHO", "what follows the command has run")
                if mode == "audit":
                    assert (replies, state(engine)) == (usual, after), (form, line)
                elif case.refused:
                    assert_refused(case, form, replies, usual)
                    assert state(engine) == before, (form, line)
                else:
                    assert replies == usual, (form, line)
                    left = state(engine)
                    expected = made_by(engine, case.leaves) if case.leaves else after
                    assert values(left) == values(expected), (form, line)
                    if case.ttl_of and form != "after a watch":
                        assert left[case.ttl_of.encode()][1], (form, line)


@pytest.fixture(scope="module")
def users(fleet: Fleet) -> Iterator[None]:
    """Nobody else is to find them."""
    engine = fleet.engine("valkey-9.1")
    yield
    apps = [(case.send, app_of(case, mode)) for case in CASES for mode in MODES]
    engine.do("ACL", "DELUSER", *{fault.user(line, app) for fault in FAULTS for line, app in apps})


@pytest.mark.usefixtures("users")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_error_of_redis_is_told_as_it_is_or_not_at_all(
    fleet: Fleet, engine: Engine, policies: dict[str, Path], case: Case, mode: str
) -> None:
    keyrail = fleet.keyrail(engine.name, policy=policies[case.group])
    app = app_of(case, mode)
    for fault in FAULTS:
        tried = [(form, case.send) for form in faults.FORMS] + [("plain", case.second)] * bool(case.second)
        for form, line in tried:
            if form not in case.without and fault.name not in case.without:
                hit = (fault.name, form, line)
                fault.introduce(engine, line, app)
                with engine.wire() as direct, keyrail.wire() as wire:
                    for each in (direct, wire):
                        each.ask("CLIENT", "SETNAME", app)
                        assert each.ask("AUTH", fault.user(line, app), faults.PASSWORD) == b"+OK\r\n"
                    usual, before, after = played(engine, case, fault, app, direct, form, line)
                    replies, before, left = played(engine, case, fault, app, wire, form, line)
                    if mode == "enforce" and not case.refused and fault.later and replies != usual:
                        # Nobody could know; nothing was run, and the next time nothing goes along.
                        assert b"hidden command" in b"".join(replies) or replies[-1].startswith(b"-EXECABORT"), hit
                        assert left == before, hit
                        replies, before, left = played(engine, case, fault, app, wire, form, line)
                if mode == "enforce" and case.refused:
                    assert_refused(case, form, replies, usual)
                    assert left == before, hit
                else:
                    assert replies == usual, hit
                    assert mode == "enforce" or left == after, hit


def played(
    engine: Engine, case: Case, fault: Fault, app: str, wire: Wire, form: str, line: str
) -> tuple[list[bytes], State, State]:
    """The replies, and the keys before and after."""
    begin(engine, case)
    with fault.in_force(engine, line, app):
        before = state(engine)
        replies = play(wire, form, line)
        wire.ask("ECHO", "what follows the command has run")
        return replies, before, state(engine)


@pytest.mark.parametrize("group", ["common", "apart"])
def test_what_is_audited_is_counted_for_its_app(
    fleet: Fleet, engine: Engine, policies: dict[str, Path], group: str
) -> None:
    keyrail = fleet.keyrail(engine.name, policy=policies[group])
    cases = [case for case in CASES if case.group == group]
    for case in cases:
        begin(engine, case)
        with keyrail.wire() as wire:
            wire.ask("CLIENT", "SETNAME", app_of(case, "audit"))
            play(wire, "plain", case.send)

    def counted() -> bool:
        rules = json.loads(keyrail.http("/rules")[1])["routes"][0]["rules"]
        hits = {rule["rule"]: rule["apps"].get(f"{rule['rule']}-audit", {}).get("hits", {}) for rule in rules}
        return all(any(kind.startswith("audit ") for kind in hits[case.name]) for case in cases)

    eventually(counted)
