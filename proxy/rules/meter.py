"""Token buckets: what each subject of a limit has left.

A bucket holds at most ``burst`` tokens, fills at a steady rate, and a command takes tokens out of it. The hot path
takes them by itself while there are enough (``hotpath.allowance``) and never looks at a clock; a bucket is filled, by
the time that has passed, only when somebody asks it for what it does not have. A full bucket is as good as a new one,
so a subject that has been silent for long enough is forgotten without being forgiven anything. Only so many subjects
are kept; the others share one account.

Several workers share a limit by leases: each tells how much of the limit it could have used lately, the supervisor
deals out shares of the whole (``deal``), and a worker's buckets hold and gain only its share. A subject that no lease
is about, and every subject when leases stop coming, gets an equal part. So the sum is the limit, but for the time that
a lease takes, and for buckets so small that a part of one is less than one token.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proxy.hotpath.allowance import UNLIMITED, Allowance, Purse

_MOST_SUBJECTS = 10_000
_MOST_LEASED = 1_000
_OTHERS = "(others)"
_LEAST_WANT = 0.02
"""What a worker is thought to want at least, so that its first command of a subject finds a token."""
_NEGLIGIBLE = 0.001


@dataclass(frozen=True, slots=True)
class Rate:
    """`tokens` in every `seconds`, and at most `burst` at once."""

    tokens: int
    seconds: int
    burst: int


@dataclass(frozen=True, slots=True)
class Demand:
    """Of a subject, in one worker: the part of its limit that it could have used lately, and its clients."""

    want: float
    clients: int


@dataclass(frozen=True, slots=True)
class Lease:
    """Of a subject, for one worker: its share of the limit, and the subject's clients in the other workers."""

    share: float
    elsewhere: int


class Bucket(Allowance):
    """Tokens that come back with time; ``share`` is this worker's part of the rate. Time is in seconds."""

    def __init__(self, rate: Rate, share: float, now: float) -> None:
        super().__init__(0)
        self._rate = rate
        self._filled = now
        self._fraction = 0.0
        self._granted = 0
        self._spent_before = 0
        self._missed = 0
        self._want = 0.0
        self._share_out(share)
        self._grant(self._burst)

    def _share_out(self, share: float) -> None:
        self._burst = max(1, round(self._rate.burst * share))
        self._per_second = self._rate.tokens / self._rate.seconds * share

    def _grant(self, tokens: int) -> None:
        self.left += tokens
        self._granted += tokens

    def lease(self, share: float, now: float) -> None:
        """From now on fill up to, and at, this share of the rate."""
        self.fill(now)
        self._share_out(share)
        self._grant(min(0, self._burst - self.left))

    def fill(self, now: float) -> None:
        """Add what has come back. A clock that is set back gives nothing."""
        gained = max(0.0, now - self._filled) * self._per_second + self._fraction
        self._filled = now
        room = max(0, self._burst - self.left)
        tokens = min(room, math.floor(gained))
        self._fraction = 0.0 if tokens == room else gained - tokens
        self._grant(tokens)

    def wait(self, cost: int) -> float:
        """Seconds until `cost` tokens are there; for more than there can ever be, until the bucket is full."""
        missing = min(cost, self._burst) - self.left
        return 0.0 if missing <= 0 else (missing - self._fraction) / self._per_second

    def miss(self, cost: int) -> None:
        """Something was refused for want of tokens."""
        self._missed += cost

    def full(self, now: float) -> bool:
        """Whether there is nothing to remember."""
        self.fill(now)
        return self.left == self._burst

    def want(self, seconds: float) -> float:
        """The part of the whole rate that could have been used, `seconds` after it was asked last.

        It is smoothed over the time that the bucket takes to fill: one command a minute is a steady use.
        """
        spent = self._granted - self.left
        used = (spent - self._spent_before + self._missed) / (self._rate.tokens / self._rate.seconds * seconds)
        self._spent_before, self._missed = spent, 0
        memory = max(1.0, self._rate.burst * self._rate.seconds / self._rate.tokens)
        kept = math.exp(-seconds / memory)
        self._want = self._want * kept + used * (1.0 - kept)
        return self._want


class Account:
    """What one subject has left, and its clients. `bytes_` may be without a limit, and so may `commands`."""

    def __init__(self, commands: Rate | None, bytes_: Rate | None, share: float, now: float) -> None:
        self.commands = None if commands is None else Bucket(commands, share, now)
        self.bytes = None if bytes_ is None else Bucket(bytes_, share, now)
        self.purse = Purse(
            Allowance(UNLIMITED) if self.commands is None else self.commands,
            Allowance(UNLIMITED) if self.bytes is None else self.bytes,
        )
        self.clients = 0
        self.elsewhere = 0
        self._buckets = [bucket for bucket in (self.commands, self.bytes) if bucket is not None]

    def take(self, size: int, now: float) -> float:
        """Pay for a command of `size` bytes and return 0.0; or the seconds until it can be paid for."""
        wait = 0.0
        for bucket, cost in ((self.commands, 1), (self.bytes, size)):
            if bucket is not None and bucket.left < cost:
                bucket.fill(now)
                wait = max(wait, bucket.wait(cost))
        if wait > 0.0:
            for bucket, cost in ((self.commands, 1), (self.bytes, size)):
                if bucket is not None:
                    bucket.miss(cost)
            return wait
        self.purse.spend(size)
        return 0.0

    def lease(self, lease: Lease, now: float) -> None:
        """Take over a share of the limit."""
        self.elsewhere = lease.elsewhere
        for bucket in self._buckets:
            bucket.lease(lease.share, now)

    def idle(self, now: float) -> bool:
        """Whether forgetting it changes nothing."""
        return self.clients == 0 and all(bucket.full(now) for bucket in self._buckets)

    def demand(self, seconds: float) -> Demand:
        """What it could have used in the last `seconds`, and its clients."""
        return Demand(max((bucket.want(seconds) for bucket in self._buckets), default=0.0), self.clients)


class Meter:
    """The accounts of one limit, by subject, in one of `workers` workers."""

    def __init__(
        self, commands: Rate | None, bytes_: Rate | None, workers: int = 1, most_subjects: int = _MOST_SUBJECTS
    ) -> None:
        self._rates = commands, bytes_
        self._equal = 1.0 / workers
        self._most_subjects = most_subjects
        self._accounts: dict[str, Account] = {}
        self._swept = -math.inf
        self._leased: set[str] = set()

    def account(self, subject: str, now: float) -> Account:
        """The account of a subject; it exists from the first look at it."""
        account = self._accounts.get(subject)
        if account is None:
            if len(self._accounts) >= self._most_subjects and now - self._swept >= 1.0:
                self._sweep(now)
            if len(self._accounts) >= self._most_subjects and subject != _OTHERS:
                return self.account(_OTHERS, now)
            account = self._accounts[subject] = Account(*self._rates, self._equal, now)
        return account

    def _sweep(self, now: float) -> None:
        self._swept = now
        self._accounts = {subject: account for subject, account in self._accounts.items() if not account.idle(now)}

    def __len__(self) -> int:
        return len(self._accounts)

    def demand(self, seconds: float) -> dict[str, Demand]:
        """What the subjects have wanted in the last `seconds`, those that want most first, up to a thousand."""
        found = {subject: account.demand(seconds) for subject, account in self._accounts.items()}
        busy = [(each.want, each.clients, subject) for subject, each in found.items() if _matters(each)]
        return {subject: found[subject] for *_, subject in sorted(busy, reverse=True)[:_MOST_LEASED]}

    def lease(self, leases: Mapping[str, Lease], now: float) -> None:
        """Take over what the supervisor has dealt out; a subject that it does not mention gets an equal part."""
        for subject in self._leased - leases.keys():
            self._lease(subject, Lease(self._equal, 0), now)
        for subject, lease in leases.items():
            self._lease(subject, lease, now)
        self._leased = set(leases)

    def _lease(self, subject: str, lease: Lease, now: float) -> None:
        account = self._accounts.get(subject)
        if account is not None:
            account.lease(lease, now)


def _matters(demand: Demand) -> bool:
    return demand.want > _NEGLIGIBLE or demand.clients > 0


def deal(demands: Sequence[Demand], worker: int) -> Lease:
    """What one worker gets of a subject's limit, when each of the workers wants so much of it.

    While they want less than there is, each gets what it wants and an equal part of the rest; else in proportion.
    """
    wants = [max(_LEAST_WANT, demand.want) for demand in demands]
    total = sum(wants)
    share = wants[worker] / total if total > 1.0 else wants[worker] + (1.0 - total) / len(wants)
    return Lease(share, sum(demand.clients for demand in demands) - demands[worker].clients)
