"""A key that is created without a TTL gets one, inside the command or behind it; a stated TTL must be within the
bounds; and the application gets the reply that it expects. A command with unknown options is not changed, and
counted."""

from collections.abc import Sequence

from proxy.commands.creation import ELSEWHERE, TYPES, creation_of
from proxy.commands.table import STANDARD
from proxy.rules.key_claims import KeyClaim
from proxy.rules.lifetime.rule import Lifetime
from proxy.rules.lifetime.settings import USUAL_TTL_OPTIONS, USUAL_TYPES, LifetimeSettings, SchemaTtlSettings
from proxy.rules.lifetime.ttl_options import Existing, Outside, Persist, TtlOptions, Unproven
from proxy.rules.rule import Binding, Wording
from proxy.rules.verdict import PASS, Pass, Refuse, Rewrite, Surround, Verdict
from proxy.schema.bounds import Bounds
from proxy.schema.entries import KeyEntry, Schema
from proxy.schema.patterns import parse_pattern
from tests.rules.given import BINDING, NO_WORDS, command, context, spec, streamed

FIVE_MINUTES = Bounds(300)
BOUNDED = Bounds(300, least=10, most=3600)
ALL = frozenset(TYPES)


def lifetime(
    bounds: Bounds = FIVE_MINUTES,
    ttl_options: TtlOptions = USUAL_TTL_OPTIONS,
    *,
    keys: tuple[str, ...] = (),
    types: frozenset[str] = USUAL_TYPES,
    available: frozenset[str] | None = None,
    wording: Wording = NO_WORDS,
) -> Lifetime:
    binding = Binding(BINDING.table, available)
    return LifetimeSettings(bounds, ttl_options, keys, types).bind("lifetimes", wording, binding)


def judged(text: str, rule: Lifetime | None = None) -> Verdict:
    given = command(text)
    rule = rule or lifetime()
    return rule.judge(given, context()) if rule.touches(given.spec) else PASS


def followed_by(text: str, reply: bytes, *lines: bytes, rule: Lifetime | None = None) -> list[str]:
    """The follow-ups of a command after this reply, and after these of its hidden commands."""
    verdict = judged(text, rule)
    assert isinstance(verdict, Surround), verdict
    assert len(lines) == len(verdict.before) + len(verdict.after)
    return said(verdict.conclude(reply, lines))


def said(commands: Sequence[Sequence[bytes]]) -> list[str]:
    return [b" ".join(argv).decode() for argv in commands]


def skipped(verdict: Verdict) -> str:
    assert isinstance(verdict, Pass), verdict
    assert verdict.skipped
    return verdict.skipped


def refused(verdict: Verdict) -> str:
    assert isinstance(verdict, Refuse), verdict
    return verdict.error.decode()


# Inside the command


def test_a_write_without_a_ttl_gets_one() -> None:
    for text, becomes in (
        ("SET k v", "SET k v EX 300"),
        ("set k v", "set k v EX 300"),
        ("SET k v NX", "SET k v NX EX 300"),
        ("SET k v xx get", "SET k v xx get EX 300"),
        ("SET k EX", "SET k EX EX 300"),
        ("SET EX KEEPTTL", "SET EX KEEPTTL EX 300"),
        ("SET k v IFEQ EX", "SET k v IFEQ EX EX 300"),
        ("GETSET k v", "SET k v EX 300 GET"),
        ("MSETEX 2 a 1 b 2", "MSETEX 2 a 1 b 2 EX 300"),
        ("MSETNX a 1 b 2", "MSETEX 2 a 1 b 2 NX EX 300"),
    ):
        assert judged(text) == Rewrite(becomes.encode().split(), None)


def test_a_write_that_states_its_ttl_is_left_alone() -> None:
    for text in (
        "SET k v EX 5",
        "SET k v px 5",
        "SET k v NX eXaT 5",
        "SET k v GET PXAT 5",
        "SET k v IFEQ x EX 5",
        "SET k v EX",
    ):
        assert judged(text) == PASS


def test_what_redis_will_refuse_is_left_to_redis() -> None:
    for text in ("SET", "SET k", "SETNX k", "SETNX k v x", "GETSET k", "GETSET k v x", "INCR", "HSET k"):
        assert judged(text) == PASS


def test_what_is_not_known_is_skipped() -> None:
    for text in ("SET k v FROB", "SET k v NX FROB EX 5", "SET k v GET 12", "MOVE k 1", "NO.SUCH k"):
        skipped(judged(text))


def test_a_reply_is_what_the_client_expects() -> None:
    for text, edits in (
        ("setnx k v", {b"+OK\r\n": b":1\r\n", b"$-1\r\n": b":0\r\n", b"_\r\n": b":0\r\n"}),
        ("mset k v", {b":1\r\n": b"+OK\r\n"}),
    ):
        verdict = judged(text)
        assert isinstance(verdict, Rewrite)
        assert verdict.edit is not None
        for other in (b"-OOM command not allowed\r\n", b"+QUEUED\r\n"):
            assert verdict.edit(other) == other
        assert {frame: verdict.edit(frame) for frame in edits} == edits


def test_a_dump_tells_its_type() -> None:
    restore = command("RESTORE k 0", b"\x00\x01v")
    verdict = lifetime().judge(restore, context())
    assert verdict == Rewrite([b"RESTORE", b"k", b"300000", b"\x00\x01v"])
    asking = lifetime().judge(command("RESTORE-ASKING k 0", b"\x00\x01v"), context())
    assert asking == Rewrite([b"RESTORE-ASKING", b"k", b"300000", b"\x00\x01v"])
    absolute = command("RESTORE k 0", b"\x04", b"REPLACE", b"absttl")
    verdict = lifetime().judge(absolute, context())
    assert verdict == Rewrite([b"RESTORE", b"k", b"300000", b"\x04", b"REPLACE", b"absttl"])  # it is 1970 in tests
    assert lifetime().judge(command("RESTORE k 0", b"\x12list"), context()) == PASS
    skipped(lifetime().judge(command("RESTORE k 0", b"\xf0new"), context()))


# Streamed


def test_a_streamed_value_keeps_its_place() -> None:
    verdict = lifetime().judge(streamed([b"SET", b"k", b""], 2, 2**28), context())
    assert verdict == Rewrite([b"SET", b"k", b"", b"EX", b"300"])
    verdict = lifetime().judge(streamed([b"SETNX", b"k", b""], 2, 2**28), context())
    assert isinstance(verdict, Rewrite)
    assert verdict.argv[2] == b""
    assert isinstance(lifetime().judge(streamed([b"MSET", b"a", b"1", b"k", b""], 4, 2**28), context()), Surround)


def test_behind_a_streamed_value_nothing_can_be_added() -> None:
    verdict = lifetime().judge(streamed([b"SET", b"k", b"", b"NX"], 2, 2**28), context())
    assert verdict == Refuse(
        b"-DENIED keyrail/lifetimes: the value of the key 'k' (argument 1 of SET) is too large: Keyrail cannot "
        b"add a TTL behind its options; "
        b"write it with EX\r\n"
    )
    assert lifetime().judge(streamed([b"SET", b"k", b"", b"EX", b"5"], 2, 2**28), context()) == PASS
    worded = lifetime(wording=Wording("all of it expires", "send PX"))
    verdict = worded.judge(streamed([b"SET", b"k", b"", b"NX"], 2, 2**28), context())
    assert refused(verdict).endswith("options, and all of it expires; send PX\r\n")


# Behind the command


def test_a_key_is_proved_new_before_it_gets_a_ttl() -> None:
    for text, keys in (
        ("INCR k", "k"),
        ("APPEND k v", "k"),
        ("HSET k f v", "k"),
        ("SADD k m", "k"),
        ("ZADD k 1 m", "k"),
        ("PFADD k e", "k"),
        ("GEOADD k 1 1 m", "k"),
        ("BITFIELD k SET u8 0 1", "k"),
        ("SET k v KEEPTTL", "k"),
        ("SMOVE s k m", "k"),
        ("PFMERGE k a b", "k"),
        ("JSON.SET k $ 1", "k"),
        ("JSON.MSET k $ 1 l $ 2", ""),
    ):
        verdict = judged(text)
        assert isinstance(verdict, Surround)
        if keys:
            assert said(verdict.before) == [f"EXISTS {key}" for key in keys.split()]
            assert said(verdict.conclude(b":1\r\n", [b":0\r\n"])) == [f"EXPIRE {key} 300 NX" for key in keys.split()]
            assert verdict.conclude(b":1\r\n", [b":1\r\n"]) == []
            assert verdict.conclude(b":1\r\n", [b"-NOPERM\r\n"]) == []


def test_a_whole_new_value_is_a_new_key() -> None:
    for text, reply, follows in (
        ("SUNIONSTORE k a b", b":2\r\n", ["EXPIRE k 300 NX"]),
        ("SUNIONSTORE k a b", b":0\r\n", []),
        ("BITOP AND k a b", b":9\r\n", ["EXPIRE k 300 NX"]),
        ("GEORADIUS g 1 1 9 km STORE k", b":1\r\n", ["EXPIRE k 300 NX"]),
        ("ZRANGESTORE k a 0 -1", b":0\r\n", []),
    ):
        assert followed_by(text, reply) == follows


def test_a_new_list_is_as_long_as_what_was_pushed() -> None:
    assert judged("LPUSH k a b") == PASS  # lists only where they are named
    rule = lifetime(types=ALL)
    assert followed_by("LPUSH k a b", b":2\r\n", rule=rule) == ["EXPIRE k 300 NX"]
    assert followed_by("LPUSH k a b", b":3\r\n", rule=rule) == []
    assert followed_by("SORT a STORE k", b":3\r\n", rule=rule) == ["EXPIRE k 300 NX"]
    assert followed_by("LMOVE a k LEFT LEFT", b"$1\r\n", b":0\r\n", rule=rule) == ["EXPIRE k 300 NX"]
    assert followed_by("LMOVE a k LEFT LEFT", b"$-1\r\n", b":0\r\n", rule=rule) == []


def test_of_some_keys_only_the_key_tells_its_type() -> None:
    assert followed_by("RENAME a k", b"+OK\r\n", b"+hash\r\n") == ["EXPIRE k 300 NX"]
    assert followed_by("RENAME a k", b"+OK\r\n", b"+list\r\n") == []
    assert followed_by("RENAME a k", b"+OK\r\n", b"+MBbloom--\r\n") == ["EXPIRE k 300 NX"]
    assert followed_by("RENAMENX a k", b":0\r\n", b"+hash\r\n") == []
    assert followed_by("COPY a k", b":1\r\n", rule=lifetime(types=ALL)) == ["EXPIRE k 300 NX"]
    ttls, types = (b":-2\r\n", b":-1\r\n", b":60\r\n"), (b"+set\r\n",) * 3
    stamped = ["EXPIRE a 300 NX", "EXPIRE c 300 NX"]
    assert followed_by("EVAL return(1) 3 a b c x", b"$-1\r\n", *ttls, *types) == stamped
    assert followed_by("EVAL return(1) 2 a b x", b":0\r\n", *ttls[1::-1], b"+x\r\n", b"+none\r\n") == []
    assert followed_by("EVAL return(1) 1 a", b":0\r\n", b"-NOPERM no\r\n", b"+string\r\n") == []
    assert judged("RENAME k k") == PASS
    assert skipped(judged("COPY a k DB 1"))
    assert skipped(judged("COPY k k DB 1"))


def test_what_creates_nothing_that_is_meant_passes() -> None:
    for text in ("BITFIELD k GET u8 0", "SORT a", "GEORADIUS g 1 1 9 km", "EVAL return(1) 0", "XADD k * a b"):
        assert judged(text) == PASS


def test_several_keys_at_once() -> None:
    rule = lifetime(keys=("a*",))
    assert followed_by("MSET a 1 b 2 ab 3", b"+OK\r\n", rule=rule) == ["EXPIRE a 300 NX", "EXPIRE ab 300 NX"]
    assert followed_by("MSETNX a 1 b 2", b":0\r\n", rule=rule) == []
    assert judged("MSET b 1", rule) == PASS
    many = " ".join(f"a{i} 1" for i in range(200))
    assert "more than 128" in skipped(judged(f"MSET {many} b 1", rule))


def test_without_the_options_of_expire_a_script_says_the_same() -> None:
    rule = lifetime(available=frozenset({"SET", "EVAL", "EXEC", "EXISTS", "TTL", "TYPE"}))
    (follows,) = followed_by("INCR k", b":1\r\n", b":0\r\n", rule=rule)
    assert follows.startswith("EVAL if redis.call('TTL',KEYS[1])==-1 ")
    assert follows.endswith(" 1 k 300")


def test_what_is_sent_along_must_be_allowed() -> None:
    hidden = {"EVAL", "EXEC", "EXISTS", "EXPIRE", "TTL", "TYPE"}
    assert lifetime().needs.commands == {"SET", "MSETEX", "SETNX", "GETSET", "MSET", "MSETNX"} | hidden
    for text in ("SETNX k v", "GETSET k v", "MSET k v", "MSETNX k v"):
        own = lifetime(available=frozenset({"SET", "MSETEX"} | hidden))
        assert isinstance(judged(text, own), Surround), "Redis is to refuse what this user may not send"
    rule = lifetime(available=frozenset())
    for text in ("SETNX k v", "GETSET k v", "INCR k", "MSET k v", "SUNIONSTORE k a"):
        assert "EXPIRE" in skipped(judged(text, rule)) or "EXEC" in skipped(judged(text, rule))
    assert isinstance(judged("SET k v", rule), Rewrite)
    partly = lifetime(available=frozenset({"EXPIRE"}))
    assert skipped(judged("INCR k", partly))
    assert followed_by("SETNX k v", b":1\r\n", rule=partly) == ["EXPIRE k 300 NX"]


# TTL options


def test_existing_keys_may_be_stamped() -> None:
    rule = lifetime(ttl_options=TtlOptions(existing_keys=Existing.STAMP), types=ALL)
    assert followed_by("INCR k", b":7\r\n", rule=rule) == ["EXPIRE k 300 NX"]
    assert followed_by("LPUSH k v", b":7\r\n", rule=rule) == ["EXPIRE k 300 NX"]


def test_without_proof_it_may_be_refused() -> None:
    rule = lifetime(ttl_options=TtlOptions(without_proof=Unproven.REFUSE), available=frozenset())
    assert "INCR may create the key 'k' (argument 1 of INCR) without a TTL" in refused(judged("INCR k", rule))
    rule = lifetime(ttl_options=TtlOptions(without_proof=Unproven.REFUSE))
    verdict = judged("INCR k", rule)
    assert isinstance(verdict, Surround)
    assert verdict.otherwise is not None
    assert refused(judged("COPY a k DB 1", rule))


def test_a_required_ttl_has_to_be_stated_where_it_can_be() -> None:
    rule = lifetime(Bounds(300, required=True))
    for text in ("SET k v", "SETNX k v", "GETSET k v", "MSET k v", "MSETEX 1 k v"):
        assert "states no TTL" in refused(judged(text, rule))
    assert judged("SET k v EX 1", rule) == PASS
    assert isinstance(judged("INCR k", rule), Surround)
    assert skipped(judged("INCR k", lifetime(Bounds(required=True))))


def test_a_ttl_is_held_within_the_bounds() -> None:
    for text, becomes in (
        ("SET k v EX 5", "SET k v EX 10"),
        ("SET k v NX PX 9999 GET", "SET k v NX PX 10000 GET"),
        ("SETEX k 99999 v", "SETEX k 3600 v"),
        ("PSETEX k 1 v", "PSETEX k 10000 v"),
        ("EXPIRE k 99999 NX", "EXPIRE k 3600 NX"),
        ("PEXPIRE k 99999999", "PEXPIRE k 3600000"),
        ("EXPIREAT k 99999 GT", "EXPIREAT k 3600 GT"),
        ("PEXPIREAT k 2000", "PEXPIREAT k 10000"),
        ("GETEX k EX 1", "GETEX k EX 10"),
        ("MSETEX 1 k v EX 1", "MSETEX 1 k v EX 10"),
        ("RESTORE k 1 x REPLACE", "RESTORE k 10000 x REPLACE"),
        ("EXPIRE k 9223372036854775", "EXPIRE k 3600"),
    ):
        assert judged(text, lifetime(BOUNDED)) == Rewrite(becomes.encode().split(), None)
        assert judged(text) == PASS
        strict = lifetime(BOUNDED, TtlOptions(Outside.REFUSE), wording=Wording("so says our standard"))
        assert "the TTL of " in refused(judged(text, strict))
        assert ", and so says our standard; " in refused(judged(text, strict))


def test_what_is_within_or_is_no_lifetime_goes_on() -> None:
    for text in (
        "SET k v EX 10",
        "SETEX k 3600 v",
        "EXPIRE k 0",
        "EXPIRE k -1",
        "EXPIREAT k 0",
        "SETEX k 0 v",
        "SETEX k 05 v",
        "EXPIRE k x",
        "SET k v EX 9223372036854775807",
        "PEXPIRE k 9223372036854775808",
        "HEXPIRE k 1 FIELDS 1 f",
    ):
        assert judged(text, lifetime(BOUNDED)) == PASS


def test_refusals_name_the_bound() -> None:
    strict = lifetime(BOUNDED, TtlOptions(Outside.REFUSE))
    assert "the TTL of 'k' (argument 2 of EXPIRE) is 1s, 9s less than the minimum of 10s; " in (
        refused(judged("EXPIRE k 1", strict))
    )
    assert "(EX, argument 4 of SET) is 2h46m39s, 1h46m39s more than the limit of 1h; " in (
        refused(judged("SET k v EX 9999", strict))
    )
    assert "2h46m39s, 1h46m39s more than the limit of 1h; " in refused(judged("SETEX k 9999 v", strict))


def test_a_ttl_may_not_be_taken_away() -> None:
    assert judged("PERSIST k") == PASS
    refuse = lifetime(ttl_options=TtlOptions(persist=Persist.REFUSE))
    assert "PERSIST removes the TTL of the key 'k' (argument 1 of PERSIST)" in refused(judged("PERSIST k", refuse))
    assert refused(judged("GETEX k persist", refuse))
    assert judged("GETEX k", refuse) == PASS
    clamp = lifetime(BOUNDED, TtlOptions(persist=Persist.CLAMP))
    assert judged("PERSIST k", clamp) == Rewrite([b"EXPIRE", b"k", b"3600", b"XX"])
    assert judged("GETEX k PERSIST", clamp) == Rewrite([b"GETEX", b"k"])


def test_lifetimes_slide_with_each_use() -> None:
    rule = lifetime(Bounds(300, sliding=True))
    assert followed_by("GET k", b"$1\r\n", rule=rule) == ["EXPIRE k 300 GT"]
    assert followed_by("GET k", b"$-1\r\n", rule=rule) == []
    assert followed_by("MGET a b", b"*2\r\n", rule=rule) == ["EXPIRE a 300 GT", "EXPIRE b 300 GT"]
    assert followed_by("HGETALL k", b"%1\r\n", rule=rule) == ["EXPIRE k 300 GT"]
    assert followed_by("GETEX k", b"$1\r\n", rule=rule) == ["EXPIRE k 300 GT"]
    assert followed_by("HSET k f v", b":1\r\n", b":1\r\n", rule=rule) == ["EXPIRE k 300 GT"]
    assert followed_by("HSET k f v", b":1\r\n", b":0\r\n", rule=rule) == ["EXPIRE k 300 NX"]
    for text in ("TTL k", "EXISTS k", "TYPE k", "DEL k", "PING", "KEYS *", "PUBLISH k m"):
        assert judged(text, rule) == PASS
    assert judged("GET k") == PASS


def test_keys_by_pattern() -> None:
    rule = lifetime(keys=("cache:*", "*:session:*"))
    for text in ("SET cache: v", "SET web:session:1 v", "SET :session: v"):
        assert isinstance(judged(text, rule), Rewrite)
    for text in ("SET Cache:1 v", "SET session:12 v", "INCR other", "SET cach v", "SET my:session v"):
        assert judged(text, rule) == PASS
    assert isinstance(rule.judge(command("SET", b"cache:\xff\n", b"v"), context()), Rewrite)


def test_jitter_is_even_around_the_default() -> None:
    for chance, seconds in ((0.0, 270), (0.5, 300), (0.9999999, 330)):
        verdict = lifetime(Bounds(300, jitter=0.1)).judge(command("SET k v"), context(chance))
        assert isinstance(verdict, Rewrite)
        assert verdict.argv[-1] == b"%d" % seconds


def test_jitter_of_what_applications_state() -> None:
    rule = lifetime(Bounds(least=95, most=109, jitter_stated=0.1))
    for chance, stated, becomes in (
        (0.0, "SET k v EX 100", "SET k v EX 95"),
        (0.25, "SET k v EX 100", "SET k v EX 95"),
        (0.75, "SETEX k 100 v", "SETEX k 105 v"),
        (0.9999999, "PEXPIRE k 100000 GT", "PEXPIRE k 109000 GT"),
        (0.75, "GETEX k EX 100", "GETEX k EX 105"),
        (0.75, "MSETEX 1 k v EX 100", "MSETEX 1 k v EX 105"),
    ):
        assert rule.judge(command(stated), context(chance)) == Rewrite(becomes.encode().split(), None)
    anything = lifetime(Bounds(jitter_stated=0.9))
    assert anything.judge(command("SET k v EX 1"), context(0.0)) == PASS  # never so short that it would be no lifetime
    assert anything.judge(command("EXPIRE k 9223372036854775"), context(0.9)) == PASS
    assert anything.judge(command("EXPIREAT k 100"), context(0.0)) == PASS  # a time of day is meant as it is
    assert anything.judge(streamed([b"SET", b"k", b"v", b"EX", b"100"], 2, 10**7), context(0.0)) == PASS
    strict = lifetime(Bounds(most=100, jitter_stated=0.1), TtlOptions(Outside.REFUSE))
    assert "1s more than the limit of 1m40s" in refused(strict.judge(command("SETEX k 101 v"), context(0.0)))
    assert strict.judge(command("SETEX k 100 v"), context(0.9)) == PASS


def test_a_lifetime_is_never_out_of_bounds() -> None:
    assert Bounds(1, jitter=0.9).seconds(0.0) == 1
    assert Bounds(20, least=15, most=22, jitter=0.5).seconds(0.0) == 15
    assert Bounds(20, least=15, most=22, jitter=0.5).seconds(0.99) == 22


def test_each_command_that_creates_is_decided() -> None:
    undecided = [each.name for each in STANDARD.specs if each.creates and each.id and creation_of(each) is None]
    assert set(undecided) == set(ELSEWHERE)
    touched = [
        name for name in ("SET", "SETNX", "SETEX", "GET", "INCR", "LPUSH", "PERSIST") if lifetime().touches(spec(name))
    ]
    assert touched == ["SET", "SETNX", "INCR"]


SCHEMA = Schema(
    tuple(
        KeyEntry(key, parse_pattern(key), key_type, lifetime)
        for key, key_type, lifetime in (
            ("page:{id}", "string", Bounds(default=60, least=10, most=3600)),
            ("cart:{id}", "hash", Bounds(default=7200, sliding=True)),
            ("jobs:{name}", "list", Bounds()),
            ("inbox:{name}", "list", Bounds(default=30)),
            ("code:{id}", "string", Bounds(required=True)),
            ("misc:{id}", None, None),
        )
    )
)


def test_the_schema_says_how_long_each_key_lives() -> None:
    rule = SchemaTtlSettings().bind("lifetimes", NO_WORDS, Binding(STANDARD, schema=SCHEMA))
    assert judged("SET page:1 v", rule) == Rewrite([b"SET", b"page:1", b"v", b"EX", b"60"])
    assert judged("SETEX page:1 9999 v", rule) == Rewrite([b"SETEX", b"page:1", b"3600", b"v"])
    assert "states no TTL" in refused(judged("SET code:1 v", rule))
    assert followed_by("HSET cart:1 f v", b":1\r\n", b":0\r\n", rule=rule) == ["EXPIRE cart:1 7200 NX"]
    assert followed_by("HGETALL cart:1", b"%1\r\n", rule=rule) == ["EXPIRE cart:1 7200 GT"]
    assert followed_by("RPUSH inbox:a x", b":1\r\n", rule=rule) == ["EXPIRE inbox:a 30 NX"]
    for text in ("MSET page:1 a misc:1 b inbox:1 c", "MSET page:1 a inbox:1 c"):
        assert followed_by(text, b"+OK\r\n", rule=rule) == ["EXPIRE page:1 60 NX", "EXPIRE inbox:1 30 NX"]
    for text in ("SET misc:1 v", "RPUSH jobs:a x", "SET unknown v", "EXPIRE jobs:a 99999", "GET page:1", "GET misc:1"):
        assert judged(text, rule) == PASS


def test_a_rule_for_all_other_keys_leaves_the_schema_its_own() -> None:
    settings = LifetimeSettings(FIVE_MINUTES, types=ALL)
    by_schema = Binding(STANDARD, schema=SCHEMA, beside=(SchemaTtlSettings().claim,))
    rule = settings.bind("others", NO_WORDS, by_schema)
    for text in ("SET misc:1 v", "SET unknown v"):
        assert judged(text, rule) == Rewrite([*text.encode().split(), b"EX", b"300"])
    for text in ("SET page:1 v", "RPUSH jobs:a x", "SET code:1 v"):
        assert judged(text, rule) == PASS


def test_without_a_rule_for_the_schema_only_what_lives_for_ever_is_left_to_it() -> None:
    rule = LifetimeSettings(FIVE_MINUTES, types=ALL).bind("all", NO_WORDS, Binding(STANDARD, schema=SCHEMA))
    for text in ("SET misc:1 v", "SET page:1 v", "SET code:1 v"):
        assert judged(text, rule) == Rewrite([*text.encode().split(), b"EX", b"300"])
    assert judged("RPUSH jobs:a x", rule) == PASS


def test_the_most_specific_keys_decide() -> None:
    inner, outer, all_others = ("a:b:*", "c"), ("a:*", "a:b:c:*", "d:*"), ("*",)

    def bound(keys: tuple[str, ...], *others: tuple[str, ...]) -> Lifetime:
        binding = Binding(STANDARD, beside=tuple(map(KeyClaim, others)))
        return LifetimeSettings(FIVE_MINUTES, keys=keys).bind("l", NO_WORDS, binding)

    rules = [bound(inner, outer, all_others), bound(outer, inner, all_others), bound((), inner, outer)]
    for key, owner in (("a:b:1", 0), ("c", 0), ("a:1", 1), ("a:b:c:1", 1), ("d:1", 1), ("e", 2), ("a", 2)):
        acting = [judged(f"SET {key} v", rule) != PASS for rule in rules]
        assert acting == [number == owner for number in range(3)], key


def test_what_cannot_state_a_required_ttl_gets_the_most() -> None:
    rule = lifetime(Bounds(most=60, required=True))
    assert "states no TTL" in refused(judged("SET k v", rule))
    assert followed_by("INCR k", b":1\r\n", b":0\r\n", rule=rule) == ["EXPIRE k 60 NX"]


def test_a_most_holds_for_persist_unless_the_policy_says_otherwise() -> None:
    for ttl_options, becomes in (
        (TtlOptions(), Rewrite([b"EXPIRE", b"k", b"60", b"XX"])),
        (TtlOptions(persist=Persist.ALLOW), PASS),
    ):
        rule = lifetime(Bounds(default=30, most=60), ttl_options)
        assert judged("PERSIST k", rule) == becomes
    assert judged("PERSIST k", lifetime(Bounds(default=30))) == PASS
