"""The five questions of `keyrail init`. Each is answered by an option, or on a terminal."""

import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from proxy.net.config.address import UpstreamAddress, parse_upstream
from proxy.net.config.strict_url import redacted
from proxy.policy.apps import UNKNOWN
from proxy.policy.sections.rollout import DEFAULT
from proxy.schema.globs import LONGEST

_TEAM = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,38}[a-z0-9])?")
"""A segment of keys, and the beginning of names in the schema."""
_APP = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?")
_WORD = "lower-case letters, digits, - and _"
_CONDITIONS = ("user", "client_name", "listener", "certificate")
_RESERVED = (UNKNOWN, DEFAULT)
"""Names that no app can have."""
NOBODY = "none"
"""The answer for no teams and no apps."""


class Purpose(Enum):
    """What a Redis is for."""

    CACHE = "cache"
    STORE = "store"


class Upstream(NamedTuple):
    """A Redis, and its URL as it was given: it may have a password."""

    address: UpstreamAddress
    url: str

    @property
    def shown(self) -> str:
        """The URL without its password, in one line."""
        return redacted(self.url)


class App(NamedTuple):
    """An application, and the condition of the policy's `match` that recognises its clients."""

    name: str
    condition: str
    pattern: str

    @property
    def proven(self) -> bool:
        """Whether only its own clients can match: any client can set a client name."""
        return self.condition != "client_name"

    @property
    def match(self) -> str:
        """Its `match`, as YAML: JSON's quotes and escapes are those of YAML."""
        return f"{{{self.condition}: {json.dumps(self.pattern, ensure_ascii=False)}}}"


@dataclass(frozen=True, slots=True)
class Answers:
    """All answers, read."""

    redis: Upstream
    purpose: Purpose
    teams: tuple[str, ...]
    immortal: bool
    apps: tuple[App, ...]

    def team_of(self, app: App) -> str | None:
        """The team of an app, by its name: checkout and checkout-worker are of the team checkout."""
        teams = [team for team in self.teams if app.name == team or app.name.startswith((f"{team}-", f"{team}_"))]
        return max(teams, key=len, default=None)


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the reader of its answer, which raises ValueError with what was expected and given."""

    option: str
    text: str
    default: str
    metavar: str
    read: Callable[[str], object]

    @property
    def name(self) -> str:
        """The name of its answer among the options."""
        return self.option.removeprefix("--")


def read_redis(text: str) -> Upstream:
    """Read the URL of a Redis."""
    return Upstream(parse_upstream(text), text)


def read_purpose(text: str) -> Purpose:
    """Read cache or store."""
    try:
        return Purpose(text)
    except ValueError:
        raise ValueError(f"expected cache or store, got {text!r}") from None


def read_forever(text: str) -> bool:
    """Read yes or no."""
    if text not in ("yes", "no"):
        raise ValueError(f"expected yes or no, got {text!r}")
    return text == "yes"


def read_teams(text: str) -> tuple[str, ...]:
    """Read the prefixes of teams, such as checkout,search; a colon behind a prefix may be left out."""
    expected = f"expected prefixes of {_WORD}, at most 40, such as checkout,search, or {NOBODY}"
    teams = [part.strip().removesuffix(":") for part in _parts(text)]
    for team in teams:
        if not _TEAM.fullmatch(team):
            raise ValueError(f"{expected}; got {team!r}")
    _refuse_twice(teams)
    return tuple(teams)


def read_apps(text: str) -> tuple[App, ...]:
    """Read apps and how their clients are recognised, such as checkout=user:checkout,reports=client_name:spark-*."""
    apps = [_read_app(part.strip()) for part in _parts(text)]
    _refuse_twice([app.name for app in apps])
    _refuse_twice([f"{app.condition}:{app.pattern}" for app in apps])
    return tuple(apps)


def _read_app(text: str) -> App:
    name, is_given, match = text.partition("=")
    condition, _, pattern = match.partition(":")
    if not is_given or condition not in _CONDITIONS:
        expected = f"expected NAME=CONDITION:PATTERN, such as checkout=user:checkout, or {NOBODY}"
        raise ValueError(f"{expected}, with a condition of {', '.join(_CONDITIONS)}; got {text!r}")
    if not _APP.fullmatch(name) or name in _RESERVED:
        raise ValueError(
            f"expected an app's name of {_WORD}, at most 64, and not {' or '.join(_RESERVED)}; got {name!r}"
        )
    if not pattern.isprintable() or not 0 < len(pattern) <= LONGEST:
        expected = f"expected a pattern of {condition}, one line of at most {LONGEST} characters"
        raise ValueError(f"{expected}, in which * stands for any characters; got {pattern!r}")
    return App(name, condition, pattern)


def _parts(text: str) -> list[str]:
    return [] if text.strip() == NOBODY else text.split(",")


def _refuse_twice(names: Collection[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{name!r} is there twice")
        seen.add(name)


REDIS = Question("--redis", "Which Redis? Its URL", "redis://127.0.0.1:6379", "URL", read_redis)
FOR = Question("--for", "What is it for: a cache, or a store of data?", "cache", "cache|store", read_purpose)
TEAMS = Question(
    "--teams",
    "With which prefixes do the keys of the teams begin, such as checkout,search?",
    NOBODY,
    "PREFIX,…",
    read_teams,
)
FOREVER = Question("--forever", "May keys live for ever, without a TTL?", "no", "yes|no", read_forever)
APPS = Question(
    "--apps",
    "Who are the apps, and what identifies their clients, such as checkout=user:checkout,reports=client_name:spark-*?",
    NOBODY,
    "NAME=CONDITION:PATTERN,…",
    read_apps,
)
QUESTIONS = (REDIS, FOR, TEAMS, FOREVER, APPS)
