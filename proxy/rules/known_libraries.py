"""Libraries that are known by the keys that they use: whoever reads a refusal may never have written the command.

The name that a client gives (``CLIENT SETINFO``) is that of the driver, redis-py or ioredis, not what is built on it.
"""

from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.schema.globs import key_glob_of


@dataclass(frozen=True, slots=True)
class ClientLibrary:
    """A library, and one pattern (with ``*``) of the keys that it uses where nobody configures others."""

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
    """The library whose keys all keys of a command are; None if there is none, or the keys are none or unknown."""
    keys = command.known_keys
    if not keys:
        return None
    return next((each for each in LIBRARIES if all(key_glob_of(each.keys).fits(key.name) for key in keys)), None)
