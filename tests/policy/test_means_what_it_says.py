"""A policy does what it says: random policies about types, sizes and lifetimes, compared with their text.

If ``check`` accepts a policy, it is enforced and compared with an independent reading of its text: each constraint
changes or refuses some command, and no command passes that breaks one. A policy that is not accepted is an error with
file, line and path.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from random import Random

import pytest

from proxy.commands.table import STANDARD
from proxy.policy.compile import CompiledPolicy
from proxy.policy_yaml.errors import PolicyError
from proxy.rules.verdict import Pass, Refuse, Rewrite
from tests.policy.given import compile_policy, policy
from tests.rules.given import command, context

POLICIES = 240
SEGMENTS = ("a", "b", "x")
KEYS = [
    *(SEGMENTS),
    *(f"{one}:{two}" for one in SEGMENTS for two in SEGMENTS),
    *(f"{one}:{two}:x" for one in SEGMENTS for two in SEGMENTS),
]
PATTERNS = ("{r...}", "a:{r...}", "b:{r...}", "a:b:{r...}", "a:{s}")
GLOBS = ("*", "a*", "a:*", "b:*", "a:b:*", "*:x", "a:*x", "*:b*", "x", "a:b*", "*b*")
TYPES = ("string", "hash", "list")
WRITES = {"string": "APPEND {} v", "hash": "HSET {} f v", "list": "RPUSH {} v"}


@dataclass(frozen=True)
class Lifetime:
    """The contents of a mapping under ``ttl`` or ``lifetime``; times in seconds."""

    default: int | None
    least: int | None
    most: int | None
    required: bool
    jitter: bool

    def text(self) -> list[str]:
        said = [("default", self.default), ("min", self.least), ("max", self.most)]
        words = [f"{name}: {value}s" for name, value in said if value is not None]
        return words + ["required: true"] * self.required + ["jitter: 10%"] * (self.jitter and self.default is not None)


@dataclass(frozen=True)
class Entry:
    pattern: str
    lifetime: Lifetime | None
    permanent: bool
    type: str
    size: int | None

    def matches(self, key: str) -> bool:
        literal, _, rest = self.pattern.partition("{")
        return key.startswith(literal) and len(key) > len(literal) and (rest != "s}" or ":" not in key[len(literal) :])

    def text(self) -> str:
        said = [f'key: "{self.pattern}"']
        if self.permanent:
            said.append("ttl: none")
        elif self.lifetime is not None:
            said.append(f"ttl: {{{', '.join(self.lifetime.text())}}}")
        said += [f"type: {self.type}"] * bool(self.type)
        said += [f"size: {self.size}B"] * (self.size is not None)
        return "{" + ", ".join(said) + "}"


@dataclass(frozen=True)
class Rule:
    lifetime: Lifetime
    globs: tuple[str, ...]
    types: tuple[str, ...]
    persist: str

    def matches(self, key: str) -> bool:
        return not self.globs or any(fnmatchcase(key, glob) for glob in self.globs)

    def text(self) -> str:
        said = self.lifetime.text()
        said += [f"types: {'all' if self.types == TYPES else '[' + ', '.join(self.types) + ']'}"] * bool(self.types)
        said += [f"persist: {self.persist}"] * bool(self.persist)
        said += ["keys: [" + ", ".join(f'"{glob}"' for glob in self.globs) + "]"] * bool(self.globs)
        return f"{{lifetime: {{{', '.join(said)}}}}}"


@dataclass(frozen=True)
class Written:
    """All that a policy says."""

    entries: tuple[Entry, ...]
    rules: tuple[Rule, ...]
    by_schema: frozenset[str]

    def text(self) -> str:
        lines = ["defaults: {mode: enforce}"]
        if self.entries:
            lines += ["schema:", *(f"  e{i}: {entry.text()}" for i, entry in enumerate(self.entries))]
        lines += ["rules:" if self.by_schema or self.rules else "rules: {}"]
        lines += [f"  schema-{part}: {{schema: {part}}}" for part in sorted(self.by_schema)]
        lines += [f"  l{i}: {rule.text()}" for i, rule in enumerate(self.rules)]
        return "\n".join(lines) + "\n"

    def owner(self, key: str) -> Entry | None:
        """The entry that owns a key: of those that match the one whose other keys are the fewest."""
        matching = [entry for entry in self.entries if entry.matches(key)]
        return min(matching, key=lambda entry: sum(map(entry.matches, KEYS)), default=None)

    def lifetime_of(self, key: str) -> tuple[Lifetime | None, Rule | None]:
        """The statement about a key's lifetime, and the rule that makes it if there is one: the entry before the rules,
        and of those the one with the glob that matches the fewest keys."""
        owner = self.owner(key)
        if owner is not None and (owner.permanent or owner.lifetime is not None):
            return owner.lifetime, None
        matching = [
            (sum(fnmatchcase(each, glob) for each in KEYS), i)
            for i, rule in enumerate(self.rules)
            for glob in rule.globs or ("*",)
            if fnmatchcase(key, glob)
        ]
        rule = self.rules[min(matching)[1]] if matching else None
        return (None, None) if rule is None else (rule.lifetime, rule)


def drawn_lifetime(random: Random) -> Lifetime:
    least, most = random.choice((None, None, 10)), random.choice((None, 100, 1000))
    required = random.random() < 0.3
    sure = most is not None and not required and random.random() < 0.8
    default = 50 if sure else random.choice((None, 50, 50))
    return Lifetime(default, least, most, required, jitter=random.random() < 0.2)


def drawn_policy(random: Random) -> Written:
    patterns = random.sample(PATTERNS, random.choice((0, 0, 0, 1, 1, 2, 3)))
    entries = tuple(
        Entry(
            pattern,
            drawn_lifetime(random) if (says := random.random()) < 0.5 else None,
            permanent=says > 0.8,
            type=random.choice(("", "", *TYPES)),
            size=random.choice((None, None, 16)),
        )
        for pattern in patterns
    )
    rules = tuple(
        Rule(
            drawn_lifetime(random),
            tuple(random.sample(GLOBS, random.choice((0, 1, 1, 2)))),
            random.choice(((), TYPES, TYPES, TYPES, ("string",), ("hash", "string"))),
            random.choice(("", "", "allow", "clamp", "refuse")),
        )
        for _ in range(random.choice((0, 1, 1, 2, 2, 3)))
    )
    needed = {
        "ttl": any(entry.lifetime or entry.permanent for entry in entries),
        "type": any(entry.type for entry in entries),
        "size": any(entry.size for entry in entries),
    }
    by_schema = frozenset(part for part, there in needed.items() if there == (random.random() < 0.95))
    return Written(entries, rules, by_schema)


class Enforced:
    """The fate of commands."""

    def __init__(self, compiled: CompiledPolicy) -> None:
        self._compiled = compiled

    def outcome(self, text: str) -> tuple[str, list[str]]:
        """How a command ends (``refused``, ``followed``, ``changed``, ``unchanged``), and what it is then."""
        decision = self._compiled.judge(command(text), context())
        match decision.verdict:
            case Refuse():
                return "refused", []
            case Rewrite(argv=argv):
                return "changed", [word.decode() for word in argv]
            case Pass():
                return ("followed" if decision.hidden else "unchanged"), text.split()
        raise AssertionError(decision)


def stated(argv: list[str]) -> int | None:
    """The seconds that a command states: SET … EX n, EXPIRE k n."""
    return int(argv[2]) if argv[0] == "EXPIRE" else int(argv[argv.index("EX") + 1]) if "EX" in argv else None


def usual_types(rule: Rule | None) -> tuple[str, ...]:
    return TYPES if rule is None else rule.types or ("string", "hash")


def check_lifetime(written: Written, enforced: Enforced, key: str, owner: Entry | None) -> set[str]:
    """Hold a key's commands against what is said of its lifetime; returns what of it has acted."""
    lifetime, rule = written.lifetime_of(key)
    kept = owner.type if owner is not None and "type" in written.by_schema else ""
    strings = kept in ("", "string") and "string" in usual_types(rule)
    acted: set[str] = set()
    for seconds in (1, 10, 100, 101, 1000, 1001):
        for text in (f"SET {key} v EX {seconds}", f"EXPIRE {key} {seconds}"):
            if text.startswith("SET") and not strings:
                continue
            end, argv = enforced.outcome(text)
            if lifetime is None:
                assert end == "unchanged", text
                continue
            least, most = lifetime.least or 1, lifetime.most or 10**9
            assert end == "refused" or least <= (stated(argv) or 0) <= most, (text, end, argv)
            assert (end == "unchanged") == (least <= seconds <= most), (text, end, argv)
            acted |= {"min"} if seconds < least else {"max"} if seconds > most else set()
    if strings:
        acted.add("string")
        end, argv = enforced.outcome(f"SET {key} v")
        if lifetime is None:
            assert end == "unchanged"
        elif lifetime.required:
            assert end == "refused"
            acted.add("required")
        elif lifetime.default is not None:
            jitter = 5 if lifetime.jitter else 0
            assert end == "changed"
            assert abs((stated(argv) or 0) - lifetime.default) <= jitter
            acted.add("default")
        else:
            assert end == "unchanged"
            assert lifetime.most is None, "a key that lives for ever lives longer than the max"
    for kind, write in WRITES.items():
        if kept in ("", kind) and kind in usual_types(rule):
            end, _ = enforced.outcome(write.format(key))
            if lifetime is not None and (lifetime.default is not None or lifetime.required):
                assert end in ("followed", "refused"), (write, key)
                acted.add("default")
            else:
                assert end == "unchanged", (write, key)
                assert lifetime is None or lifetime.most is None, "a key that lives for ever lives longer than the max"
    persisting = enforced.outcome(f"PERSIST {key}")[0]
    asked = "" if rule is None else rule.persist
    if lifetime is not None and asked != "allow" and (lifetime.most is not None or asked):
        assert persisting in ("changed", "refused")
    else:
        assert persisting == "unchanged"
    return acted


def check_entry(written: Written, enforced: Enforced, key: str, owner: Entry) -> set[str]:
    """The same of what the schema says of a key's type and size."""
    acted: set[str] = set()
    for kind, write in WRITES.items():
        if owner.type and kind != owner.type:
            assert enforced.outcome(write.format(key))[0] == "refused"
            acted.add("type")
    if owner.size is not None:
        for kind, write in WRITES.items():
            if owner.type in ("", kind):
                fits, exceeds = (write.format(key)[:-1] + "v" * size for size in (owner.size, owner.size + 1))
                assert enforced.outcome(exceeds)[0] == "refused"
                acted.add("size")
                assert enforced.outcome(fits)[0] == enforced.outcome(write.format(key))[0]
    return acted


def said_of(lifetime: Lifetime | None) -> set[str]:
    if lifetime is None:
        return set()
    said = {"min": lifetime.least is not None, "max": lifetime.most is not None, "required": lifetime.required}
    return {name for name, there in said.items() if there} | ({"default"} if lifetime.default is not None else set())


def check(written: Written) -> None:
    """Enforce what was accepted, and try every key."""
    enforced = Enforced(compile_policy(policy(written.text()), STANDARD, seed=1))
    every: tuple[Entry | Rule, ...] = (*written.entries, *written.rules)
    acted: dict[Entry | Rule, set[str]] = {each: set() for each in every}
    for key in KEYS:
        owner = written.owner(key)
        lifetime, rule = written.lifetime_of(key)
        found = check_lifetime(written, enforced, key, owner)
        if rule is not None:
            acted[rule] |= found
        elif owner is not None and lifetime is not None:
            acted[owner] |= found
        if owner is not None:
            acted[owner] |= check_entry(written, enforced, key, owner)
    for each, found in acted.items():
        said = said_of(each.lifetime)
        if isinstance(each, Entry):
            said |= ({"type"} if each.type else set()) | ({"size"} if each.size is not None else set())
        if "string" not in found:
            said.discard("required")  # of hashes and lists only RESTORE can state a TTL
        assert said <= found, (each, said - found)


@pytest.mark.parametrize("part", range(8))
def test_each_accepted_policy_does_what_its_text_says(part: int) -> None:
    random = Random(part)
    accepted = 0
    for _ in range(POLICIES // 8):
        written = drawn_policy(random)
        try:
            policy(written.text())
        except PolicyError as error:
            for problem in error.problems:
                assert problem.where.line, written.text()
                assert problem.path.split(".")[0] in ("schema", "rules")
            continue
        accepted += 1
        try:
            check(written)
        except AssertionError as failed:
            raise AssertionError(f"{failed}\nin this policy:\n{written.text()}") from failed
    assert accepted >= 8
