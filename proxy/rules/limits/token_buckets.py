"""Token buckets of the subjects of a limit.

A bucket holds at most ``burst`` tokens and fills at a steady rate; a command takes tokens out of it. The hot path takes
tokens while there are enough (``hotpath.plan.leased_tokens``) and never reads a clock. A bucket is filled, by the time
that has passed, only when it has too few tokens. A full bucket is the same as a new one, so an idle subject can be
forgotten. The number of subjects is bounded; all others share one account.

The commands in flight are not counted one by one: a client knows how many of its replies are pending. Places are given
out until none is left; only then are the pending replies of the subject's clients added up to find free places. There
are never more commands in flight than the limit.

Several workers share a limit by leases: each reports how much of the limit it could have used, the supervisor returns
shares of the whole (``rules.shared_state``), and a worker's buckets hold and gain only its share. A subject without a
lease gets an equal part, as does every subject if leases stop. So the sum is the limit, except for the delay of a
lease, and for buckets with a part of less than one token.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from proxy.hotpath.plan.leased_tokens import UNLIMITED, LeasedTokens, TokenSet
from proxy.hotpath.upstream.in_flight import ReplySink
from proxy.rules.limit_membership import Presence
from proxy.rules.rates import Rate
from proxy.rules.shared_state import Demand, DividedState, Lease

_MOST_SUBJECTS = 10_000
_MOST_LEASED = 1_000
_OTHERS = "(others)"
_NEGLIGIBLE = 0.001
_RECOUNT = 0.001
"""Seconds for which a result "no place is free" is reused."""
_PLACE_WAIT = 0.01
"""Seconds after which a client without a place may retry: some commands take that long."""
_UNLIMITED = LeasedTokens(UNLIMITED)


@dataclass(frozen=True, slots=True)
class Quota:
    """The quota of each subject of a limit; None is no limit. `concurrency` is the most commands in flight."""

    commands: Rate | None = None
    volume: Rate | None = None
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class Shortage:
    """The kind of token that a command lacks, and for about how many seconds."""

    of: Literal["commands", "bytes", "places"]
    seconds: float


_NOTHING = Demand(0.0, 0)


class TokenBucket(LeasedTokens):
    """Tokens that are refilled over time; ``share`` is this worker's part of the rate. Time is in seconds."""

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
        """Set this worker's share of the rate and of the burst."""
        self.fill(now)
        self._share_out(share)
        self._grant(min(0, self._burst - self.left))

    def fill(self, now: float) -> None:
        """Add the tokens since the last call. A clock that is set back adds none."""
        gained = max(0.0, now - self._filled) * self._per_second + self._fraction
        self._filled = now
        room = max(0, self._burst - self.left)
        tokens = min(room, math.floor(gained))
        self._fraction = 0.0 if tokens == room else gained - tokens
        self._grant(tokens)

    def wait(self, cost: int) -> float:
        """Seconds until there are `cost` tokens; for more than the bucket holds, until it is full."""
        missing = min(cost, self._burst) - self.left
        return 0.0 if missing <= 0 else (missing - self._fraction) / self._per_second

    def miss(self, cost: int) -> None:
        """Note that a command was refused for lack of tokens."""
        self._missed += cost

    def full(self, now: float) -> bool:
        """Whether the bucket is full, so that it can be forgotten."""
        self.fill(now)
        return self.left == self._burst

    def want(self, seconds: float) -> float:
        """The part of the whole rate that could have been used in the `seconds` since the last call.

        It is smoothed over the time that the bucket takes to fill: one command a minute is a steady use.
        """
        spent = self._granted - self.left
        if spent == self._spent_before and self._missed == 0 and self._want <= _NEGLIGIBLE:
            return 0.0
        used = (spent - self._spent_before + self._missed) / (self._rate.tokens / self._rate.seconds * seconds)
        self._spent_before, self._missed = spent, 0
        memory = max(1.0, self._rate.burst * self._rate.seconds / self._rate.tokens)
        kept = math.exp(-seconds / memory)
        self._want = self._want * kept + used * (1.0 - kept)
        return self._want


class Advance:
    """The payment for the `bytes` of one command while it is still arriving."""

    __slots__ = ("_bucket", "_on_credit", "bytes")

    def __init__(self, bucket: TokenBucket) -> None:
        self._bucket = bucket
        self._on_credit = False
        self.bytes = 0

    def pay(self, total: int, now: float) -> Shortage | None:
        """Pay for the first `total` bytes, or return the shortage.

        A bucket that is full when the command begins pays for any size, as for a command that has arrived whole.
        """
        bucket, cost = self._bucket, total - self.bytes
        if self.bytes == 0:
            self._on_credit = bucket.full(now)
        if bucket.left < cost and not self._on_credit:
            bucket.fill(now)
            wait = bucket.wait(cost)
            if wait > 0.0:
                bucket.miss(cost)
                return Shortage("bytes", wait)
        bucket.left -= cost
        self.bytes = total
        return None


class Places(LeasedTokens):
    """The commands of all members together that may be in flight at once."""

    def __init__(self, most: int, share: float) -> None:
        super().__init__(0)
        self._whole = most
        self._full = -math.inf
        self._missed = 0
        self.lease(share)

    def lease(self, share: float) -> None:
        """Set this worker's share of the places; free places are counted when a command needs one."""
        self._most = max(1, round(self._whole * share))
        self.left = 0

    def free(self, members: Collection[ReplySink], now: float) -> bool:
        """Whether there is a place. Shortly after a "no" the answer is "no" again: counting takes longer than
        refusing."""
        if self.left <= 0 and not 0.0 <= now - self._full < _RECOUNT:
            self.left = self._most - sum(member.pending_replies for member in members)
            if self.left <= 0:
                self._full = now
        self._missed += self.left <= 0
        return self.left > 0

    def want(self, members: Collection[ReplySink]) -> float:
        """The part of all places that is in use, or could have been since the last call."""
        wanted = self._missed + sum(member.pending_replies for member in members)
        self._missed = 0
        return wanted / self._whole


class Account:
    """The tokens of one subject, and its `members`, the clients that count: at most `connections` in all workers.

    `presence` is the membership of each; it `lasts` until the subject has another account.
    """

    def __init__(
        self, quota: Quota, share: float, now: float, *, connections: int | None = None, lasts: bool = True
    ) -> None:
        self.members: set[ReplySink] = set()
        self._connections = connections
        self._commands = None if quota.commands is None else TokenBucket(quota.commands, share, now)
        self._volume = None if quota.volume is None else TokenBucket(quota.volume, share, now)
        self._places = None if quota.concurrency is None else Places(quota.concurrency, share)
        self.token_set = TokenSet(self._commands or _UNLIMITED, self._volume or _UNLIMITED, self._places or _UNLIMITED)
        self.presence = Presence(self.token_set, self.members, lasts=lasts)
        self._reserve(0)
        self._buckets = [bucket for bucket in (self._commands, self._volume) if bucket is not None]

    def _reserve(self, elsewhere: int) -> None:
        self.elsewhere = elsewhere
        if self._connections is not None:
            self.presence.most = self._connections - elsewhere

    @property
    def clients(self) -> int:
        """How many clients count here."""
        return len(self.members)

    def advance(self) -> Advance | None:
        """The payment for the bytes of a command that is still arriving; None if bytes are not limited."""
        return None if self._volume is None else Advance(self._volume)

    def take(self, size: int, now: float, paid: int = 0) -> Shortage | None:
        """Pay for a command of `size` bytes, or return the shortage. If bytes are already `paid`, the rest passes,
        too."""
        shortage: Shortage | None = None
        size = max(0, size - paid)
        for bucket, of, cost in self._costs(size):
            if bucket.left < cost and not (paid and of == "bytes"):
                bucket.fill(now)
                wait = bucket.wait(cost)
                if wait > (0.0 if shortage is None else shortage.seconds):
                    shortage = Shortage(of, wait)
        if shortage is None and self._places is not None and not self._places.free(self.members, now):
            return Shortage("places", _PLACE_WAIT)
        if shortage is None:
            self.token_set.spend(1, size)
        else:
            for bucket, _, cost in self._costs(size):
                bucket.miss(cost)
        return shortage

    def _costs(self, size: int) -> Iterator[tuple[TokenBucket, Literal["commands", "bytes"], int]]:
        if self._commands is not None:
            yield self._commands, "commands", 1
        if self._volume is not None:
            yield self._volume, "bytes", size

    def lease(self, lease: Lease, now: float) -> None:
        """Take over a share of the limit."""
        self._reserve(lease.elsewhere)
        for bucket in self._buckets:
            bucket.lease(lease.share, now)
        if self._places is not None:
            self._places.lease(lease.share)

    def idle(self, now: float) -> bool:
        """Whether it can be forgotten."""
        return not self.members and all(bucket.full(now) for bucket in self._buckets)

    def demand(self, seconds: float, counts_clients: bool) -> Demand:
        """The demand of the last `seconds`, and its clients if they count."""
        wanted = 0.0 if self._places is None else self._places.want(self.members)
        for bucket in self._buckets:
            wanted = max(wanted, bucket.want(seconds))
        clients = self.clients if counts_clients else 0
        return Demand(wanted, clients) if wanted > _NEGLIGIBLE or clients else _NOTHING


class TokenBuckets(DividedState):
    """The accounts of one limit, by subject, in one of `workers` workers.

    With a limit of `connections`, each worker needs the number of clients in the other workers.
    """

    def __init__(
        self,
        quota: Quota,
        workers: int = 1,
        *,
        connections: int | None = None,
        most_subjects: int = _MOST_SUBJECTS,
    ) -> None:
        self.counts_clients = connections is not None
        self._connections = connections
        self._quota = quota
        self._equal = 1.0 / workers
        self._most_subjects = most_subjects
        self._accounts: dict[str, Account] = {}
        self._swept = -math.inf
        self._leased: set[str] = set()

    def account(self, subject: str, now: float) -> Account:
        """The account of a subject; it is made if there is none."""
        account = self._accounts.get(subject)
        if account is None:
            if len(self._accounts) >= self._most_subjects and now - self._swept >= 1.0:
                self._sweep(now)
            if len(self._accounts) >= self._most_subjects and subject != _OTHERS:
                return self.account(_OTHERS, now)
            account = self._accounts[subject] = Account(
                self._quota, self._equal, now, connections=self._connections, lasts=subject != _OTHERS
            )
        return account

    def _sweep(self, now: float) -> None:
        self._swept = now
        for subject, account in list(self._accounts.items()):
            if account.idle(now):
                account.presence.lasts = False
                del self._accounts[subject]

    def __len__(self) -> int:
        return len(self._accounts)

    def demand(self, seconds: float) -> dict[str, Demand]:
        """The demand of the subjects in the last `seconds`, the largest first, for at most a thousand."""
        counts = self.counts_clients
        found = {subject: account.demand(seconds, counts) for subject, account in self._accounts.items()}
        busy = [(each.want, each.clients, subject) for subject, each in found.items() if each is not _NOTHING]
        return {subject: found[subject] for *_, subject in sorted(busy, reverse=True)[:_MOST_LEASED]}

    def lease(self, leases: Mapping[str, Lease], now: float) -> None:
        """Take over the supervisor's shares; a subject without a share gets an equal part."""
        for subject in self._leased - leases.keys():
            self._lease(subject, Lease(self._equal, 0), now)
        for subject, lease in leases.items():
            if lease.elsewhere > 0:
                self.account(subject, now)
            self._lease(subject, lease, now)
        self._leased = set(leases)

    def _lease(self, subject: str, lease: Lease, now: float) -> None:
        account = self._accounts.get(subject)
        if account is not None:
            account.lease(lease, now)
