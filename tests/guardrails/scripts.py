"""Random Lua scripts that call commands and use keys in all ways that people, and attackers, write."""

from __future__ import annotations

from random import Random

KEYS = (b"declared:1", b"declared:2")
ARGUMENTS = (b"argument:1", b"2", b"SET")

_VALUES = (
    "'literal:{n}'",
    '"literal:{n}"',
    "[[literal:{n}]]",
    "KEYS[1]",
    "KEYS[2]",
    "KEYS [ 1 ]",
    "KEYS[1 + 0]",
    "KEYS[#KEYS]",
    "ARGV[1]",
    "ARGV[tonumber(ARGV[2])]",
    "'put:' .. 'together:{n}'",
    "KEYS[1] .. ':suffix'",
    "'escaped\\058{n}'",
    "variable",
    "key",
    "(key)",
    "tostring(key)",
    "(function() return 'returned:{n}' end)()",
    "({{'of a table:{n}'}})[1]",
    "7",
    "-1",
    "0x10",
    "key --[[ , 'hidden' ]]",
    "'with, comma'",
    "ARGV[1] or KEYS[1]",
)
_SEVERAL = (
    "unpack(KEYS)",
    "unpack(ARGV)",
    "unpack({{'unpacked:{n}', 'unpacked:1{n}'}})",
    "several()",
    "(several())",
    "unpack(KEYS, 2)",
    "select(2, 'x', KEYS[1], 'selected:{n}')",
)
_COMMANDS = (
    ("GET", 1),
    ("get", 1),
    ("SET", 2),
    ("DEL", 1),
    ("DEL", 3),
    ("MGET", 2),
    ("MSET", 4),
    ("EXISTS", 2),
    ("SUNIONSTORE", 3),
    ("LPUSH", 2),
    ("APPEND", 2),
    ("ECHO", 1),
    ("PFMERGE", 1),
    ("PFMERGE", 3),
    ("BITFIELD", 1),
    ("OBJECT', 'ENCODING", 1),
)
_FIXED = (
    "redis.call('ZUNIONSTORE', {v}, 2, {v}, {v})",
    "redis.call('ZUNIONSTORE', {v}, ARGV[2], {v}, {v}, 'WEIGHTS', ARGV[2], 1)",
    "redis.call('ZUNION', #KEYS, unpack(KEYS))",
    "redis.call('SORT', {v}, 'STORE', {v})",
    "redis.call('SORT', {v}, 'BY', {v})",
    "redis.call('SORT', {v}, 'ALPHA', {v}, {v})",
    "redis.call('SORT', {v}, 'BY', 'nosort', 'GET', 'found:*')",
    "redis.call('XREAD', 'COUNT', 1, 'STREAMS', {v}, 0)",
    "redis.call('XREAD', {v}, 1, 'STREAMS', {v}, 0)",
    "redis.call('LMPOP', 2, {v}, {v}, 'LEFT')",
    "redis.call('GEORADIUS', {v}, 1, 1, 1, 'km', 'STORE', {v})",
    "redis.call('COPY', {v}, {v})",
    "redis.call'PING'",
    "redis.call[[PING]]",
    "server.call('GET', {v})",
    "redis['call']('GET', {v})",
    "redis['c' .. 'all']('GET', {v})",
    "pcall(redis.call, 'GET', {v})",
    "local r = redis r.call('GET', {v})",
    "local c = redis.call c('GET', {v})",
    "redis.call(ARGV[3], {v}, {v})",
    "redis.call('S' .. 'ET', {v}, {v})",
    "loadstring(\"return redis.call('GET', 'loaded:{n}')\")()",
    "loadstring(\"KEYS[1] = 'loaded:{n}'\")()",
    "redis.call('GET', {v}, function() end)",
)
_CHANGES = (
    "KEYS[1] = 'assigned:{n}'",
    "KEYS[1], variable = 'assigned:{n}', 1",
    "variable, KEYS[1] = 1, 'assigned:{n}'",
    "local t = {{}} t[KEYS[1]], KEYS[2] = 1, 'assigned:{n}'",
    "local alias = KEYS alias[1] = 'assigned:{n}'",
    "table.insert(KEYS, 1, 'inserted:{n}')",
    "table.sort(KEYS, function(a, b) return a > b end)",
    "local f, t = pairs(KEYS) t[2] = 'assigned:{n}'",
    "(KEYS)[1] = 'assigned:{n}'",
    "(KEYS or {{}})[1] = 'assigned:{n}'",
    "rawset(KEYS, 1, 'assigned:{n}')",
    "setmetatable(ARGV, {{__index = function() return 'indexed:{n}' end}})",
    "ARGV[1] = 'assigned:{n}'",
    "key = 'assigned:{n}'",
    "key, variable = 'assigned:{n}', 1",
    "variable, key = 1, 'assigned:{n}'",
    "for _, k in ipairs(KEYS) do redis.pcall('GET', k) end",
    "for k in pairs({{['looped:{n}'] = 1}}) do redis.pcall('GET', k) end",
    "local unpack = function() return 'shadowed:{n}' end redis.pcall('DEL', unpack(KEYS))",
    "local variable = 'shadowed:{n}' redis.pcall('GET', variable)",
    "local constant{n} = KEYS[2] redis.pcall('GET', constant{n})",
    "local one{n}, two{n} = 'first:{n}', ARGV[1] redis.pcall('MGET', one{n}, two{n})",
    "local sum{n} = KEYS[1] .. '!' redis.pcall('GET', sum{n})",
    "local either{n} = nil or 'either:{n}' redis.pcall('GET', either{n})",
    "local of{n} = 'a' local of{n} = 'b' redis.pcall('GET', of{n})",
    "do local _VERSION = 'declared:1' end redis.pcall('GET', _VERSION)",
    "local function f(KEYS) redis.pcall('GET', KEYS[1]) end f({{'passed:{n}'}})",
    "local function f(a, key) redis.pcall('GET', key) end f(1, 'passed:{n}')",
    "(function(...) redis.pcall('MGET', ...) end)('passed:{n}', KEYS[1])",
    "do local KEYS = {{'local:{n}'}} redis.pcall('GET', KEYS[1]) end",
    "do local o = {{}} function o. --[[x]] unpack(KEYS) redis.pcall('GET', KEYS[1]) end o.unpack({{'passed:{n}'}}) end",
    "do local o = {{}} function o:m() redis.pcall('GET', self) end do local self = KEYS[1] end o.m('implicit:{n}') end",
    "do local o = {{}} function o:m() redis.pcall('GET', KEYS[1]) end o.m({{'implicit:{n}'}}) end",
    "(function(...) redis.pcall('GET', KEYS[1]) end)('implicit:{n}')",
    "for KEYS = 1, 2 do redis.pcall('GET', 'k') end",
    "-- KEYS[1] = 'commented'",
    "--[==[ redis.call('FLUSHALL') ]==]",
    "variable = [[ redis.call('FLUSHALL') ]]",
)
_AROUND = (
    "{s}",
    "{s}",
    "if true then {s} end",
    "if KEYS[9] then {s} else redis.pcall('GET', KEYS[1]) end",
    "for i = 1, 2 do {s} end",
    "while true do {s} break end",
    "repeat {s} until true",
    "local function called() {s} end called()",
    "local function never() {s} end",
    "pcall(function() {s} end)",
    "do {s} end",
)
_BEFORE = "local variable = 'variable:0' local function several() return 'several:1', KEYS[2] end "


_LIBRARIES = (
    "redis.register_function('f', function(keys, args) %s end)",
    "redis.register_function{function_name='f', callback=function(keys, args) %s end}",
    "local function g(keys, args) %s end redis.register_function('f', g)",
    "local g = function(keys, args) %s end redis.register_function('f', g)",
    "local function g(keys, args) %s end redis.register_function('f', function() g({given}) end)",
    "local function g(keys, args) %s end redis.register_function('f', g) redis.register_function('x', g)",
    "local function g(keys, args) %s end {g} redis.register_function('f', function() g({given}) end)",
    "local function g(keys, args) %s end local h = g {g} redis.register_function('f', function() h({given}) end)",
)


def random_script(random: Random) -> bytes:
    """A script for KEYS and ARGUMENTS; it may end in an error."""
    first = random.choice(("KEYS[1]", "ARGV[1]", "'constant:0'", "KEYS[1] .. ':0'"))
    statements = [f"local key = {first}"]
    for _ in range(random.randint(1, 4)):
        made = random.choice((_call, _call, _call, _change))(random)
        statements.append(random.choice(_AROUND).replace("{s}", made))
    return (_BEFORE + random.choice((" ", "\n", ";")).join(statements)).encode()


def as_library(script: bytes, random: Random) -> bytes:
    """The same as the one function of a library."""
    keys = random.choice((b"keys", b"keys", b"self", b"arg"))
    body = script.replace(b"KEYS", keys).replace(b"ARGV", b"args")
    form = random.choice(_LIBRARIES).replace("{g}", "redis.register_function('g', g)")
    form = form.replace("{given}", "{'own:1', 'own:2'}, {'x', '2', 'SET'}")
    return b"#!lua name=l\n" + form.encode().replace(b"(keys,", b"(%s," % keys) % body


def _filled(template: str, random: Random) -> str:
    while "{v}" in template:
        template = template.replace("{v}", random.choice(_VALUES).replace("{{", "{").replace("}}", "}"), 1)
    return template.replace("{n}", str(random.randrange(10)))


def _change(random: Random) -> str:
    return _filled(random.choice(_CHANGES).replace("{{", "{").replace("}}", "}"), random)


def _call(random: Random) -> str:
    if random.random() < 0.3:
        return _filled(random.choice(_FIXED), random)
    name, count = random.choice(_COMMANDS)
    arguments = [random.choice(_VALUES) for _ in range(count)]
    if random.random() < 0.2:
        arguments[-1] = random.choice(_SEVERAL)
    function = random.choice(("redis.call", "redis.pcall", "redis.pcall", "redis . pcall", "redis. --[[x]] pcall"))
    text = f"{function}('{name}', {', '.join(arguments)})"
    return _filled(text.replace("{{", "{").replace("}}", "}"), random)
