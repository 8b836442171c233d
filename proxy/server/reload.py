"""The policies in force, and their reload: in every worker, or in none.

The supervisor reads the files and sends the policies to the workers, so that all workers have the same policies even if
the files change meanwhile. A reload has two steps: every worker gets ready (prepare), then every worker changes
(commit). After any error the old policies stay in force. Each set of policies has a generation number, counted from 1,
that metrics show. A reload ends when every worker has confirmed: the new policies judge all later commands.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from proxy.net.config.background_thread import BackgroundThread
from proxy.net.config.settings import PolicyKind, PolicySource, PolicyTests, RouteSettings
from proxy.policy.load import load_policy
from proxy.policy.model import TRANSPARENT, Policy
from proxy.policy_yaml.errors import PolicyError, Problem, Where
from proxy.policy_yaml.shipped import packaged
from proxy.rules.rule import DictionaryUse
from proxy.schema.globs import lies_within
from proxy.server.notices import Level, notice
from proxy.server.policy_tests import failing
from proxy.server.replica_options import reading_from, zone_warnings
from proxy.server.workers import Workers


def read_policies(routes: Sequence[RouteSettings], zone: str | None = None) -> tuple[Policy, ...]:
    """Read every route's policy, and log the parts without effect; `zone` is the one that Keyrail is in.

    Raises PolicyError with the problems of all policies.
    """
    policies: dict[PolicySource, Policy] = {}
    problems: list[Problem] = []
    for source in dict.fromkeys(route.policy for route in routes):
        try:
            policies[source] = _read(source)
        except PolicyError as error:
            problems.extend(error.problems)
    if problems:
        raise PolicyError(problems)
    for policy in policies.values():
        for warning in policy.warnings:
            notice(warning, Level.WARNING)
    for warning in zone_warnings(policies.values(), zone):
        notice(warning, Level.WARNING)
    return tuple(reading_from(policies[route.policy], route.read_from) for route in routes)


def _read(source: PolicySource) -> Policy:
    if source.kind is PolicyKind.NONE:
        return TRANSPARENT
    if source.path is not None:
        return load_policy(source.path)
    try:
        file = packaged(source.name)
    except FileNotFoundError:
        # While Keyrail is being reinstalled, its own files are missing.
        where = Where(f"packaged/{source.name}.yaml")
        raise PolicyError([Problem(where, "", "nothing", "a policy that comes with Keyrail")]) from None
    return load_policy(file)


def _warn(lines: Sequence[str]) -> None:
    for line in lines:
        notice(line, Level.WARNING)


def _is_kept(use: DictionaryUse, known: Iterable[DictionaryUse]) -> bool:
    # Whether values of all its keys can be read with it still.
    return any(each.name == use.name and lies_within(use.keys, each.keys) for each in known)


class Reloader:
    """Reloads the policies, one reload at a time.

    ``zone`` is the one that Keyrail is in. ``read`` has the policies from the start; ``join`` adds the remedies to the
    policies of the files. ``tests`` says what happens if the policies' own tests fail.
    """

    def __init__(
        self,
        routes: Sequence[RouteSettings],
        zone: str | None,
        workers: Workers,
        read: tuple[Policy, ...],
        join: Callable[[tuple[Policy, ...]], tuple[Policy, ...]],
        tests: PolicyTests = PolicyTests.OFF,
    ) -> None:
        self.failures = 0
        self.reader = BackgroundThread("reads policies")
        self._routes = routes
        self._zone = zone
        self._workers = workers
        self._lock = asyncio.Lock()
        self._problems: tuple[Problem, ...] = ()
        self._read = read
        self._join = join
        self._tests = tests
        self._refused: tuple[Policy, ...] = ()
        self._failed: tuple[str, ...] = ()

    @property
    def files(self) -> frozenset[str]:
        """The files of the policies in force, and the files that had errors or failed tests at the last reload."""
        wrong = frozenset(problem.where.file for problem in self._problems)
        return wrong.union(*(policy.files for policy in (*self._workers.policies, *self._refused)))

    async def test_at_start(self) -> None:
        """Log the tests that fail of the policies in force."""
        if self._tests is PolicyTests.WARN:
            async with self._lock:
                _warn(await self._failing(self._read))

    async def _failing(self, policies: Sequence[Policy]) -> tuple[str, ...]:
        return await self.reader.run(partial(failing, self._routes, policies))

    async def reload(self, *, asked: bool = True) -> tuple[str, ...]:
        """Read the policies again and put them in force, or change nothing and return the problems.

        Equal policies change nothing. If nobody has ``asked``, this is not logged, nor are the same problems twice.
        """
        async with self._lock:
            try:
                policies = await self.reader.run(partial(read_policies, self._routes, self._zone))
            except PolicyError as error:
                again = error.problems == self._problems
                self._problems = error.problems
                problems = tuple(str(problem) for problem in error.problems)
                return problems if again and not asked else self._refuse(problems)
            self._problems = ()
            joined = self._join(policies)
            if joined == self._workers.policies:
                if asked:
                    notice(f"policies are the same: generation {self._workers.generation} stays")
                return ()
            refused = await self._refuse_failing(policies, asked=asked)
            if refused:
                return refused
            self._warn_of_empty(policies)
            self._warn_of_lost_dictionaries(policies)
            problem = await self._workers.replace_policies(joined)
            if problem is not None:
                return self._refuse((problem,))
            self._read = policies
        notice(f"policies reloaded: generation {self._workers.generation}")
        return ()

    async def _refuse_failing(self, policies: tuple[Policy, ...], *, asked: bool) -> tuple[str, ...]:
        # Tests that fail are a problem, or only logged.
        failed = () if self._tests is PolicyTests.OFF else await self._failing(policies)
        before, self._failed = self._failed, failed
        if self._tests is PolicyTests.REFUSE and failed:
            self._refused = policies
            return failed if failed == before and not asked else self._refuse(failed)
        self._refused = ()
        _warn(failed)
        return ()

    def _warn_of_empty(self, policies: Sequence[Policy]) -> None:
        for route, before, after in zip(self._routes, self._read, policies, strict=True):
            if before.rules and not after.rules:
                lost = f"{len(before.rules)} rule{'s' if len(before.rules) > 1 else ''}"
                notice(
                    f"{route.policy} has no rule any more ({lost} before): route {route.name} checks nothing",
                    Level.WARNING,
                )

    def _warn_of_lost_dictionaries(self, policies: Sequence[Policy]) -> None:
        for before, after in zip(self._read, policies, strict=True):
            known = frozenset[DictionaryUse]().union(*(rule.settings.dictionaries for rule in after.rules))
            for rule in before.rules:
                for name in sorted({use.name for use in rule.settings.dictionaries if not _is_kept(use, known)}):
                    lost = f"rule {rule.name} has the dictionary {name} no more"
                    notice(f"{lost}: values that are compressed with it cannot be read", Level.WARNING)

    async def renew(self) -> str | None:
        """Put the last read policies with the present remedies in force; return the problem, or None."""
        async with self._lock:
            return await self._workers.replace_policies(self._join(self._read))

    def failed(self) -> None:
        """Count a reload that a bug has ended."""
        self.failures += 1

    def _refuse(self, problems: tuple[str, ...]) -> tuple[str, ...]:
        self.failures += 1
        for problem in problems:
            notice(problem, Level.ERROR)
        notice(f"policies not reloaded: generation {self._workers.generation} stays", Level.ERROR)
        return problems
