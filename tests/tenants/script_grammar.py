"""Scripts from a seed: of the commands that scripts of tenants may call, some with their keys as they should be, and
some with the tricks by which a script could reach other keys, tell names, or hide what it does.

Most texts have several statements, inside of one another. Some are changed token by token then: what was right may be
wrong in a way that nobody has thought of.
"""

from __future__ import annotations

import random
import re
from typing import NamedTuple

OTHERS = ("globex:a", "acme:a", "outside", "globex:h", "b")
"""Names that a script makes or has in its text: no key is declared so."""
KEYS_AS_THEY_SHOULD_BE = ("KEYS[1]", "KEYS[2]", "KEYS[ 1 ]", "KEYS[#KEYS]", "KEYS[i]", "k", "each")
TRICKS = (
    """
'{other}'|"{other}"|[[{other}]]|[==[{other}]==]|ARGV[1]|ARGV[2]|KEYS[1] .. ''|KEYS[1] .. ARGV[1]|(KEYS[1])
'{other}' --[[ KEYS[1] ]]|KEYS [1]--|k .. ''|(k)|string.sub(KEYS[1], 6)|KEYS[1]:sub(6)|('%s'):format(KEYS[1])
string.format('%s', k)|tostring(KEYS[1])|select(1, unpack(KEYS))|_G['KEYS'][1]|_G["\\75EYS"][1]|t[1]|t.k|u|f()
f(KEYS[1])
KEYS[1] or '{other}'|KEYS[1] and '{other}'|KEYS['1'] or '{other}'|KEYS[KEYS[1]]|#KEYS[1]|next(KEYS)|rawget(KEYS, 1)
table.concat(KEYS, '')|cjson.encode(KEYS)|"\\103lobex:a"|{KEYS[1]}|unpack(KEYS, 1)|unpack(ARGV)|unpack(t)|unpack(KEYS)
(function() return KEYS[1] end)()|(function() return '{other}' end)()|not KEYS[1]|arg|self|...|nil|'\\
'|KEYS|ARGV|redis|getfenv().KEYS[1]|getmetatable('').__index|string|self.KEYS[1]|KEYS.n|KEYS[-1]|KEYS[1.5]|KEYS[ARGV[1]]
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
CALLS = (
    """
'GET', {k}|'SET', {k}, {v}|'INCRBY', {k}, 2|'APPEND', {k}, {v}|'GETSET', {k}, {v}|'DEL', {k}|'DEL', {k}, {k}
'EXISTS', {k}, {k}|'MGET', {k}, {k}|'MSET', {k}, {v}, {k}, {v}|'RENAME', {k}, {k}|'TYPE', {k}|'STRLEN', {k}
'HSET', {k}, 'f', {v}|'HGETALL', {k}|'HDEL', {k}, 'f'|'LPUSH', {k}, {v}|'LRANGE', {k}, 0, -1|'RPOPLPUSH', {k}, {k}
'SADD', {k}, {v}|'SCARD', {k}|'SUNIONSTORE', {k}, {k}, {k}|'ZADD', {k}, 1, {v}|'ZRANGE', {k}, 0, -1|'ZCARD', {k}
'ZUNIONSTORE', {k}, 2, {k}, {k}|'ZUNIONSTORE', {k}, {v}, {k}|'BITOP', 'AND', {k}, {k}|'OBJECT', 'ENCODING', {k}
'DEL', unpack(KEYS)|'EXISTS', unpack(KEYS)|'MSET', unpack(KEYS)|'SADD', {k}, unpack(ARGV)|'DEL', unpack(ARGV)
'PUBLISH', {k}, {v}|'ECHO', {v}|'PING'|'get', {k}|"GeT", {k}|'EXPIRE', {k}, 1000|'PERSIST', {k}|'COPY', {k}, {k}
'GEORADIUS', {k}, 1, 1, 1, 'km', 'STORE', {k}|'KEYS', '*'|'SCAN', 0|'RANDOMKEY'|'DBSIZE'|'BLPOP', {k}, 0|'FLUSHALL'
'LMPOP', 1, {k}, 'LEFT'|'XREAD', 'STREAMS', {k}, 0|'XPENDING', {k}, 'g'
'XREADGROUP', 'GROUP', 'g', 'c', 'STREAMS', {k}, 0
'SORT', {k}, 'BY', '*', 'GET', 'globex:*'|'MIGRATE', '', 1, {k}, 0, 1|'G' .. 'ET', {k}|'\\71ET', {k}|ARGV[1], {k}|c, {k}
'MSET', {k}, unpack(ARGV)|'MSET', {k}, {v}, unpack(ARGV)|'BITOP', unpack(ARGV)
'DUMP', {k}|'SELECT', 1|'OBJECT', ARGV[1], {k}|'SUBSTR', {k}, 0, 1
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
STATEMENTS = (
    """
local k = {k}|local k = KEYS[1]|local k, i = KEYS[1], 1|local i = 1|local t = {{k}}|local t = {k = {k}}|local u = {k}
KEYS[1] = '{other}'|KEYS[i] = {k}|KEYS = {'{other}'}|local KEYS = {'{other}'}|table.insert(KEYS, 1, '{other}')
k = '{other}'
rawset(KEYS, 1, '{other}')|setmetatable(KEYS, {__index = function() return '{other}' end})|local c = redis.call
local redis = {call = function(_, k) return k end}|local f = function() return '{other}' end|ARGV[1] = KEYS[1]
local function f(k) return k end|local function f(KEYS) return KEYS[1] end|return KEYS|return KEYS[1]|return {{k}}
return {#KEYS, {r}}|return {k}|error({k})|redis.log(redis.LOG_NOTICE, {k})|local i = #KEYS|-- KEYS[1]
--[[ return KEYS ]]
local c = '{v}'|local c = 'GET'|loadstring("return redis.call('GET', '{other}')")()|pcall(redis.call, 'GET', '{other}')
redis['call']('GET', '{other}')|redis --[==[ ]==] .call('GET', {k})|local s = redis.status_reply({k})|u = {r}|{r}|{r}
{r}
redis.pcall('SET', {k}, {r})|local r = {r} return r|if {r} then return {r} end|return {r}|return cjson.encode({{r}})
return tostring({r})|local ok, e = pcall(function() {s} end) return tostring(e)|local x = redis.sha1hex({k}) return x
function unpack(t) return '{other}' end|function type() return {{k}} end
local unpack = function() return '{other}' end|ipairs = nil|redis.call = nil
table.foreach(KEYS, function(_, k) {s} end)|string.gsub({k}, '.', function(k) {s} end)|return #{k}|redis.setresp(3)
local ok = redis.pcall('XGROUP', 'SETID', {k}, 'g', 0) return ok.err|local e = redis.pcall('INCR', {k}) return e
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
AROUND = (
    """
{s}|{s}|if #KEYS > 0 then {s} end|do {s} end|for i = 1, #KEYS do {s} end|for _, each in ipairs(KEYS) do {s} end
for _, each in pairs(KEYS) do {s} end|for each in pairs(KEYS) do {s} end|for _, each in ipairs(ARGV) do {s} end
local function g(KEYS) {s} end g({'{other}'})|local function g(...) {s} end g({k})|repeat {s} until true
while true do {s} break end
for _, KEYS in ipairs({{'{other}'}}) do {s} end|local t = {k = function(self) {s} end} t:k()
local h = function() {s} end h()
local k = KEYS[2] {s}|local i = 2 {s}|return 1 end {s} do|for _, k in ipairs(KEYS), 1 do {s} end
for _, each, i in pairs(KEYS) do {s} end
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
_HOLE = re.compile(r"\{(k|v|r|s|other)\}")
_TOKEN = re.compile(r"\s+|[A-Za-z_]\w*|\d+|'[^']*'|\"[^\"]*\"|\.\.\.?|.", re.DOTALL)


class Script(NamedTuple):
    """A text, the number of its keys, and its arguments."""

    text: str
    keys: int
    arguments: list[str]


def made(chance: random.Random) -> Script:
    """The next script."""
    sly = chance.choice((0.0, 0.0, 0.02, 0.1, 0.4))
    text = " ".join(_filled(chance, "{s}", sly, 0) for _ in range(chance.choice((1, 1, 2, 3))))
    if chance.random() < 0.6:
        text = f"local i, k = 1, KEYS[{chance.choice((1, 2))}] {text}"
    for _ in range(chance.choice((0, 0, 0, 1, 1, 3))):
        text = _changed(chance, text)
    return Script(text, chance.choice((1, 2, 2, 3)), [chance.choice(("GET", "1", *OTHERS)) for _ in range(2)])


def _filled(chance: random.Random, text: str, sly: float, depth: int) -> str:
    def fill(found: re.Match[str]) -> str:
        kind, tricks = found[1], chance.random() < sly
        if kind == "other":
            return chance.choice(OTHERS)
        if kind == "k":
            choices = TRICKS if tricks else KEYS_AS_THEY_SHOULD_BE
        elif kind == "v":
            choices = ["{k}"] if tricks else ["'1'", "ARGV[1]", "7", "'x' .. ARGV[2]", "tostring(i)"]
        elif kind == "r":
            choices = [
                f"redis.{chance.choice(('call', 'call', 'pcall'))}({call})" for call in CALLS[: None if tricks else 34]
            ]
        elif depth < 3 and chance.random() < 0.5:
            choices = AROUND if tricks else AROUND[:7]
        else:
            choices = STATEMENTS if tricks else ["{r}", "return {r}", "local r = {r} return r", "return {#KEYS, {r}}"]
        return _filled(chance, chance.choice(choices), sly, depth + 1)

    return _HOLE.sub(fill, text)


def _changed(chance: random.Random, text: str) -> str:
    """A token less, one twice, or one in the place of another."""
    tokens = _TOKEN.findall(text)
    place = chance.randrange(len(tokens))
    other = chance.choice(
        (*tokens, "KEYS", "ARGV", "local", ",", "..", "(", ")", "[", "]", "=", "--", "end", "do", "'", "k")
    )
    tokens[place : place + 1] = chance.choice(([], [tokens[place]] * 2, [other], [tokens[place], " ", other]))
    return "".join(tokens)
