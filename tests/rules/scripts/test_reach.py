"""Texts that keep to their arguments, and texts that may use names of keys, or what scripts share, in other ways."""

import pytest

from proxy.rules.scripts.lua_reach import PARTS, SHARED
from proxy.rules.scripts.text import read_script
from tests.conftest import Fleet

KEEP_TO_THEIR_ARGUMENTS = (
    "return 1",
    "return redis.call('GET', KEYS[1])",
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
    "local key = KEYS[1] local n = redis.call('INCR', key) if n == 1 then redis.call('EXPIRE', key, 9) end return n",
    "local a, b = KEYS[1], KEYS[2] return redis.call('RENAME', a, b)",
    "local key, n, size = KEYS[1], tonumber(ARGV[1]), #KEYS return redis.call('INCRBY', key, n)",
    "if #KEYS > 1 then return #KEYS end return redis.call('DEL', unpack(KEYS))",
    "for i = 1, #KEYS do redis.call('DEL', KEYS[i]) end",
    "for i, key in ipairs(KEYS) do redis.call('SET', key, ARGV[i]) end return #KEYS",
    "local n = 0 for _, k in pairs(KEYS) do n = n + redis.call('DEL', k) end return n",
    "for i in ipairs(KEYS) do redis.call('DEL', KEYS[i]) end",
    "local t = {} for i, v in ipairs(ARGV) do t[#t + 1] = cjson.decode(v).id end return table.concat(t, ',')",
    "local function add(n) return n + 1 end return add(tonumber(ARGV[1]))",
    "return cjson.encode({id = ARGV[1], type = 'x'; next = 2, string = 'y'})",
    "local type = redis.call('TYPE', KEYS[1]) return type",
    "local add function add(n) return n + 1 end local function type(n) return add(n) end return type(1)",
    "local t = {} function t.add(n) return n + math.random(9) end return t.add(1)",
    "local next = 1 return next",
    "redis.setresp(3) redis.replicate_commands() return redis.error_reply('no')",
    "local ok, e = pcall(function() return redis.call('GET', KEYS[1]) end) return tostring(e)",
    "local d = redis.call('ZRANGE', KEYS[1], 0, ARGV[1]) if d[1] then redis.call('ZREM', KEYS[1], d[1]) end return d",
    "if 1 then while nil do end elseif 2 then repeat local x until 1 else for i = 1, 2 do end end",
    "-- KEYS\nreturn 'KEYS' .. [[KEYS]]",
    "return redis.call('SET', KEYS[1], redis.call('GET', KEYS[2]) or '')",
)
GO_BEYOND = (
    ("return KEYS", "uses KEYS otherwise"),
    ("return KEYS[1]", "uses KEYS otherwise"),
    ("return {KEYS[1]}", "uses KEYS otherwise"),
    ("return redis.call('GET', KEYS[1] .. 'x')", "uses KEYS otherwise"),
    ("return redis.call('GET', (KEYS[1]))", "uses KEYS otherwise"),
    ("return redis.call('GET', KEYS[KEYS[1]])", "uses KEYS otherwise"),
    ("return redis.call('GET', KEYS[1]:sub(6))", "uses KEYS otherwise"),
    ("return redis.call('GET', string.sub(KEYS[1], 6))", "uses KEYS otherwise"),
    ("return redis.call('GET', 'k', KEYS[1] or 'x')", "uses KEYS otherwise"),
    ("return redis.call('DEL', unpack(KEYS, 2))", "uses KEYS otherwise"),
    ("return redis.call('DEL', unpack(KEYS), 'x')", "uses KEYS otherwise"),
    ("return {unpack(KEYS)}", "uses KEYS otherwise"),
    ("KEYS[1] = 'globex:a' return redis.call('GET', KEYS[1])", "uses KEYS otherwise"),
    ("KEYS = {'globex:a'} return redis.call('GET', KEYS[1])", "uses KEYS otherwise"),
    ("local KEYS = {'globex:a'} return redis.call('GET', KEYS[1])", "uses KEYS otherwise"),
    ("for i, KEYS in ipairs({{'globex:a'}}) do redis.call('GET', KEYS[1]) end", "uses KEYS otherwise"),
    ("local function f(KEYS) return redis.call('GET', KEYS[1]) end return f({'globex:a'})", "uses KEYS otherwise"),
    ("table.insert(KEYS, 'globex:a')", "uses KEYS otherwise"),
    ("setmetatable(KEYS, {})", "uses setmetatable"),
    ("rawset(KEYS, 1, 'globex:a')", "uses rawset"),
    ("local k = KEYS k[1] = 'globex:a' return redis.call('GET', KEYS[1])", "uses KEYS otherwise"),
    ("local k = KEYS[1] return k", "uses k, which is an element of KEYS"),
    ("local k = KEYS[1] return redis.call('GET', k .. 'x')", "uses k, which is an element of KEYS"),
    ("local k = KEYS[1] k = 'globex:a' return redis.call('GET', k)", "uses KEYS otherwise"),
    ("local k = KEYS[1] .. 'x' return redis.call('GET', k)", "uses KEYS otherwise"),
    ("local a, k = 1, KEYS[1] .. 'x' return redis.call('GET', k)", "uses KEYS otherwise"),
    ("local a, k = {1, 2}, KEYS[1] return redis.call('GET', k)", "uses KEYS otherwise"),
    ("local a, k = -f(), KEYS[1] return redis.call('GET', k)", "uses the global variable f"),
    ("local k = KEYS[1] or ARGV[1] return redis.call('GET', k)", "uses KEYS otherwise"),
    ("for _, k in ipairs(KEYS) do return k end", "uses k, which is an element of KEYS"),
    ("for _, k in ipairs(KEYS) do k = 'a' redis.call('GET', k) end", "uses KEYS otherwise"),
    ("for _, k in ipairs(KEYS), {} do redis.call('GET', k) end", "uses KEYS otherwise"),
    ("for _, k, l in pairs(KEYS) do redis.call('GET', k) end", "uses KEYS otherwise"),
    ("local function ipairs() end for _, k in ipairs(KEYS) do redis.call('GET', k) end", "uses KEYS otherwise"),
    ("local function unpack(t) return 'a' end return redis.call('DEL', unpack(KEYS))", "uses KEYS otherwise"),
    ("return #KEYS[1]", "uses KEYS otherwise"),
    ("if KEYS[1] == 'acme:a' then return 1 end", "uses KEYS otherwise"),
    ("error(KEYS[1])", "uses KEYS otherwise"),
    ("local t = {KEYS = 1} return t", "uses KEYS otherwise"),
    ("return f_e0e1f9fabfc9d4800c877a703b823ac0578ff8db()", "uses f_e0e1"),
    ("local f_e0e1f9fabfc9d4800c877a703b823ac0578ff8db return 1", "uses f_e0e1"),
    ("return __redis__err__handler('x')", "uses __redis"),
    ("return getmetatable('').__index", "uses getmetatable"),
    ("do local getmetatable = 1 end return getmetatable('')", "uses getmetatable"),
    ("return leftover", "uses the global variable leftover"),
    ("leftover = 1", "uses the global variable leftover"),
    ("string.format = function() end", "changes string"),
    ("function string.format() end", "uses string other than"),
    ("function redis.call() end", "uses redis other than"),
    ("local s = string s.format = nil", "uses string other than"),
    ("local string = {} return string.format()", "uses string other than"),
    ("a, string.format = 1, 2", "uses the global variable a"),
    ("type = function() return 'x' end", "changes type"),
    ("do local type end type = 1", "changes type"),
    ("function type() return 'x' end", "changes type"),
    ("function unpack() return 'globex:a' end return 1", "changes unpack"),
    ("do local tonumber end function tonumber() end", "changes tonumber"),
    ("function pairs.of() end", "changes pairs"),
    ("function leftover() end leftover()", "uses the global variable leftover"),
    ("function leftover.of() end", "uses the global variable leftover"),
    ("math.randomseed(1)", "uses math.randomseed"),
    ("return {function() local a; type = 1 end}", "changes type"),
    ("return {(function() local a; type = 1 end)}", "changes type"),
    ("return 1 end redis.call('DEL', unpack(KEYS)) do", "closes a block that it has not opened"),
    ("do end end do", "closes a block that it has not opened"),
    ("cjson.encode_max_depth(1)", "uses cjson.encode_max_depth"),
    ("return string.dump(function() end)", "uses string.dump"),
    ("return redis.acl_check_cmd('GET', 'globex:a')", "uses redis.acl_check_cmd"),
    ("redis.set_repl(redis.REPL_NONE)", "uses redis.set_repl"),
    ("local c = redis.call return c('GET', KEYS[1])", "uses KEYS otherwise"),
)
"""Texts, and the beginning of what is said of them."""
HARMLESS = b"ARGV assert error ipairs next pairs pcall select tonumber tostring type unpack xpcall".split()
"""Globals that a text may use in any way."""


@pytest.mark.parametrize("text", KEEP_TO_THEIR_ARGUMENTS)
def test_it_keeps_to_its_arguments(text: str) -> None:
    assert not read_script(text.encode()).reaches


@pytest.mark.parametrize(("text", "why"), GO_BEYOND)
def test_it_goes_beyond(text: str, why: str) -> None:
    assert read_script(text.encode()).reaches.startswith(why)


def test_the_line_is_told() -> None:
    why = "uses KEYS otherwise than as the argument of a call in line 2"
    assert read_script(b"local a = 1\nreturn KEYS[1]").reaches == why


def test_a_text_that_cannot_be_read_may_go_beyond() -> None:
    assert read_script(b"return 'a").reaches


def test_each_global_of_an_engine_is_decided(fleet: Fleet, engine_name: str) -> None:
    """Those that the text must not use at all are dynamic, or shared."""
    text = "local names = {} for name in pairs(_G) do names[#names + 1] = name end return names"
    names = fleet.engine(engine_name).do("EVAL", text, "0")
    assert isinstance(names, list)
    assert len(names) > 30
    for name in names:
        assert isinstance(name, bytes)
        found = read_script(b"return " + name)
        assert (not found.reaches and not found.dynamic) == (name in HARMLESS), name
        decided = name in HARMLESS or name in (b"KEYS", *PARTS, *SHARED) or name.startswith(b"__")
        assert decided or found.dynamic, name
