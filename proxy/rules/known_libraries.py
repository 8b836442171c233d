"""Libraries that are recognised by their keys: readers of a refusal often did not write the command themselves.

The library name of a client (``CLIENT SETINFO``) is that of the driver, such as redis-py, not of the library above it.
"""

from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.schema.globs import key_glob_of


@dataclass(frozen=True, slots=True)
class ClientLibrary:
    """A library, and a pattern (with ``*``) of its keys by default."""

    name: str
    keys: str


LIBRARIES = (
    ClientLibrary("Flask-Limiter", "LIMITS:*"),
    ClientLibrary("python-redis-lock", "lock:*"),
    ClientLibrary("python-redis-lock", "lock-signal:*"),
    ClientLibrary("RQ", "rq:*"),
    ClientLibrary("Celery", "celery*"),
    ClientLibrary("Celery", "_kombu.*"),
    ClientLibrary("Celery", "unacked*"),
    ClientLibrary("Dramatiq", "dramatiq:*"),
    ClientLibrary("arq", "arq:*"),
    ClientLibrary("huey", "huey.*"),
    ClientLibrary("Django's cache", ":1:*"),
    ClientLibrary("Flask-Caching", "flask_cache_*"),
    ClientLibrary("Flask-Session", "session:*"),
    ClientLibrary("BullMQ", "bull:*"),
    ClientLibrary("bee-queue", "bq:*"),
    ClientLibrary("connect-redis", "sess:*"),
)


def library_of(command: Command) -> ClientLibrary | None:
    """The library that all keys of a command belong to; None without one, or if the command has no known keys."""
    keys = command.known_keys
    if not keys:
        return None
    return next((each for each in LIBRARIES if all(key_glob_of(each.keys).fits(key.name) for key in keys)), None)
