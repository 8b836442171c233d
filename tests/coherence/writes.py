"""All ways of writing: with keys that are named, with keys that nobody can tell, and some that change nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.coherence.book import FIELDS, Book, Key, Life, Slot
from tests.coherence.history import Wrote
from tests.coherence.reads import Choice, Words
from tests.resp import Failure, Value, pack

Learn = Callable[[Value, float, float], list[Wrote]]
"""From the last reply, and from when the request was sent and answered: what the connection has written."""


@dataclass(frozen=True, slots=True)
class Writing:
    """Commands that write. ``slots`` are those of its keys, which the client locks; ``may`` are the values that these
    may hold if no reply comes. Without any, or where it is ``unsure``, nothing else is known of them then."""

    how: str
    commands: Sequence[Words]
    slots: Sequence[Slot]
    learn: Learn
    may: dict[Key, dict[bytes, bytes]] = field(default_factory=dict)
    unsure: bool = False

    @property
    def request(self) -> bytes:
        return b"".join(pack(*words) for words in self.commands)


Way = Callable[[Book, Choice], Writing]


def _ok(reply: Value) -> bool:
    if isinstance(reply, Failure):
        raise AssertionError(f"a write was answered {reply.text!r}")
    return reply is not None


def _string(book: Book, choice: Choice) -> tuple[Slot, Key, bytes]:
    slot = choice.slot(book.slots_of("string"))
    return slot, slot.key, book.value()


def _sets(how: str, *commands: Callable[[bytes, bytes], Words], keeps_ttl: bool = False) -> Way:
    """Commands that give a string a value."""

    def way(book: Book, choice: Choice) -> Writing:
        slot, key, value = _string(book, choice)

        def learn(reply: Value, sent: float, answered: float) -> list[Wrote]:
            if how != "GETSET":
                _ok(reply)
            return key.write({b"": value}, sent, answered, key.kept_life(sent, answered) if keeps_ttl else None)

        words = [command(key.name, value) for command in commands]
        return Writing(how, words, [slot], learn, {key: {b"": value}}, unsure=keeps_ttl and key.life is not None)

    return way


def set_with_ttl(book: Book, choice: Choice) -> Writing:
    slot, key, value = _string(book, choice)
    ttl = choice.chance.choice((5, 30, 80, 200))
    commands: list[Words] = [("SET", key.name, value, "PX", ttl)]
    if choice.chance.random() < 0.3:
        commands = [("MULTI",), ("SET", key.name, value), ("PEXPIRE", key.name, ttl), ("EXEC",)]

    def learn(reply: Value, sent: float, answered: float) -> list[Wrote]:
        _ok(reply)
        return key.write({b"": value}, sent, answered, Life.of(ttl / 1000, sent, answered))

    return Writing("SET PX", commands, [slot], learn, {key: {b"": value}}, unsure=True)


def _set_nx(book: Book, choice: Choice) -> Writing:
    slot, key, value = _string(book, choice)

    def learn(reply: Value, sent: float, answered: float) -> list[Wrote]:
        if reply is None:
            key.present(key.life, sent)
            return []
        key.absent(answered)
        return key.write({b"": value}, sent, answered, None)

    return Writing("SET NX", [("SET", key.name, value, "NX")], [slot], learn, {key: {b"": value}})


def _mset(book: Book, choice: Choice) -> Writing:
    strings = book.slots_of("string")
    slots = list({slot.number: slot for slot in (choice.slot(strings) for _ in range(3))}.values())
    values = {slot.key: {b"": book.value()} for slot in slots}

    def learn(reply: Value, sent: float, answered: float) -> list[Wrote]:
        _ok(reply)
        return [event for key, value in values.items() for event in key.write({**value}, sent, answered, None)]

    words = [part for key, value in values.items() for part in (key.name, value[b""])]
    return Writing("MSET", [("MSET", *words)], slots, learn, values)


def _restore(payloads: list[tuple[bytes, bytes]]) -> Way:
    """RESTORE of values whose form Redis has told before."""

    def way(book: Book, choice: Choice) -> Writing:
        slot, key, fresh = _string(book, choice)
        ttl = choice.chance.choice((0, 0, 50))
        value, payload = payloads.pop() if payloads else (fresh, b"")
        command: Words = ("RESTORE", key.name, ttl, payload, "REPLACE")
        if not payload:
            command = ("SET", key.name, value, "PX", ttl) if ttl else ("SET", key.name, value)

        def learn(reply: Value, sent: float, answered: float) -> list[Wrote]:
            _ok(reply)
            return key.write({b"": value}, sent, answered, Life.of(ttl / 1000, sent, answered) if ttl else None)

        return Writing(str(command[0]), [command], [slot], learn, {key: {b"": value}}, unsure=True)

    return way


def _delete(book: Book, choice: Choice) -> Writing:
    slot = choice.slot(book.slots)
    key, verb = slot.key, choice.chance.choice(("DEL", "UNLINK"))

    def learn(reply: Value, sent: float, answered: float) -> list[Wrote]:
        _ok(reply)
        return key.delete(sent, answered)

    return Writing(verb, [(verb, key.name)], [slot], learn)


def _expire(book: Book, choice: Choice) -> Writing:
    slot = choice.slot(book.slots)
    key, chance = slot.key, choice.chance
    seconds, words = chance.choice(
        (
            (1.0, ("EXPIRE", key.name, 1)),
            (0.02, ("PEXPIRE", key.name, 20)),
            (0.1, ("PEXPIRE", key.name, 100)),
            (None, ("PERSIST", key.name)),
        )
    )

    def learn(reply: Value, sent: float, answered: float) -> list[Wrote]:
        if reply == 1:
            key.present(Life.of(seconds, sent, answered) if seconds else None, sent)
        elif seconds:
            key.absent(answered)
        return []

    return Writing(str(words[0]), [words], [slot], learn)


def _rename(book: Book, choice: Choice) -> Writing:
    """One string takes the place of another."""
    strings = book.slots_of("string")
    source, target = choice.chance.sample(strings, 2)
    old, new = source.key, target.key

    def learn(reply: Value, sent: float, answered: float) -> list[Wrote]:
        if isinstance(reply, Failure):
            old.absent(answered)
            return []
        value = old.value()
        assert value is not None, f"{old.name!r} was renamed, and is missing"
        old.present(old.life, sent)
        life = old.life
        return [*old.delete(sent, answered), *new.write({b"": value}, sent, answered, life)]

    may = _value_of(old, new)
    return Writing("RENAME", [("RENAME", old.name, new.name)], [source, target], learn, may, unsure=True)


def _value_of(source: Key, target: Key) -> dict[Key, dict[bytes, bytes]]:
    value = source.value()
    return {} if value is None else {target: {b"": value}}


def _copy(book: Book, choice: Choice) -> Writing:
    strings = book.slots_of("string")
    source, target = choice.chance.sample(strings, 2)
    old, new = source.key, target.key

    def learn(reply: Value, sent: float, answered: float) -> list[Wrote]:
        if reply != 1:
            old.absent(answered)
            return []
        value = old.value()
        assert value is not None, f"{old.name!r} was copied, and is missing"
        old.present(old.life, sent)
        return new.write({b"": value}, sent, answered, old.life)

    may = _value_of(old, new)
    return Writing("COPY", [("COPY", old.name, new.name, "REPLACE")], [source, target], learn, may, unsure=True)


def _nothing(how: str, *commands: Callable[[bytes, bytes], Words]) -> Way:
    """Commands that could write, and do not."""

    def way(book: Book, choice: Choice) -> Writing:
        slot, key, value = _string(book, choice)
        return Writing(how, [command(key.name, value) for command in commands], [slot], lambda *_: [])

    return way


def _hset(book: Book, choice: Choice) -> Writing:
    slot = choice.slot(book.slots_of("hash"))
    key, chance = slot.key, choice.chance
    values: dict[bytes, bytes] = {each: book.value() for each in chance.sample(FIELDS, chance.choice((1, 1, 2)))}
    arguments = [part for pair in values.items() for part in pair]
    words: Words = ("HSET", key.name, *arguments)
    if chance.random() < 0.3:
        words = ("EVAL", "return redis.call('hset', KEYS[1], unpack(ARGV))", 1, key.name, *arguments)

    def learn(reply: Value, sent: float, answered: float) -> list[Wrote]:
        _ok(reply)
        return key.write({**values}, sent, answered, key.kept_life(sent, answered))

    return Writing(str(words[0]), [words], [slot], learn, {key: values}, unsure=key.life is not None)


def _hdel(book: Book, choice: Choice) -> Writing:
    slot = choice.slot(book.slots_of("hash"))
    key, removed = slot.key, choice.chance.choice(FIELDS)

    def learn(reply: Value, sent: float, answered: float) -> list[Wrote]:
        _ok(reply)
        return key.write({removed: None}, sent, answered, key.kept_life(sent, answered))

    return Writing("HDEL", [("HDEL", key.name, removed)], [slot], learn)


def _list(book: Book, choice: Choice) -> Writing:
    """A list of one element, made anew, or given another one."""
    slot = choice.slot(book.slots_of("list"))
    key, value = slot.key, book.value()
    anew = choice.chance.random() < 0.5
    commands: list[Words] = [("LSET", key.name, 0, value)]
    if anew:
        commands = [("MULTI",), ("DEL", key.name), ("RPUSH", key.name, value), ("EXEC",)]

    def learn(reply: Value, sent: float, answered: float) -> list[Wrote]:
        if isinstance(reply, Failure):
            key.absent(answered)
            return []
        if not anew:
            key.present(key.life, sent)
        return key.write({b"": value}, sent, answered, None if anew else key.life)

    return Writing("RPUSH" if anew else "LSET", commands, [slot], learn, {key: {b"": value}}, unsure=True)


def flush(book: Book, choice: Choice) -> Writing:
    keys = [slot.key for slot in book.slots]

    def learn(reply: Value, sent: float, answered: float) -> list[Wrote]:
        _ok(reply)
        book.everything_unknown(sent)
        return [event for key in keys for event in key.delete(sent, answered)]

    words = choice.chance.choice((("FLUSHDB",), ("FLUSHALL",), ("FLUSHDB", "ASYNC")))
    return Writing("FLUSHDB", [words], book.slots, learn)


_SET = "return redis.call('set', {}[1], ARGV[{}])"

SET = _sets("SET", lambda key, value: ("SET", key, value))
_EVAL_WITHOUT_KEYS = _sets("EVAL without keys", lambda key, value: ("EVAL", _SET.format("ARGV", 2), 0, key, value))

WRITES: dict[Way, int] = {
    SET: 10,
    _sets("GETSET", lambda key, value: ("GETSET", key, value)): 1,
    _sets("SETRANGE", lambda key, value: ("SETRANGE", key, 0, value), keeps_ttl=True): 3,
    _sets("KEEPTTL", lambda key, value: ("SET", key, value, "KEEPTTL"), keeps_ttl=True): 1,
    _sets("EVAL", lambda key, value: ("EVAL", _SET.format("KEYS", 1), 1, key, value)): 3,
    _EVAL_WITHOUT_KEYS: 3,
    _sets(
        "MULTI",
        lambda *_: ("MULTI",),
        lambda key, value: ("SET", key, value),
        lambda key, _: ("GET", key),
        lambda *_: ("EXEC",),
    ): 3,
    set_with_ttl: 4,
    _set_nx: 2,
    _mset: 3,
    _delete: 4,
    _expire: 5,
    _rename: 3,
    _copy: 3,
    _hset: 8,
    _hdel: 2,
    _list: 5,
    _nothing("DISCARD", lambda *_: ("MULTI",), lambda key, value: ("SET", key, value), lambda *_: ("DISCARD",)): 1,
    _nothing(
        "EXECABORT",
        lambda *_: ("MULTI",),
        lambda key, value: ("SET", key, value),
        lambda key, _: ("GET",),
        lambda *_: ("EXEC",),
    ): 1,
    _nothing("SETRANGE of nothing", lambda key, _: ("SETRANGE", key, 0, "")): 1,
}
"""Each with how often it is chosen."""

_OF_ONE_SERVER = (_EVAL_WITHOUT_KEYS, _rename, _copy, _mset)
OF_A_CLUSTER: dict[Way, float] = {way: often for way, often in WRITES.items() if way not in _OF_ONE_SERVER}
"""Those whose keys are of one slot."""
WITHOUT_TTLS = {way: often for way, often in OF_A_CLUSTER.items() if way not in (set_with_ttl, _expire)}
"""MIGRATE lets keys live for a little longer."""


def writings(payloads: list[tuple[bytes, bytes]]) -> dict[Way, float]:
    """All ways, with how often each is chosen. ``payloads`` are values, and what RESTORE makes them of."""
    return {**WRITES, _restore(payloads): 2, flush: 0.3}
