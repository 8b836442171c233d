"""The policy that follows from the answers, in four levels of maturity: commands, TTLs, names, schema.

Level 1 is active, in audit. Each line of a later level begins with the mark of its level (``#2 ``), so that one
replacement in an editor, or one `sed`, uncomments the rules, the schema and the tests of a level together.
"""

import shlex
from collections.abc import Iterable, Iterator, Sequence

from proxy.cli.init.answers import Answers, Purpose

LEVELS = (1, 2, 3, 4)
_GENERIC = ("data", "temp", "test")
"""Segments that say nothing, unless a team has the name."""


def uncommented(text: str, levels: Iterable[int]) -> str:
    """The policy with these levels active, as `sed` makes it."""
    marks = tuple(f"#{level} " for level in levels)
    return "".join(line[3:] if line.startswith(marks) else line for line in text.splitlines(keepends=True))


def policy_text(answers: Answers, engine: str, file: str, *, cluster: bool) -> str:
    """The whole policy, for a file of this name; ``engine`` says in a few words what Redis has told of itself."""
    writer = _PolicyWriter(answers, cluster)
    parts = [*writer.beginning(engine, file), "rules:"]
    bodies = (writer.commands, writer.lifetimes, writer.names, writer.schema)
    for level, body in zip(LEVELS, bodies, strict=True):
        parts += [*_heading(level, file), *_marked(level, body()), ""]
    parts += ["tests:"]
    tests = (writer.command_tests, writer.lifetime_tests, writer.name_tests, writer.schema_tests)
    for level, told in zip(LEVELS, tests, strict=True):
        parts += [f"  # Level {level}", *_marked(level, (f"  - {{{each}}}" for each in told()))]
    return "\n".join(parts) + "\n"


def _marked(level: int, lines: Iterable[str]) -> Iterator[str]:
    mark = "" if level == 1 else f"#{level} "
    return (mark + line for text in lines for line in text.splitlines())


_HEADINGS = {
    1: (
        "commands. It is active, in audit: Keyrail counts what these rules would do, and does nothing.",
        "Enforce a rule (add `mode: enforce` to it) when a week with its busiest hours shows no surprising hit.",
        "Go on to level 2 when all of level 1 is enforced.",
    ),
    2: (
        "TTLs.",
        "Look at the shapes of the keys that would get a TTL, and name in `exceptions` those that must stay.",
        "Go on to level 3 when it is enforced, and `INFO keyspace` shows `expires` grow towards `keys`.",
    ),
    3: (
        "names.",
        "Give apps time to rename their keys; for names that must stay, write an exception with a date.",
        "Go on to level 4 when it is enforced: a schema needs keys that can be told apart by their names.",
    ),
    4: (
        "schema, the last level: each kind of key has a type, a size, a TTL and an owner.",
        "Before you enforce `known-keys`, write entries for your own kinds of keys, and remove the entries for others.",
        "`keyrail schema docs` prints the documentation of your keys.",
    ),
}


def _heading(level: int, file: str) -> list[str]:
    title, *advice = _HEADINGS[level]
    how = [] if level == 1 else [f"To uncomment it: sed -i.bak 's/^#{level} //' {shlex.quote(file)}"]
    return [f"  # Level {level}: {title}", *(f"  # {line}" for line in (*how, *advice))]


class _PolicyWriter:
    """Writes the parts of a policy. Tests use the names of keys that all levels allow together."""

    def __init__(self, answers: Answers, cluster: bool) -> None:
        self._answers = answers
        self._cluster = cluster
        self._cache = answers.purpose is Purpose.CACHE
        self._prefixes = [f"{team}:" for team in answers.teams] or [""]
        self._banned = [word for word in _GENERIC if word not in answers.teams]
        self._owners = {app: team for app in answers.apps if app.proven and (team := answers.team_of(app))}

    def beginning(self, engine: str, file: str) -> Iterator[str]:
        answers = self._answers
        what = "cache" if self._cache else "data store"
        keys = "may live for ever" if answers.immortal else "may not live for ever"
        yield f"# A first policy for {answers.redis.shown} ({engine}), a {what} whose keys {keys}."
        yield "# Lines that begin with #2, #3 or #4 are those of later levels. Each level says when to go on."
        yield f"# `keyrail check {shlex.quote(file)}` runs the tests below."
        yield "# `KEYRAIL RULES` and the page show the hits of each rule: commands, clients, shapes of keys."
        yield "keyrail: 1\n"
        yield "defaults:\n  mode: audit   # off, audit, warn or enforce; a rule can have its own\n"
        if not answers.apps:
            yield "# apps: {checkout: {match: {user: checkout}}}   # `KEYRAIL CLIENTS` shows who is there\n"
            return
        yield "apps:"
        for app in answers.apps:
            team = answers.team_of(app)
            claim = "" if app.proven else "   # claimed only: any client can set a client name"
            yield f"  {app.name}: {{{f'team: {team}, ' if team else ''}match: {app.match}}}{claim}"
        yield ""

    def commands(self) -> Iterator[str]:
        why = (
            "an empty cache sends every request to the database behind it"
            if self._cache
            else "it wipes or exchanges the data of everyone on this Redis"
        )
        yield f"""\
  no-flush:
    refuse: [FLUSHALL, FLUSHDB, SWAPDB]
    because: {why}
    instead: delete your own keys with SCAN and UNLINK
  no-keyspace-walks:
    refuse: [KEYS]
    because: one KEYS stops every client until it has walked all keys
    instead: use SCAN with MATCH and COUNT
    in_scripts: audit   # some libraries call it in a branch of a script that rarely runs
  no-server-control:
    refuse:
      [SHUTDOWN, DEBUG, SAVE, MONITOR, CONFIG SET, CONFIG REWRITE, REPLICAOF, FAILOVER, MODULE, CLUSTER RESET,
       CLUSTER FLUSHSLOTS, ACL SETUSER, ACL DELUSER, ACL LOAD, SCRIPT DEBUG]
    because: it stops, slows or reconfigures the server itself
    instead: ask the operators of this Redis
  nor-by-scripts:
    scripts: {{commands: follow_rules, dynamic_calls: allow}}
  lazy-delete:
    replace: {{DEL: UNLINK}}"""
        if not self._cluster:
            yield f"""\
  one-database:
    databases: [{self._answers.redis.address.database}]
    because: numbered databases share memory, limits and monitoring
    instead: use a prefix in the names of your keys"""

    def command_tests(self) -> Iterator[str]:
        yield "send: FLUSHALL, refused_by: no-flush"
        yield "send: CONFIG SET maxmemory 1, refused_by: no-server-control"
        yield """send: "EVAL \\"return redis.call('FLUSHALL')\\" 0", refused_by: nor-by-scripts"""
        for app in ("", *(f"app: {app.name}, " for app in self._answers.apps)):
            yield f'send: "KEYS *", {app}refused_by: no-keyspace-walks'
        key = self._key("item:1")
        yield f"send: DEL {key}, becomes: UNLINK {key}"
        if not self._cluster:
            yield f"send: SELECT {self._answers.redis.address.database + 1}, refused_by: one-database"

    def lifetimes(self) -> Iterator[str]:
        for kind, bounds, why in (
            ("cache", "default: 1h, jitter: 10%, max: 7d", "what can be made again need not stay"),
            ("session", "default: 2h, max: 7d, sliding: true", "each use renews a session, and the others end"),
            ("lock", "default: 30s, max: 10m", "a client that dies must not hold its lock for ever"),
        ):
            keys = _wrapped([f'"{prefix}{kind}:*"' for prefix in self._prefixes])
            yield f"""\
  {kind}-lifetimes:
    lifetime:
      {{{bounds}, outside: clamp, types: all,
       keys: [{keys}]}}
    because: {why}"""
        if not self._answers.immortal:
            default, most = ("1h", "7d") if self._cache else ("30d", "365d")
            yield f"""\
  nothing-for-ever:   # all other keys
    lifetime: {{default: {default}, jitter: 10%, max: {most}, outside: clamp, persist: clamp, types: all}}
    because: no key of this Redis may live for ever"""

    def lifetime_tests(self) -> Iterator[str]:
        cache, lock, other = (self._key(f"{kind}:1") for kind in ("cache", "lock", "item"))
        yield f"send: SET {cache} x, becomes: SET {cache} x EX 3600, jitter: 0"
        yield f"send: SET {cache} x EX 9999999, becomes: SET {cache} x EX 604800"
        yield f"send: GET {self._key('session:1')}, followed_by: session-lifetimes"
        yield f"send: SET {lock} x NX, becomes: SET {lock} x NX EX 30"
        if self._answers.immortal:
            yield f"send: SET {other} x, unchanged: true"
        else:
            seconds = 3600 if self._cache else 30 * 86_400
            yield f"send: SET {other} x, becomes: SET {other} x EX {seconds}, jitter: 0"

    def names(self) -> Iterator[str]:
        teams = self._answers.teams
        form = "team:entity:id" if teams else "entity:id"
        yield f"""\
  key-names:
    names: {{separator: ":", segments: {3 if teams else 2}..6, characters: printable-ascii, max_length: 128}}
    applies_to: writes
    instead: name it {form}, such as {self._key("user:1")}"""
        words = [f"banned_segments: [{', '.join(self._banned)}]"] if self._banned else []
        if self._cluster:
            words.append("hash_tags: {banned: [PENDING, ACTIVE, TODO, NEW]}")
        if words:
            yield f"""\
  key-words:
    names: {{{", ".join(words)}}}
    applies_to: writes
    because: it says nothing, or puts a whole state into one slot"""
        if teams:
            own = "".join(f'{app.name}: ["{team}:"], ' for app, team in self._owners.items())
            every = _wrapped([f'"{prefix}"' for prefix in self._prefixes])
            yield f"""\
  team-prefixes:
    names: {{prefixes: {{{own}default: [{every}]}}}}
    applies_to: writes
    because: the prefix tells whose key it is"""

    def name_tests(self) -> Iterator[str]:
        yield "send: SET john_email x, refused_by: key-names"
        if self._banned:
            yield f"send: SET {self._key(self._banned[0])}:1 x, refused_by: key-words"
        if self._cluster:
            yield f'send: "SET {self._key("cart")}:{{PENDING}} x", refused_by: key-words'
        if self._answers.teams:
            nobody = next(
                name for name in map("nobody{}".format, ("", *range(1000))) if name not in self._answers.teams
            )
            yield f"send: SET {nobody}:user:1 x, refused_by: team-prefixes"
        for app, team in self._owners.items():
            other = next((each for each in self._answers.teams if each != team), None)
            if other:
                yield f"send: SET {other}:user:1 x, app: {app.name}, refused_by: team-prefixes"

    def schema(self) -> Iterator[str]:
        yield """\
  known-keys:
    names: {in_schema: true}
    applies_to: writes
    because: every key has a type, a lifetime and an owner
    instead: add it to the schema
  key-types: {schema: type}
  key-sizes: {schema: size}
  key-lifetimes: {schema: ttl}   # the `ttl` of an entry, in place of level 2
schema:   # the most specific pattern owns a key"""
        apps = {team: app for app, team in reversed(self._owners.items())}
        permanent = ", ttl: none" if self._answers.immortal else ""
        for team, prefix in zip(self._answers.teams or ("",), self._prefixes, strict=True):
            name = f"{team}-" if team else ""
            app = f"app: {apps[team].name}, " if team in apps else ""
            yield f"""\
  {name}cache:
    {{key: "{prefix}cache:{{what...}}", {app}type: string, size: 10KB, about: what can be made again}}
  {name}session:
    {{key: "{prefix}session:{{id...}}", {app}size: 10KB, about: who is logged in}}
  {name}lock:
    {{key: "{prefix}lock:{{what...}}", {app}type: string, size: 1KB, about: held by one client}}
  {name}rate:
    {{key: "{prefix}rate:{{what...}}", {app}type: string, size: 1KB, ttl: {{default: 60s, max: 1d}},
     about: counts what happens in a span of time}}
  {name}other:
    {{key: "{prefix}{{entity:word}}:{{id...}}", {app}size: {{max: 10KB, members: 5000}}{permanent},
     about: all other keys}}"""

    def schema_tests(self) -> Iterator[str]:
        lock, rate = self._key("lock:1"), self._key("rate:1")
        yield f"send: SET {self._key('u!:1')} x, refused_by: known-keys"
        yield f"send: LPUSH {lock} x, refused_by: key-types"
        yield f"send: SETRANGE {lock} 2000 x, refused_by: key-sizes"
        yield f"send: SET {rate} 1, becomes: SET {rate} 1 EX 60"

    def _key(self, rest: str) -> str:
        return self._prefixes[0] + rest


def _wrapped(items: Sequence[str]) -> str:
    """The items of a list in lines of five."""
    lines = (", ".join(items[first : first + 5]) for first in range(0, len(items), 5))
    return ",\n             ".join(lines)
