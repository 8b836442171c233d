"""Who has too many keys, by the last scan, creates no more; whatever can be gone since counts as gone, and an old scan
counts for nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.commands.creation import adds_keys, needs_key
from proxy.commands.table import STANDARD
from proxy.hotpath.counting.counters import Counters
from proxy.hotpath.plan.plan import JUDGE, PASS
from proxy.policy.compile import CompiledPolicy
from proxy.rules.memory import Memory
from proxy.rules.quota.holdings import ANY_NUMBER, Holdings
from proxy.rules.shared_state import OwnedKeys, Stored, Written
from proxy.rules.verdict import Refuse
from proxy.wire.request import Request
from tests.policy.given import compile_policy, policy
from tests.rules.given import command, context, spec, spend

DAY = 86_400.0
POLICY = """
defaults: {mode: enforce}
apps:
  shop: {match: {user: shop}}
  web: {match: {user: web}}
schema:
  cart: {key: "cart:{id}", app: shop}
  page: {key: "page:{id}", app: web}
rules:
  scripts: {scripts: {commands: follow_rules}}
  full: {quota: {LIMITS}BESIDE}
"""
FULL = Stored(0.0, "", {"shop": OwnedKeys(20, 2000, ((0.0, 2), (60.0, 3), (3600.0, 4))), "web": OwnedKeys(3, 300)})


class Given:
    """The policy for the clients of each app."""

    def __init__(self, limits: str, stored: Stored | None = None, *, beside: str = "", more: str = "") -> None:
        loaded = policy(POLICY.replace("LIMITS", limits).replace("BESIDE", beside) + more)
        memory = Memory()
        self.apps: dict[str, CompiledPolicy] = {
            "" if app is None else app.name: compile_policy(loaded, STANDARD, app=app, memory=memory)
            for app in (None, *loaded.apps)
        }
        (self.holdings,) = memory.each(Holdings).values()
        if stored is not None:
            self.holdings.learn(stored, 0.0)

    def refused(self, text: str, *more: bytes, app: str = "shop", now: float = 0.0) -> str:
        """The error; empty if it passes."""
        decision = self.apps[app].judge(command(text, *more), replace(context(), app=app, now=now))
        return decision.verdict.error.decode() if isinstance(decision.verdict, Refuse) else ""

    def plan(self, app: str, text: str) -> int:
        argv = text.encode().split()
        request = Request.from_argv(argv)
        plan = self.apps[app].plan
        return plan.decide(command(text).spec.id, request, bytes(request.data), STANDARD.keys, Counters(1))

    def pays(self, app: str, *, part: int = 0) -> bool:
        """Whether the plan passes a command of the app; its first part is about commands that create keys."""
        limit = self.apps[app].limits[part]
        return spend(limit.enter(replace(context(), app=app)).token_set, 30)


def test_who_is_over_creates_no_key_and_is_told_all_that_is_known() -> None:
    given = Given("keys: 10", FULL)
    assert given.refused("SET cart:1 v", now=7200.0) == (
        "-DENIED keyrail/full: SET may create a key, and shop is over its quota of 10 keys: the scan of "
        "1970-01-01T00:00:00Z found 20 keys of 2,000 bytes, of which at most 9 have expired or were deleted through "
        "Keyrail since (the scan is 2h old, and counts for 1d); delete keys that nobody needs, or write existing keys "
        "with XX; the next scan counts anew\r\n"
    )
    for text in ("INCR cart:1", "HSET cart:1 f v", "LPUSH cart:1 v", "MSET cart:1 v cart:2 v", "COPY cart:1 cart:2"):
        assert given.refused(text), text
    for text in ("GET cart:1", "DEL cart:1", "LPUSHX cart:1 v", "SET cart:1 v XX", "RENAME cart:1 cart:2", "PING"):
        assert not given.refused(text), text
    assert not given.refused("SET page:1 v", app="web")
    assert not given.refused("SET cart:1 v", app=""), "clients of no app have no quota"


def test_without_a_scan_and_by_an_old_one_nothing_is_refused() -> None:
    assert not Given("keys: 10").refused("SET cart:1 v")
    given = Given("keys: 10, max_age: 1h", FULL)
    assert given.refused("SET cart:1 v", now=3600.0)
    assert not given.refused("SET cart:1 v", now=3601.0)
    given.holdings.learn(FULL, 3601.0)
    assert given.pays("shop")


def test_what_may_be_gone_counts_as_gone() -> None:
    given = Given("keys: 17", FULL)
    assert given.refused("SET cart:1 v", now=59.0), "18 are left: 2 may have expired at once"
    assert not given.refused("SET cart:1 v", now=60.0), "3 more may have expired"
    given = Given("keys: 10", replace(FULL, since={"shop": Written(deleted=4), "": Written(deleted=3)}))
    assert given.refused("SET cart:1 v"), "11 are left"
    given.holdings.learn(replace(FULL, since={"shop": Written(deleted=4), "": Written(deleted=4)}), 0.0)
    assert not given.refused("SET cart:1 v")
    given.holdings.learn(replace(FULL, since={"web": Written(deleted=9)}), 0.0)
    assert given.refused("SET cart:1 v"), "another app has its own keys"


def test_a_clock_that_went_back_refuses_nothing() -> None:
    given = Given("keys: 10", replace(FULL, scanned=1000.0))
    assert given.refused("SET cart:1 v", now=1000.0)
    assert not given.refused("SET cart:1 v", now=999.0)
    assert not given.refused("SET cart:1 v", now=-DAY)


@pytest.mark.parametrize("beside", [", apps: [shop]", ", mode: audit", ", apps: [shop], mode: audit"])
def test_what_others_delete_counts_also_where_the_rule_is_not_about_them(beside: str) -> None:
    given = Given("keys: 30", FULL, beside=beside)
    for app in ("shop", "web", ""):
        assert given.plan(app, "DEL cart:1") == PASS
        given.refused("DEL cart:1 cart:2", app=app)
    given.refused("FLUSHALL", app="")
    deleted = {app: its.deleted for app, its in given.holdings.written().items()}
    assert deleted == {"shop": 2, "web": 2, "": ANY_NUMBER + 2}


def test_what_is_deleted_counts_also_under_an_exception() -> None:
    exception = 'exceptions: [{rule: full, keys: "cart:*", because: a test}]\n'
    given = Given("keys: 10", FULL, more=exception)
    assert not given.refused("SET cart:1 v")
    given.holdings.written()
    given.refused("DEL cart:1 cart:2")
    assert given.holdings.written() == {"shop": Written(deleted=2)}


def test_bytes_go_with_keys() -> None:
    assert Given("bytes: 1KB", FULL).refused("SET cart:1 v")
    assert not Given("bytes: 2KB", FULL).refused("SET cart:1 v")
    gone = replace(FULL, since={"shop": Written(deleted=9)})
    assert not Given("bytes: 1KB", gone).refused("SET cart:1 v"), "9 of 20 keys are left, and 900 of 2,000 bytes"


def test_an_owner_is_that_of_the_key() -> None:
    given = Given("keys: 10, per: owner", FULL)
    assert given.refused("SET cart:1 v", app="web")
    assert given.refused("MSET page:1 v cart:1 v", app="")
    assert not given.refused("SET page:1 v", app="shop")
    assert not given.refused("SET other:1 v", app="shop"), "nobody's"
    assert given.refused("COPY page:1 cart:1", app="web")
    assert not given.refused("COPY cart:1 page:1", app="web")
    assert not given.pays("web"), "any key may be one of an owner that is over"


def test_all_keys_of_a_tenant_are_its_own() -> None:
    given = Given("keys: 10, per: owner", FULL, more='tenants: {prefix: "{app}:", apps: [shop, web]}')
    assert given.refused("SET page:1 v", app="shop")
    assert not given.refused("SET cart:1 v", app="web")


def test_a_script_may_not_create_keys_either() -> None:
    text = b"return redis.call('SET', KEYS[1], 'v')"
    assert "full" in Given("keys: 10", FULL).refused("EVAL", text, b"1", b"cart:1")
    assert not Given("keys: 30", FULL).refused("EVAL", text, b"1", b"cart:1")


def test_the_plan_passes_and_counts_until_somebody_is_over() -> None:
    given = Given("keys: 30", FULL)
    assert [given.plan("shop", text) for text in ("SET cart:1 v", "DEL cart:1", "GET cart:1")] == [PASS] * 3
    assert [given.plan("shop", text) for text in ("DEL cart:1 cart:2", "FLUSHALL")] == [JUDGE] * 2
    assert all((given.pays("shop"), given.pays("shop"), given.pays("web"), given.pays("shop", part=1)))
    assert given.holdings.written() == {"shop": Written(2, 60, 1), "web": Written(1, 30)}
    assert not given.holdings.written()
    more = replace(FULL, owners={"shop": OwnedKeys(31, 3100), "web": OwnedKeys(3, 300)})
    assert given.pays("shop")
    given.holdings.learn(more, 0.0)
    assert (given.pays("shop"), given.pays("web"), given.pays("shop", part=1)) == (False, True, True)
    assert given.holdings.written() == {"shop": Written(1, 30, 1), "web": Written(1, 30)}, "nothing is lost"
    given.holdings.learn(FULL, 0.0)
    assert given.pays("shop")


def test_what_is_judged_counts_too() -> None:
    given = Given("keys: 30", FULL)
    for text in ("SET cart:1 v", "DEL cart:1 cart:2 cart:3", "GETDEL cart:1"):
        given.refused(text)
    assert given.holdings.written() == {"shop": Written(1, 32, 4)}
    given.refused("FLUSHDB", app="")
    assert given.holdings.written() == {"": Written(deleted=ANY_NUMBER)}


def test_the_state_outlives_a_reload() -> None:
    text = POLICY.replace("LIMITS", "keys: 10").replace("BESIDE", "")
    loaded = policy(text)
    memory = Memory()
    compile_policy(loaded, STANDARD, app=loaded.apps[0], memory=memory)
    before = memory.each(Holdings)["full"]
    fork = memory.fork()
    compile_policy(policy(text), STANDARD, app=loaded.apps[0], memory=fork)
    memory.join(fork)
    assert memory.each(Holdings)["full"] is before


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("SET k v XX", True),
        ("SET k v EX 5 xx", True),
        ("SET k XX", False),
        ("SET k v NX", False),
        ("ZADD k XX CH 1 m", True),
        ("ZADD k CH GT XX 1 m", True),
        ("ZADD k 1 XX", False),
        ("ZADD k CH 1 XX", False),
        ("GEOADD k XX 1 2 m", True),
        ("GEOADD k 1 2 XX", False),
        ("XADD k NOMKSTREAM * f v", True),
        ("XADD k * NOMKSTREAM v", False),
        ("HSET k XX v", False),
    ],
)
def test_some_options_create_no_key(text: str, needs: bool) -> None:
    assert needs_key(command(text)) is needs


def test_what_adds_keys() -> None:
    for name in ("SET", "HSET", "LPUSH", "XADD", "COPY", "RESTORE", "SUNIONSTORE", "JSON.SET", "LMOVE"):
        assert adds_keys(spec(name)), name
    for name in ("GET", "DEL", "RENAME", "MOVE", "LPUSHX", "EXPIRE", "EVAL", "FLUSHALL", "PING", "PUBLISH"):
        assert not adds_keys(spec(name)), name
