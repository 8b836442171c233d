"""Remedies: limits on one key for one app, a local cache for one key, or limits on a client, an app or a command, that
an operator adds at run time, and that end by themselves.

Each is a rule, ``remedy-1``, enforced beside the rules of the policy's files: in all workers or in none, as the next
generation. So it is counted, logged and explained like any other rule, the kill switch pauses it, and a reload of the
files keeps it. With a state file it survives a restart; that file has the key in plain text.
"""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from proxy.policy.model import Mode, Policy, PolicyRule, Stage
from proxy.policy.sections.rules import REMEDY
from proxy.policy.tenants import StoredNames
from proxy.policy_yaml.errors import Where
from proxy.rules.guardrails import KEY_CACHE, KEY_CAP, TRAFFIC_REMEDY
from proxy.rules.rates import Rate
from proxy.rules.rule import Wording
from proxy.server.kill_switch import MOST_SECONDS
from proxy.server.notices import Level, notice
from proxy.server.reload import Reloader
from proxy.server.state_file import StateFile
from proxy.server.workers import Workers
from proxy.traffic.advice import InForce
from proxy.traffic.client_ids import ClientName, id_of
from proxy.traffic.figures import clock
from proxy.traffic.key_text import named, shown
from proxy.traffic.labels import moment
from proxy.traffic.redaction import Redaction

MOST_STANDING = 20
_DONE = {"cap": "capped", "refuse": "refused", "close": "closed"}
_PART = "remedies"
_AGAIN_SECONDS = 5.0


class RemedyError(Exception):
    """A remedy cannot be put in force or undone; nothing has changed. The text is one line."""


class Target(NamedTuple):
    """What a remedy without a key is about: all commands, or one, of all clients, or of one; `closes` if the clients
    are closed, too."""

    client: ClientName | None = None
    command: str = ""
    closes: bool = False


ANY = Target()


@dataclass(frozen=True, slots=True)
class Remedy:
    """A limit on one key, by its name in Redis, or without a `rate` a local cache for it; an empty `app` stands for all
    clients. Times are in seconds since the epoch.

    Without a `key` it is about commands: all, or one `command`, of all clients, of an `app` or of one `client`. Without
    a `rate` they are refused; if it `closes`, the client is closed, too."""

    number: int
    route: str
    key: bytes
    app: str
    rate: Rate | None
    since: float
    until: float
    because: str
    target: Target = ANY

    @property
    def action(self) -> Literal["cap", "cache", "refuse", "close"]:
        """What it does."""
        if self.rate is not None:
            return "cap"
        if self.key:
            return "cache"
        return "close" if self.target.closes else "refuse"

    @property
    def about(self) -> str:
        """The commands that it is about, if it is not about a key."""
        client = self.target.client
        whose = f" of client {id_of(client)}" if client is not None else ""
        whose += f" of app {self.app}" if self.app else ""
        return f"{self.target.command or 'all commands'}{whose}"

    def in_force(self) -> InForce:
        """What incidents say of it."""
        whom = f" for app {self.app}" if self.app and self.key else ""
        limit = "" if self.rate is None else f" at {self.rate}"
        about = "it" if self.key else self.about
        does = {"cap": "caps", "refuse": "refuses", "close": "closes", "cache": "answers from memory reads of"}
        text = f"{self.name} {does[self.action]} {about}{limit}{whom} until {clock(self.until)}"
        return InForce(text, self.key, self.action == "cache", self.app, self.target.client, self.target.command)

    @property
    def name(self) -> str:
        """The name of its rule."""
        return f"{REMEDY}{self.number}"

    def rule(self, names: StoredNames) -> PolicyRule:
        """The remedy as a rule of a policy with these tenants' `names`."""
        where = Where(f"keyrail {self.name.replace('-', ' ')}")
        if not self.key:
            done = f"has {_DONE[self.action]} {self.about}"
            settings = TRAFFIC_REMEDY(self.target.client, self.target.command, self.rate, self.target.closes)
        elif self.rate is None:
            done, settings = "has reads of this key answered from memory", KEY_CACHE(names.one_key(self.key))
        else:
            done, settings = "has capped this key", KEY_CAP(names.one_key(self.key), self.rate, bool(self.app))
        words = f"an operator {done} until {moment(self.until)} ({self.because})"
        return PolicyRule(self.name, settings, Stage(Mode.ENFORCE, where), Wording(because=words), where, app=self.app)


class StandingRemedies:
    """The remedies in force (``all``, the oldest first), the ``next`` one's number, and the file that keeps both."""

    def __init__(self, routes: Sequence[str], state: StateFile) -> None:
        """Continue the remedies of the last process. Raises StateError."""
        self.routes = tuple(routes)
        self._state = state
        self.next, found = _read(state)
        self.all = tuple(each for each in found if each.until > time.time() and each.route in self.routes)

    @property
    def survive(self) -> bool:
        """Whether they survive a restart."""
        return self._state.kept

    def join(self, policies: tuple[Policy, ...]) -> tuple[Policy, ...]:
        """Return the routes' policies with the remedies among their rules, whose keys are named as their clients name
        them."""
        return tuple(self._joined(route, policy) for route, policy in zip(self.routes, policies, strict=True))

    def _joined(self, route: str, policy: Policy) -> Policy:
        names = StoredNames(policy.tenants)
        return replace(policy, rules=(*policy.rules, *(each.rule(names) for each in self.all if each.route == route)))

    async def write(self) -> None:
        """Write them to the file. Raises OSError."""
        standing = [
            {
                "number": each.number,
                "route": each.route,
                "key": shown(each.key),
                "app": each.app,
                "rate": None if each.rate is None else [each.rate.tokens, each.rate.seconds],
                "since": each.since,
                "until": each.until,
                "because": each.because,
                "target": each.target,
            }
            for each in self.all
        ]
        try:
            await self._state.put(_PART, {"next": self.next, "standing": standing})
        except OSError as error:
            notice(f"remedies will not survive a restart: cannot write {self._state}: {error.strerror}", Level.ERROR)
            raise


class Remedies:
    """Puts remedies in force and ends them; the workers start with the ``standing`` ones."""

    def __init__(self, workers: Workers, reloader: Reloader, standing: StandingRemedies) -> None:
        self._workers = workers
        self._reloader = reloader
        self._standing = standing
        self._lock = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None
        for remedy in self.standing:
            notice(f"{self.sentence(remedy)}: still in force")
        self._arm()

    @property
    def standing(self) -> tuple[Remedy, ...]:
        """The remedies in force, the oldest first."""
        return self._standing.all

    @property
    def survive(self) -> bool:
        """Whether they survive a restart."""
        return self._standing.survive

    def sentence(self, remedy: Remedy) -> str:
        """Return a remedy as a sentence."""
        key = self._names(remedy).in_words(remedy.key) if remedy.key else ""
        limit = "" if remedy.rate is None else f" at {remedy.rate.tokens} commands in {remedy.rate.seconds} s"
        if not key:
            what = f"{remedy.about} {_DONE[remedy.action]}{limit}"
        else:
            what = f"reads of {key} answered from memory" if remedy.rate is None else f"{key} capped{limit}"
            what += f" for app {remedy.app}" if remedy.app else " for all"
        return f"{remedy.name}: {what} until {moment(remedy.until)} ({remedy.because})"

    def _names(self, remedy: Remedy) -> Redaction:
        return self._workers.redaction(self._standing.routes.index(remedy.route))

    async def add(
        self,
        route: str,
        key: bytes,
        app: str,
        rate: Rate | None,
        seconds: float,
        because: str,
        target: Target = ANY,
    ) -> Remedy:
        """Put a remedy in force in every worker. Raises RemedyError, and OSError as ``KillSwitch`` does."""
        async with self._lock:
            if len(self.standing) >= MOST_STANDING:
                raise RemedyError(f"too many remedies: the limit is {MOST_STANDING}; undo one first")
            now = time.time()
            until = now + min(seconds, MOST_SECONDS)
            number = self._standing.next
            remedy = Remedy(number, route, key, app, rate, now, until, because, target)
            await self._change((*self.standing, remedy))
            self._standing.next += 1
            notice(self.sentence(remedy))
            await self._standing.write()
            return remedy

    async def undo(self, number: int) -> bool:
        """End a remedy in every worker; False if there is none. Raises RemedyError and OSError."""
        async with self._lock:
            ended = next((each for each in self.standing if each.number == number), None)
            if ended is None:
                return False
            await self._change(tuple(each for each in self.standing if each is not ended))
            notice(f"{ended.name} is undone ({ended.because})")
            await self._standing.write()
            return True

    async def _change(self, standing: tuple[Remedy, ...]) -> None:
        """Put these remedies in force and end all others."""
        before, self._standing.all = self.standing, standing
        problem = await self._reloader.renew()
        if problem is not None:
            self._standing.all = before
            raise RemedyError(problem)
        self._arm()

    def close(self) -> None:
        """Cancel the timer."""
        for waiting in (self._timer, self._ending):
            if waiting is not None:
                waiting.cancel()

    def _arm(self, least: float = 0.0) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.standing:
            left = max(least, min(each.until for each in self.standing) - time.time())
            self._timer = asyncio.get_running_loop().call_later(left, self._expire)

    def _expire(self) -> None:
        self._ending = asyncio.get_running_loop().create_task(self._end())

    async def _end(self) -> None:
        """End the remedies that are over; if a worker does not confirm, try again."""
        async with self._lock:
            now = time.time()
            over = tuple(each for each in self.standing if each.until <= now)
            try:
                if over:
                    await self._change(tuple(each for each in self.standing if each not in over))
            except RemedyError as error:
                notice(f"cannot end {over[0].name}, trying again: {error}", Level.ERROR)
                self._arm(_AGAIN_SECONDS)
                return
            for remedy in over:
                notice(f"{remedy.name} is over ({remedy.because})")
            self._arm()
            with contextlib.suppress(OSError):
                await self._standing.write()


def _read(state: StateFile) -> tuple[int, list[Remedy]]:
    """The next number, and the remedies that were in force. Raises StateError."""
    found: Any = state.part(_PART)
    if found is None:
        return 1, []
    try:
        return int(found["next"]), [_remedy(each) for each in found["standing"]]
    except (ValueError, KeyError, TypeError):
        raise state.broken() from None


def _remedy(told: dict[str, Any]) -> Remedy:
    rate = None
    if told["rate"] is not None:
        tokens, seconds = map(int, told["rate"])
        rate = Rate(tokens, seconds, tokens)
    return Remedy(
        number=int(told["number"]),
        route=str(told["route"]),
        key=named(told["key"]),
        app=str(told["app"]),
        rate=rate,
        since=float(told["since"]),
        until=float(told["until"]),
        because=str(told["because"]),
        target=_target(*told.get("target", ())),
    )


def _target(client: list[Any] | None = None, command: str = "", closes: bool = False) -> Target:
    if client is None:
        return Target(None, str(command), bool(closes))
    user, name, host = map(str, client)
    return Target((user, name, host), str(command), bool(closes))
