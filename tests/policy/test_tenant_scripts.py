"""Scripts of tenants by their text: those of well-known libraries, and those that could reach or tell names."""

from hashlib import sha1

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.policy.explain import explain
from proxy.policy.tenant_scripts import TenantScripts, judge_of_scripts
from proxy.policy.tenants import Tenants, TenantTerms
from proxy.rules.memory import Memory
from proxy.rules.scripts.memory import ScriptMemory
from proxy.rules.scripts.seen import NOSCRIPT
from proxy.rules.verdict import Answer, Refuse
from tests.policy.given import compile_policy, policy
from tests.rules.given import context

RELEASE = """
    local token = redis.call('get', KEYS[1])
    if not token or token ~= ARGV[1] then
        return 0
    end
    redis.call('del', KEYS[1])
    return 1
"""
"""Of redis-py's Lock, as are the next two."""
EXTEND = """
    local token = redis.call('get', KEYS[1])
    if not token or token ~= ARGV[1] then
        return 0
    end
    local expiration = redis.call('pttl', KEYS[1])
    if not expiration then
        expiration = 0
    end
    if expiration < 0 then
        return 0
    end

    local newttl = ARGV[2]
    if ARGV[3] == "0" then
        newttl = ARGV[2] + expiration
    end
    redis.call('pexpire', KEYS[1], newttl)
    return 1
"""
REACQUIRE = """
    local token = redis.call('get', KEYS[1])
    if not token or token ~= ARGV[1] then
        return 0
    end
    redis.call('pexpire', KEYS[1], ARGV[2])
    return 1
"""
FIXED_WINDOW = """
local current
current = redis.call("incrby", KEYS[1], ARGV[2])
if tonumber(current) == tonumber(ARGV[2]) then
    redis.call("expire", KEYS[1], ARGV[1])
end
return current
"""
"""Of the library limits."""
SLIDING_WINDOW = """
local now = redis.call('TIME')
local key, limit, window = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', key, 0, now[1] - window)
local taken = redis.call('ZCARD', key)
if taken < limit then
    redis.call('ZADD', key, now[1], now[1] .. now[2])
    redis.call('EXPIRE', key, window)
    return {1, limit - taken - 1}
end
return {0, 0}
"""
TAKE_DUE = """
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, 1)
if #due > 0 then
    redis.call('ZREM', KEYS[1], due[1])
    redis.call('LPUSH', KEYS[2], due[1])
end
return due[1]
"""
REDISSON_UNLOCK = """
if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil; end;
local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1);
if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); return 0;
else redis.call('del', KEYS[1]); redis.call('publish', KEYS[2], ARGV[1]); return 1; end;
return nil;
"""
SIDEKIQ = """
local key, now = KEYS[1], ARGV[1]
local jobs = redis.call("zrange", key, "-inf", now, "byscore", "limit", 0, 1)
if jobs[1] then
  redis.call("zrem", key, jobs[1])
  return jobs[1]
end
"""
CHUNKS = """
for i = 1, #ARGV, 500 do
    redis.call('SADD', KEYS[1], unpack(ARGV, i, math.min(i + 499, #ARGV)))
end
return redis.call('SCARD', KEYS[1])
"""
GOOD = (
    "return 1",
    RELEASE,
    EXTEND,
    REACQUIRE,
    FIXED_WINDOW,
    SLIDING_WINDOW,
    TAKE_DUE,
    REDISSON_UNLOCK,
    SIDEKIQ,
    CHUNKS,
    "#!lua flags=no-writes\nreturn redis.call('GET', KEYS[1])",
    "return redis.call('DEL', unpack(KEYS))",
    "return redis.call('DEL', KEYS[1], unpack(KEYS))",
    "return redis.call('BITOP', 'AND', unpack(KEYS))",
    "return redis.call('SUNIONSTORE', KEYS[1], KEYS[2], KEYS[3])",
    "return redis.call('ZUNIONSTORE', KEYS[1], 2, KEYS[2], KEYS[3], 'WEIGHTS', ARGV[1], ARGV[2])",
    "return redis.call('MSET', KEYS[1], ARGV[1], KEYS[2], ARGV[2])",
    "return redis.call('GEORADIUS', KEYS[1], 15, 37, 200, 'km', 'STORE', KEYS[2])",
    "return redis.call('OBJECT', 'ENCODING', KEYS[1])",
    "return redis.call('HSET', KEYS[1], unpack(ARGV))",
    "return redis.call('ZUNION', 2, KEYS[1], KEYS[2], unpack(ARGV))",
    "return redis.call('XADD', KEYS[1], '*', 'f', ARGV[1])",
    "return redis.pcall('TIME')",
    "return redis.call('SPUBLISH', KEYS[1], ARGV[1])",
)
BAD = (
    ("return KEYS[1]", "uses KEYS otherwise than as the argument of a call in line 1"),
    ("return redis.call('GET', 'globex:a')", "calls GET with a key that is not an element of KEYS"),
    ("return redis.call('GET', ARGV[1])", "calls GET with a key that is not an element of KEYS"),
    ("return redis.call('GET', 'a' .. ARGV[1])", "calls GET with a key that is not an element of KEYS"),
    ("return redis.call('MGET', KEYS[1], ARGV[1])", "calls MGET with a key that is not an element of KEYS"),
    ("return redis.call('DEL', unpack(ARGV))", "calls DEL with arguments of which"),
    ("return redis.call('SET', unpack(ARGV))", "calls SET with "),
    ("return redis.call('MSET', KEYS[1], unpack(ARGV))", "calls MSET with arguments of which"),
    ("return redis.call('MSETNX', KEYS[1], 1, KEYS[2], unpack(ARGV))", "calls MSETNX with arguments of which"),
    ("return redis.call('BITOP', unpack(ARGV))", "calls BITOP with arguments of which"),
    ("return redis.call('GET', unpack(ARGV))", "calls GET with "),
    ("local t = {'a'} return redis.call('DEL', unpack(t))", "calls DEL with arguments of which"),
    ("local f = function() return 'a' end return redis.call('GET', f())", "calls GET with arguments of which"),
    ("return redis.call('SET', KEYS[1], KEYS[2])", "calls SET with an element of KEYS that is not a key there"),
    ("return redis.call('MSET', unpack(KEYS))", "calls MSET with an element of KEYS that is not a key"),
    ("return redis.call('SET', KEYS[1], unpack(KEYS))", "calls SET with an element of KEYS that is not"),
    ("return redis.call('RENAME', unpack(KEYS))", "calls RENAME with an element of KEYS that is not"),
    ("return redis.call('ECHO', KEYS[1])", "calls ECHO with an element of KEYS that is not a key there"),
    ("return redis.call('ECHO', unpack(KEYS))", "calls ECHO with an element of KEYS that is not a key there"),
    ("return redis.call('PUBLISH', 'c', 'm')", "calls PUBLISH with a key that is not"),
    ("return redis.call('PUBLISH', unpack(KEYS))", "calls PUBLISH with a channel that is not"),
    ("return redis.call('PUBLISH', KEYS[1], KEYS[2])", "calls PUBLISH with an element of KEYS that is not"),
    ("return redis.call('PUBLISH')", "calls PUBLISH with a channel that is not"),
    ("return redis.call('ZUNIONSTORE', KEYS[1], ARGV[1], KEYS[2])", "calls ZUNIONSTORE with arguments of which"),
    ("return redis.call('ZUNIONSTORE', KEYS[1], 2, KEYS[2], ARGV[1])", "calls ZUNIONSTORE with a key that is not"),
    ("return redis.call('ZUNIONSTORE', KEYS[1], 2, KEYS[2], unpack(ARGV))", "calls ZUNIONSTORE with arguments of"),
    ("return redis.call('ZUNIONSTORE', KEYS[1], 1, KEYS[2], KEYS[3])", "calls ZUNIONSTORE with an element of KEYS"),
    ("return redis.call('ZUNIONSTORE', KEYS[1], 2, unpack(KEYS))", "calls ZUNIONSTORE with "),
    ("return redis.call('ZUNIONSTORE', KEYS[1], #KEYS, unpack(KEYS))", "calls ZUNIONSTORE with "),
    ("return redis.call('GEORADIUS', KEYS[1], 15, 37, 200, 'km', ARGV[1], ARGV[2])", "calls GEORADIUS with arguments"),
    (
        "return redis.call('GEORADIUS', KEYS[1], 15, 37, 9, 'km', 'STORE', 'x')",
        "calls GEORADIUS with a key that is not",
    ),
    ("return redis.call('SORT', KEYS[1], 'BY', 'globex:*')", "calls SORT: BY and GET name keys by patterns"),
    ("return redis.call('KEYS', '*')", "calls KEYS: its reply can name keys"),
    ("return redis.call('SCAN', 0)", "calls SCAN: its reply can name keys"),
    ("return redis.call('BLPOP', KEYS[1], 1)", "calls BLPOP: its reply can name keys"),
    ("return redis.call('LMPOP', 1, KEYS[1], 'LEFT')", "calls LMPOP: its reply can name keys"),
    ("return redis.call('XREAD', 'STREAMS', KEYS[1], 0)", "calls XREAD: its reply can name keys"),
    ("return redis.pcall('XPENDING', KEYS[1], 'g')", "calls XPENDING: its errors can name keys"),
    ("return redis.call('RANDOMKEY')", "calls RANDOMKEY: it is about keys beyond those of the script"),
    ("return redis.call('DBSIZE')", "calls DBSIZE: it is about keys beyond those of the script"),
    ("return redis.call('FLUSHALL')", "calls FLUSHALL: it is about the keys of all tenants"),
    ("return redis.call('SELECT', 1)", "calls SELECT: it is about the connection or the server"),
    ("return redis.call('INFO')", "calls INFO: its reply can name keys"),
    ("return redis.call('CONFIG', 'GET', '*')", "calls CONFIG GET: it is about the server"),
    ("return redis.call('OBJECT', ARGV[1], KEYS[1])", "chooses a subcommand of OBJECT at run time"),
    ("return redis.call('MADE.UP', KEYS[1])", "calls MADE.UP: this Keyrail does not know"),
    ("return redis.call('JSON.GET', KEYS[1])", "calls JSON.GET: nobody has tried"),
    ("return redis.call(ARGV[1], KEYS[1])", "chooses at run time the command that redis.call runs"),
    ("return redis['call']('GET', KEYS[1])", "uses redis other than as redis.call"),
    ("local call = redis.call return call('GET', KEYS[1])", "uses redis.call without calling it there"),
    ("return loadstring(ARGV[1])()", "uses loadstring"),
    ("return redis.call('\\71ET', KEYS[1])", "chooses at run time the command"),
    ("#!python\nreturn 1", "is written in a language other than Lua"),
    ("return 'a", "cannot be read in line 1"),
    (
        'local rcall = redis.call\nrcall("LPUSH", KEYS[1], ARGV[1])',
        "uses redis.call without calling it there in line 1",
    ),
)
"""Texts, and what is said of them. The last one begins as those of BullMQ do."""


def given() -> TenantScripts:
    return TenantScripts(STANDARD, ScriptMemory())


def command(*words: str | bytes) -> Command:
    return Command(STANDARD, [word if isinstance(word, bytes) else word.encode() for word in words])


def refusal(judge: TenantScripts, *words: str | bytes, in_transaction: bool = False) -> Refuse | Answer | None:
    return judge.refusal(command(*words), in_transaction=in_transaction)


def sha(text: str) -> bytes:
    return sha1(text.encode()).hexdigest().upper().encode()


@pytest.mark.parametrize("text", GOOD)
def test_a_script_with_keys_in_calls_only_runs(text: str) -> None:
    judge = given()
    assert refusal(judge, "EVAL", text, "0") is None
    for words in (("EVAL_RO", text, "0"), ("SCRIPT", "LOAD", text), ("EVALSHA", sha(text), "0")):
        assert refusal(judge, *words) is None


@pytest.mark.parametrize(("text", "why"), BAD)
def test_another_one_is_refused(text: str, why: str) -> None:
    judge = given()
    for words in (("EVAL", text, "1", "k"), ("SCRIPT", "LOAD", text), ("EVALSHA", sha(text), "1", "k")):
        refused = refusal(judge, *words)
        assert isinstance(refused, Refuse)
        name = "SCRIPT LOAD" if words[0] == "SCRIPT" else words[0]
        begin = f"-DENIED keyrail: {name} is not offered to tenants: its script {why}"
        assert refused.error.startswith(begin.encode()), refused.error


def test_a_script_is_known_when_its_text_has_been_seen() -> None:
    judge = given()
    assert refusal(judge, "EVALSHA", sha(RELEASE), "1", "k") == Answer(NOSCRIPT)
    assert refusal(judge, "EVALSHA", sha(RELEASE), "1", "k", in_transaction=True) == Refuse(NOSCRIPT)
    exists = command("SCRIPT", "EXISTS", sha("return 1"), sha(RELEASE))
    assert len(judge.lacks(exists)) == 2
    assert refusal(judge, "SCRIPT", "LOAD", RELEASE) is None
    assert refusal(judge, "EVALSHA", sha(RELEASE), "1", "k") is None
    hide = judge.edit_of_reply(exists)
    assert hide is not None
    assert hide(b"*2\r\n:1\r\n:1\r\n") == b"*2\r\n:0\r\n:1\r\n"
    assert judge.edit_of_reply(command("SCRIPT", "EXISTS", sha(RELEASE))) is None


def test_other_commands_and_those_that_redis_refuses_are_none_of_its_own() -> None:
    for words in (("GET", "k"), ("EVAL", "return KEYS"), ("SCRIPT", "LOAD"), ("FCALL", "f", "0")):
        assert refusal(given(), *words) is None


def test_a_text_that_has_not_arrived_is_refused() -> None:
    load = Command(STANDARD, [b"SCRIPT", b"LOAD", b"return"], streamed=2, streamed_length=2_000_000)
    refused = given().refusal(load, in_transaction=False)
    assert isinstance(refused, Refuse)
    assert b"its script is too long to be read" in refused.error


def test_each_text_is_judged_once() -> None:
    judge, first, second = given(), command("EVAL", RELEASE, "1", "k"), command("EVAL", RELEASE, "1", "k")
    for each in (first, second):
        judge.refusal(each, in_transaction=False)
    assert (first.judged_calls, second.judged_calls) == (2, 0)


def test_only_scripts_of_tenants_are_judged_and_only_if_nobody_trusts_them() -> None:
    said = """
        apps: {{acme: {{match: {{user: acme}}}}}}
        tenants: {{prefix: "{{app}}:", apps: [acme]{}}}
        rules: {{}}
    """

    def judges(scripts: str, app: str = "acme") -> bool:
        tenants: Tenants = policy(said.format(scripts)).tenants
        return judge_of_scripts(tenants, app, STANDARD, Memory()) is not None

    assert judges("")
    assert judges(", scripts: judged")
    assert not judges(", scripts: trusted")
    assert not judges(", scripts: refuse")
    assert not judges("", app="")
    assert TenantTerms().scripts.value == "judged"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("return redis.call('DEL', KEYS[1])", "acme:lock"),
        ("return KEYS[1]", "to the client: -DENIED keyrail: EVAL is not offered to tenants: its script uses KEYS"),
    ],
)
def test_explain_says_what_becomes_of_a_script(text: str, said: str) -> None:
    loaded = policy("""
        apps: {acme: {match: {user: acme}}}
        tenants: {prefix: "{app}:", apps: [acme]}
        rules: {}
    """)
    bound = compile_policy(loaded, STANDARD, app=loaded.apps[0])
    assert said in str(explain(bound, [b"EVAL", text.encode(), b"1", b"lock"], context()))
