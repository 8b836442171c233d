"""Libraries that are recognised by their keys: readers of a refusal often did not write the command themselves.

The library name of a client (``CLIENT SETINFO``) is that of the driver, such as redis-py, not of the library above it.

A refusal says how to exempt the library, with all lines that it needs: one rule after another would let it take a job
that a later rule does not let it finish, or that a rule about TTLs lets expire. Job queues and what works like them are
exempted as clients of the app `jobs`, which log in as the user of that name; other libraries by their keys.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.schema.globs import key_glob_of

JOBS = "jobs"
"""The app, and the user, that job queues log in as: in ``strict.yaml`` and in docs/libraries.md."""


@dataclass(frozen=True, slots=True)
class ClientLibrary:
    """A library, and a pattern (with ``*``) of its keys by default.

    A `queue` needs its keys until the work is done. Any other library needs exceptions from the rule that refuses it,
    and with `all_names` from all rules about names and slots.
    """

    name: str
    keys: str
    queue: bool = False
    all_names: bool = False


LIBRARIES = (
    ClientLibrary("Flask-Limiter", "LIMITS:*"),
    ClientLibrary("python-redis-lock", "lock:*"),
    ClientLibrary("python-redis-lock", "lock-signal:*"),
    ClientLibrary("RQ", "rq:*", queue=True),
    ClientLibrary("Celery", "celery*", queue=True),
    ClientLibrary("Celery", "_kombu.*", queue=True),
    ClientLibrary("Celery", "unacked*", queue=True),
    ClientLibrary("Dramatiq", "dramatiq:*", queue=True),
    ClientLibrary("arq", "arq:*", queue=True),
    ClientLibrary("huey", "huey.*", queue=True),
    ClientLibrary("APScheduler", "apscheduler.*", queue=True),
    ClientLibrary("channels_redis", "asgi*", queue=True),
    ClientLibrary("Django's cache", ":1:*", all_names=True),
    ClientLibrary("Flask-Caching", "flask_cache_*", all_names=True),
    ClientLibrary("Flask-Session", "session:*"),
    ClientLibrary("BullMQ", "bull:*", queue=True),
    ClientLibrary("bee-queue", "bq:*", queue=True),
    ClientLibrary("asynq", "asynq:*", queue=True),
    ClientLibrary("Resque", "resque:*", queue=True),
    ClientLibrary("Sidekiq", "queues", queue=True),
    ClientLibrary("Sidekiq", "processes", queue=True),
    ClientLibrary("Laravel queue", "laravel_database_queues:*", queue=True),
    ClientLibrary("Laravel queue", "queues:*", queue=True),
    ClientLibrary("connect-redis", "sess:*"),
)


_BEGINNINGS = tuple(each.keys.partition("*")[0].encode() for each in LIBRARIES)


def library_of(command: Command) -> ClientLibrary | None:
    """The library that all keys of a command belong to; None without one, or if the command has no known keys."""
    keys = command.known_keys
    if not keys or not keys[0].name.startswith(_BEGINNINGS):
        return None  # most commands: rules also prepare refusals that they may not need
    return next((each for each in LIBRARIES if all(key_glob_of(each.keys).fits(key.name) for key in keys)), None)


def names_queue(form: str) -> bool:
    """Whether a form of a command (``SADD asynq:queues``) is one that a job queue sends."""
    words = [word.lower().encode() for word in form.split()[1:]]
    return any(each.queue and key_glob_of(each.keys).fits(word) for each in LIBRARIES for word in words)


@dataclass(frozen=True, slots=True)
class Exemptions:
    """What a policy has for libraries, and the rules that they need exceptions from.

    `has_jobs`: the policy has the app `jobs`; `exempted` are the rules with exceptions for it. `possible` are the rules
    that are in force and not locked, `for_queues` and `for_names` those among them that such libraries need.
    """

    possible: frozenset[str] = frozenset()
    has_jobs: bool = False
    exempted: frozenset[str] = frozenset()
    for_queues: tuple[str, ...] = ()
    for_names: tuple[str, ...] = ()

    def hint(self, library: ClientLibrary, rule: str) -> str:
        """How to exempt a library that this rule refuses."""
        this = f"if this is {library.name}, "
        if not library.queue:
            rules = dict.fromkeys((rule, *(self.for_names if library.all_names else ())))
            lines = _exceptions(rules, f'keys: "{library.keys}"', library.name)
            return f"{this}this in the policy exempts it: {lines}"
        if self.has_jobs and rule in self.exempted:
            return f"{this}log in as the user {JOBS}: the policy exempts it"
        rules = dict.fromkeys(each for each in (rule, *self.for_queues) if each not in self.exempted)
        app = "" if self.has_jobs else f"apps: {{{JOBS}: {{match: {{user: {JOBS}}}}}}} and "
        lines = _exceptions(rules, f"app: {JOBS}", library.name)
        return f"{this}log in as the user {JOBS}, whom this in the policy exempts: {app}{lines}"


def _exceptions(rules: Iterable[str], whom: str, because: str) -> str:
    lines = ", ".join(f"{{rule: {rule}, {whom}, because: {because}}}" for rule in rules)
    return f"exceptions: [{lines}]"
