"""The reader finds each call of a Lua text in any form, and reports every other way to call a command."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.rules.scripts.text import (
    EVERY,
    LONGEST,
    MOST_PLACES,
    UNKNOWN,
    Parameter,
    ScriptCall,
    ScriptCalls,
    Word,
    read_script,
)


def calls(text: bytes) -> list[tuple[Word, ...]]:
    found = read_script(text)
    assert found.dynamic == "", found
    return [call.words for call in found.calls]


FLUSHING = (
    b"redis.call('FLUSHALL')",
    b'return redis.pcall("FLUSHALL")',
    b"server.call('FLUSHALL')",
    b"redis .\n call (\t'FLUSHALL'\n)",
    b"redis --[[ a ]] . --x\n call --[==[ ]] ]==] ( 'FLUSHALL')",
    b"redis.call'FLUSHALL'",
    b"redis.call[[FLUSHALL]]",
    b"redis.call[==[FLUSHALL]==]",
    b"redis.call([[\nFLUSHALL]])",
    b"redis.call([[\r\nFLUSHALL]])",
    b"local x = '.' redis.call('FLUSHALL')",
    b"local x = {':'} redis.call('FLUSHALL')",
    b"local x = 1. redis.call('FLUSHALL')",
    b"local x = 'a'..redis.call('FLUSHALL')",
    b"-- a comment\rredis.call('FLUSHALL')",
    b"-- a comment.\nredis.call('FLUSHALL')",
    b"--[[ a comment. ]] redis.call('FLUSHALL')",
    b"local x = [[ . ]] redis.call('FLUSHALL')",
    b"local x = 'a'..%sredis.call('FLUSHALL')" % (b" " * 63),
    b"--[==x\nredis.call('FLUSHALL')",
    b"--[[ a ]] redis.call('FLUSHALL') --[[ b ]]",
    b"local x = '\\'' redis.call('FLUSHALL') local y = ''",
    b"local x = '\\\\' redis.call('FLUSHALL')",
    b"local x = 'a\\\nb' redis.call('FLUSHALL')",
    b"local x = 'a\\\r\nb' redis.call('FLUSHALL')",
    b"local x = [[ ' ]] redis.call('FLUSHALL')",
    b"local x = [=[ ]] ]=] redis.call('FLUSHALL')",
    b"local a = {1} local x = a[a[1]] redis.call('FLUSHALL')",
    b"#!lua flags=no-writes\nredis.call('FLUSHALL')",
    b"local f = function() if 1 then redis.call('FLUSHALL') end end f()",
)
"""Texts that run FLUSHALL, each in another plain way."""


@pytest.mark.parametrize("text", FLUSHING)
def test_a_plain_call_is_found(text: bytes) -> None:
    assert calls(text) == [(b"FLUSHALL",)]


HARMLESS = (
    b"return 1",
    b"",
    b"-- redis.call('FLUSHALL')",
    b"--[[ redis.call('FLUSHALL') ]]",
    b"--[==[ ]] redis.call('FLUSHALL') ]==]",
    b"return \"redis.call('FLUSHALL')\"",
    b"return [[redis.call('FLUSHALL')]]",
    b"return 'it\\'s redis.call(\"FLUSHALL\")'",
    b"x.redis.call('FLUSHALL')",
    b"x .\n redis.call('FLUSHALL')",
    b"return redis.sha1hex('a') .. redis.REDIS_VERSION",
    b"return redis.error_reply('no')",
    b"redis.log(redis.LOG_WARNING, 'loadstring')",
    b"return redis.call()",
    b"#!lua",
)
"""Texts that call nothing, whatever stands in them."""


@pytest.mark.parametrize("text", HARMLESS)
def test_what_calls_nothing_calls_nothing(text: bytes) -> None:
    assert replace(read_script(text), reaches="") == ScriptCalls()


def words(text: bytes) -> tuple[Word, ...]:
    """The words of the only call of a script."""
    (call,) = read_script(text).calls
    assert call.complete
    return call.words


def test_its_words_are_literals_and_elements_of_keys_and_argv() -> None:
    assert words(b"redis.call('CONFIG', \"set\", [[a]], 7)") == (b"CONFIG", b"set", b"a", b"7")
    assert words(b"redis.call('LRANGE', KEYS[1], 0, -1)") == (b"LRANGE", Parameter("KEYS", 1), b"0", b"-1")
    assert words(b"redis.call('SET', KEYS[i], ARGV[12])") == (b"SET", Parameter("KEYS", 0), Parameter("ARGV", 12))
    assert words(b"redis.call('SET', k, 'a' .. 'b')") == (b"SET", UNKNOWN, UNKNOWN)
    assert words(b"redis.call('SET', '\\65', 1.5, 0x1)") == (b"SET", UNKNOWN, UNKNOWN, UNKNOWN)
    assert words(b"redis.call('SET', 'k', '%s')" % (b"x" * 999)) == (b"SET", b"k", b"x" * 999)
    assert words(b"redis.call('DEL', unpack(KEYS))") == (b"DEL", Parameter("KEYS", EVERY))
    assert read_script(b"redis.call('A') redis.call('A')").calls == (ScriptCall((b"A",), complete=True),)


@pytest.mark.parametrize("more", [b"unpack(t)", b"...", b"f()", b"f'x'", b"f{}", b"a .. f()", b"function() end"])
def test_behind_what_may_be_several_values_there_may_be_more(more: bytes) -> None:
    assert read_script(b"redis.call('GET', 'a', %s)" % more).calls == (ScriptCall((b"GET", b"a"), complete=False),)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (b"local k = KEYS[1] redis.call('GET', k)", Parameter("KEYS", 1)),
        (b"local k, n = KEYS[2], ARGV[1]; if n then redis.call('GET', k) end", Parameter("KEYS", 2)),
        (b"local k = 'a' return redis.call('GET', k)", b"a"),
        (b"local k = -5 redis.call('GET', k)", b"-5"),
        (b"local k redis.call('GET', k)", UNKNOWN),
        (b"local k = KEYS[1] .. 'x' redis.call('GET', k)", UNKNOWN),
        (b"local k = KEYS[1] or 'x' redis.call('GET', k)", UNKNOWN),
        (b"local k = 'x' == y redis.call('GET', k)", UNKNOWN),
        (b"local k = KEYS[1] k = 'x' redis.call('GET', k)", UNKNOWN),
        (b"local k = KEYS[1] a, k = 1, 'x' redis.call('GET', k)", UNKNOWN),
        (b"local k = KEYS[1] local k = 'x' redis.call('GET', k)", UNKNOWN),
        (b"local k = KEYS[1] local function f(a, k) redis.call('GET', k) end", UNKNOWN),
        (b"local k = KEYS[1] function t.f:g(k) redis.call('GET', k) end", UNKNOWN),
        (b"local k = KEYS[1] for _, k in f() do redis.call('GET', k) end", UNKNOWN),
        (b"local k, j = KEYS[1] redis.call('GET', k)", Parameter("KEYS", 1)),
        (b"local j, k = KEYS[1] redis.call('GET', k)", UNKNOWN),
        (b"local k, n = KEYS[1], #ARGV redis.call('GET', k)", Parameter("KEYS", 1)),
        (b"local n, k = #ARGV, KEYS[1] redis.call('GET', k)", UNKNOWN),
        (b"for _, k in ipairs(KEYS) do redis.call('GET', k) end", Parameter("KEYS", 0)),
        (b"for k, _ in ipairs(KEYS) do redis.call('GET', k) end", UNKNOWN),
        (b"local k = j local j = 'x' redis.call('GET', k)", UNKNOWN),
        (b"k = KEYS[1] redis.call('GET', k)", UNKNOWN),
        (b"do local self = KEYS[1] end function t:m() redis.call('GET', self) end", UNKNOWN),
        (b"do local arg = KEYS[1] end function f(...) redis.call('GET', arg) end", UNKNOWN),
    ],
)
def test_a_variable_that_is_bound_once_stands_for_its_value(text: bytes, key: Word) -> None:
    assert words(text) == (b"GET", key)


@pytest.mark.parametrize(
    "text",
    [
        b"KEYS[1] = 'x'",
        b"a, KEYS[1] = 1, 'x'",
        b"KEYS[1], a = 'x', 1",
        b"KEYS = {'x'}",
        b"local k = KEYS k[1] = 'x'",
        b"f(KEYS)",
        b"(KEYS)[1] = 'x'",
        b"(#KEYS)[1] = 'x' local t = {KEYS}",
        b"local f, t = ipairs(KEYS) t[1] = 'x'",
        b"local unpack = f unpack(KEYS)",
        b"function f(KEYS) end",
        b"function t. --[[x]] unpack(KEYS) end",
        b"return KEYS",
        b"KEYS:sort()",
    ],
)
def test_keys_that_may_be_changed_are_not_known(text: bytes) -> None:
    found = read_script(b"redis.call('GET', KEYS[1]) redis.call('DEL', unpack(KEYS)) " + text)
    assert [call.words for call in found.calls] == [(b"GET", UNKNOWN), (b"DEL",)]


@pytest.mark.parametrize(
    "text",
    [
        b"return #KEYS",
        b"if KEYS[1] == 'x' then return KEYS[1]:rep(2) end",
        b"local a, b = KEYS[1], KEYS[2]",
        b"for i, key in ipairs(KEYS) do end",
        b"for _, key in pairs(KEYS) do end",
        b"return unpack(KEYS, 2)",
        b"local t = {KEYS[1], KEYS[2]}",
        b"return #KEYS[1], KEYS[i], f(KEYS[1], KEYS[2])",
    ],
)
def test_keys_that_are_only_read_are_what_was_declared(text: bytes) -> None:
    found = read_script(b"redis.call('GET', KEYS[1]) " + text)
    assert found.calls[0].words == (b"GET", Parameter("KEYS", 1))


@pytest.mark.parametrize(
    ("library", "known"),
    [
        (b"redis.register_function('f', function(k, a) return redis.call('SET', k[1], a[1]) end)", True),
        (
            b"redis.register_function{function_name='f', callback=function(k, a) redis.call('SET', k[1], a[1]) end}",
            True,
        ),
        (b"local function f(k, a) redis.call('SET', k[1], a[1]) end redis.register_function('f', f)", True),
        (
            b"local function f(k, a) if 1 then redis.call('SET', k[1], a[1]) end end redis.register_function('f', f)",
            True,
        ),
        (b"local function f(k, a) redis.call('SET', k[1], a[1]) end f({'x'}) redis.register_function('f', f)", False),
        (
            b"local function f(k, a) redis.call('SET', k[1], a[1]) end local g = f redis.register_function('f', f)",
            False,
        ),
        (b"local f = function(k, a) redis.call('SET', k[1], a[1]) end redis.register_function('f', f)", False),
        (b"function f(k, a) redis.call('SET', k[1], a[1]) end redis.register_function('f', f)", False),
        (b"redis.register_function('f', g(function(k, a) redis.call('SET', k[1], a[1]) end))", False),
        (b"redis.register_function('f', function(k, a) k[1], a[1] = 1, 2 redis.call('SET', k[1], a[1]) end)", False),
        (b"redis.register_function('f', function(self, arg) redis.call('SET', self[1], arg[1]) end)", False),
        (b"redis.register_function('f', function(k, a) h(k, a) redis.call('SET', k[1], a[1]) end)", False),
        (
            b"local function h(k, a) redis.call('SET', k[1], a[1]) end redis.register_function('f', function() end)",
            False,
        ),
        (b"redis.register_function('f', function() end) local k, a redis.call('SET', k[1], a[1])", False),
    ],
)
def test_parameters_of_functions_that_only_redis_calls_are_keys_and_arguments(library: bytes, known: bool) -> None:
    found = read_script(b"#!lua name=l\n" + library)
    assert found.dynamic == ""
    parameters = (Parameter("KEYS", 1), Parameter("ARGV", 1)) if known else (UNKNOWN, UNKNOWN)
    assert [call.words for call in found.calls] == [(b"SET", *parameters)]


def test_reading_takes_time_by_its_length_alone() -> None:
    for unit in (b"a,", b"a.b,", b"a[", b"(", b"{a=", b"f(a,", b"local a=KEYS[1] "):
        closing = {b"a[": b"]", b"(": b")", b"{a=": b"}", b"f(a,": b")"}.get(unit, b"")
        for many in (100, 4_000):
            text = b"redis.call('GET', a) x=" + unit * many + closing * many
            read_script(text)


@pytest.mark.parametrize(
    "text",
    [
        b"redis['c'..'all']('FLUSHALL')",
        b"redis['call']('FLUSHALL')",
        b"redis [ [[call]] ] ('FLUSHALL')",
        b"local c = redis.call c('FLUSHALL')",
        b"local r = redis r.call('FLUSHALL')",
        b"local t = {r = redis}",
        b"local redis = x",
        b"local function f(redis) end",
        b"for k, v in pairs(redis) do end",
        b"(redis).call('FLUSHALL')",
        b"(redis.call)('FLUSHALL')",
        b"pcall(redis.call, 'FLUSHALL')",
        b"redis:call('FLUSHALL')",
        b"redis.call('FLUSH' .. 'ALL')",
        b"redis.call(('FLUSHALL'))",
        b"redis.call('\\70LUSHALL')",
        b"redis.call('\\x46LUSHALL')",
        b"redis.call'FLUSH\\z ALL'",
        b"redis.call('FLUSHALL\x00149')",
        b"redis.call[[FLUSHALL\x00149]]",
        b"redis.call(ARGV[1])",
        b"redis.call(unpack(ARGV))",
        b"redis.call(...)",
        b"redis.call{'FLUSHALL'}",
        b"redis.call('%s')" % (b"x" * 65),
        b"loadstring(ARGV[1])()",
        b"load(f)",
        b"_G.x = 1",
        b"_G['redis']",
        b"getfenv().redis.call('FLUSHALL')",
        b"setfenv(1, x)",
        b"require 'x'",
        b"debug.getregistry()",
        b"_ENV.x()",
        b"local r = 'a' ..%sredis['call']('FLUSHALL')" % (b" " * 63),
        b"x. --[[ a field, but who would write that ]] redis['call']('FLUSHALL')",
        b"goto a ::a::redis['call']('FLUSHALL')",
        b"::a::loadstring('x')",
        b"\xe9 = 1",
        b"return 'unfinished",
        b"return 'un\nfinished'",
        b"return [[unfinished",
        b"--[[unfinished",
        b"\x1bLua bytecode",
        b"return a\\b",
        b"#!js\nredis.call('FLUSHALL')",
        b"#!luajit\nredis.call('GET')",
        b"redis.register_function(name, f)",
        b"redis.register_function('f', redis.call)",
        b"redis.register_function{['function_name']='f', callback=f}",
        b"redis.register_function{function_name='a', function_name='b'}",
        b"redis.register_function{function_name='a'..'b', callback=f}",
        b"redis.register_function(t)",
        b"-" * (LONGEST + 1),
        b"redis.call('GET') " * (MOST_PLACES + 1),
        b"redis.register_function{" * 300 + b"x " * 500,
    ],
)
def test_whatever_could_call_more_is_dynamic(text: bytes) -> None:
    assert read_script(text).dynamic


def test_the_reason_says_the_line() -> None:
    assert read_script(b"return 1\n\nlocal r = redis").dynamic == "uses redis other than as redis.call(…) in line 3"
    assert read_script(b"local a = 1\nredis.call(x)").dynamic.endswith("that redis.call runs in line 2")


@pytest.mark.parametrize(
    "text",
    [
        b"redis.register_function('F', function(keys, args) return redis.call('GET', keys[1]) end)",
        b"""redis.register_function{function_name='f', flags={'no-writes'}, callback=function(keys, args)
            local t = {1, [2] = {x = args[1]}} return redis.call('GET', keys[1]) end}""",
        b"redis.register_function({callback = function() return redis.call('GET', 'x') end; function_name = [[f]]})",
    ],
)
def test_a_librarys_functions_are_known(text: bytes) -> None:
    found = read_script(b"#!lua name=lib\n" + text)
    assert (found.functions, found.dynamic) == ((b"f",), "")
    assert [call.words[0] for call in found.calls] == [b"GET"]


PIECES = st.sampled_from(
    b"redis . call ( ) 'FLUSHALL' ' \" [[ ]] [=[ ]=] -- \\ x = .. { } , 1 register_function function_name \x00".split()
) | st.sampled_from((b" ", b"\n", b"\r"))


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=30).map(b"".join))
def test_no_text_makes_it_fail(text: bytes) -> None:
    found = read_script(text)
    assert found.dynamic or all(call.words for call in found.calls)
