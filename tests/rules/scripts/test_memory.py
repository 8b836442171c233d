"""Scripts are remembered by their SHA1 or function name, and memory is bounded."""

from proxy.rules.scripts.memory import ScriptMemory, function_key, script_key
from proxy.rules.scripts.text import ScriptCall, ScriptCalls

EMPTY = "da39a3ee5e6b4b0d3255bfef95601890afd80709"


def test_a_script_is_known_by_the_sha_of_its_text() -> None:
    memory = ScriptMemory()
    assert memory.recall(script_key(EMPTY.encode())) is None
    assert memory.read(b"") == ScriptCalls()
    assert memory.recall(script_key(EMPTY.upper().encode())) == ScriptCalls()


def test_a_text_is_read_once() -> None:
    memory = ScriptMemory()
    assert memory.read(b"redis.call('GET')") is memory.read(b"redis.call('GET')")


def test_a_library_stands_for_its_functions_until_it_cannot_be_read() -> None:
    memory = ScriptMemory()
    memory.loaded(b"#!lua name=l\nredis.register_function('F', function() end)")
    assert memory.recall(function_key(b"f")) is not None
    memory.read(b"")
    memory.forget_functions()
    assert memory.recall(function_key(b"f")) is None
    assert memory.recall(script_key(EMPTY.encode())) is not None


def test_what_was_not_used_for_longest_is_forgotten() -> None:
    memory = ScriptMemory(most=8)
    large = ScriptCalls((ScriptCall((b"MGET", b"a", b"b"), True),))  # counts four
    for sha in (b"a", b"b"):
        memory.learn(script_key(sha), large)
    assert memory.recall(script_key(b"a")) is large
    memory.learn(script_key(b"c"), large)
    assert [memory.recall(script_key(sha)) for sha in (b"a", b"b", b"c")] == [large, None, large]
    memory.learn(script_key(b"c"), ScriptCalls())
    memory.learn(script_key(b"d"), ScriptCalls())
    assert memory.recall(script_key(b"a")) is large
