"""Fixtures for all tests of the whole program: private engines, and Keyrail processes in front of them.

Both are started once per configuration and kept for the session. A test that kills or freezes one makes its own. If
test processes run side by side, each has its own session, engines and Keyrails.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from proxy.build_form import BUILD_FORM
from tests.engines import EXPECTED, IN_BETWEEN, NEWEST_REDIS, OLDEST, Engine, Kind, kinds
from tests.keyrail_process import Keyrail
from tests.quick import left_out

# A red run is red again, and on a slow machine nothing is: no clock is asked, and no folder is written to.
settings.register_profile(
    "keyrail", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("keyrail")

# Else each process that a test starts would compile all of the program, and each test process all tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

TESTS = Path(__file__).parent


def kind_named(name: str) -> Kind:
    """An engine's program, or a skip that says what is missing."""
    if name not in kinds():
        pytest.skip(f"{name} is not installed here; found: {', '.join(kinds()) or 'no engine at all'}")
    return kinds()[name]


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--quick` is the default where no test is named; test processes get it by this option."""
    parser.addoption(
        "--quick", action="store_true", help="what README's test command runs; the default if no test is named"
    )
    parser.addoption(
        "--seeds",
        type=float,
        default=1.0,
        metavar="TIMES",
        help="try so many times the seeds of each generator, and at least one (default 1)",
    )


def is_quick(config: pytest.Config) -> bool:
    """Whether only the quick tests run: no test is named."""
    return bool(config.option.quick) or config.args_source is not pytest.Config.ArgsSource.ARGS


def pytest_configure(config: pytest.Config) -> None:
    """A shell has what it runs in the background ignore SIGINT, and programs under test would inherit that."""
    config.option.quick = is_quick(config)
    seed_budget.times = config.option.seeds
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header(config: pytest.Config) -> str:
    """Say which form is tested, and how much."""
    quick = "; the quick tests: python -m pytest tests runs all" if config.option.quick else ""
    return f"keyrail: {BUILD_FORM}{quick}"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What is not collected costs nothing."""
    return True if config.option.quick and left_out(collection_path) else None


TESTS_PER_PROCESSOR, QUICK_TESTS_PER_PROCESSOR = 3, 2
"""Test processes side by side: tests wait for timers and for other processes more than half of the time, but the quick
ones, which mostly compute. Each process imports and collects all tests by itself."""

WAITING = (
    "failures",
    "differential",
    "cluster",
    "failover",
    "guardrails",
    "server",
    "readme",
    "mixup",
    "coherence",
    "packaging",
    "replicas",
    "page",
    "clients",
    "policy",
    "cli",
)
"""Folders whose files take long. They begin first, so that no process is left with a long file at the end."""


ONE_ENGINE = ("failures", "guardrails", "clients", "mixup")
"""Folders of what Keyrail does with any engine: by default with the newest alone. How engines differ is the subject of
others."""

ENGINES_DIFFER = ("differential", "transcripts", "mixup", "guardrails", "commands")
"""Folders whose tests go through Redis 8.2, too. In the others it would show what the other engines show."""

BOTH_CLUSTERS = (
    *("test_every_command", "test_commands", "test_fan_out", "test_joins", "test_clients", "test_scan", "test_rows"),
)
"""Files of tests that compare what clusters of both engines answer, or walk by the engines' cursors. What else happens
to clusters is by default shown on the newest alone."""


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """How many test processes run side by side: no more than there are files; one file alone runs in this process."""
    each = QUICK_TESTS_PER_PROCESSOR if is_quick(config) else TESTS_PER_PROCESSOR
    processes = each * len(os.sched_getaffinity(0))
    named = {argument.split("::")[0] for argument in config.args}
    if not all(name.endswith(".py") for name in named):
        return processes
    return min(processes, len(named)) if len(named) > 1 else 0


@cache
def folder_of(path: Path) -> str:
    return path.relative_to(TESTS).parts[0]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what shows nothing new: without a pool, one engine shows as much as three; by default, two engines show
    as much as three, and one where it only stands behind Keyrail. Put the long files first."""

    def given(item: pytest.Item) -> dict[str, object]:
        return item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}

    def folder(item: pytest.Item) -> str:
        return folder_of(item.path)

    def names_engines(item: pytest.Item) -> bool:
        return any("engine_name" in mark.args[0] for mark in item.iter_markers("parametrize"))

    def redundant(item: pytest.Item) -> bool:
        engine = given(item).get("engine_name", EXPECTED[0])
        if engine == NEWEST_REDIS and folder(item) not in ENGINES_DIFFER and not names_engines(item):
            return True
        return given(item).get("pooling") is False and engine != EXPECTED[0]

    def place(item: pytest.Item) -> int:
        return WAITING.index(folder(item)) if folder(item) in WAITING else len(WAITING)

    def shown_by_another(item: pytest.Item) -> bool:
        engine, of_cluster, shared = (given(item).get(name) for name in ("engine_name", "cluster_name", "cluster"))
        if engine == NEWEST_REDIS and not names_engines(item):
            return True
        if IN_BETWEEN in (engine, of_cluster) or (engine == OLDEST and folder(item) in ONE_ENGINE):
            return True
        return shared == IN_BETWEEN and item.path.stem not in BOTH_CLUSTERS

    items[:] = sorted((item for item in items if not redundant(item)), key=place)
    if config.option.quick:
        items[:] = [item for item in items if not item.get_closest_marker("source")]
    no_source = pytest.mark.skip(reason="the run of the plain form has it")
    for item in items:
        if shown_by_another(item):
            item.add_marker(pytest.mark.long)
        if BUILD_FORM == "compiled" and item.get_closest_marker("source"):
            item.add_marker(no_source)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests stay in memory: the garbage collector need not go through them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Nor through what a file's tests have left in memory: those that ask it would take longer with each file."""
    done = yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
    return done


def rest_is_long(first: str, *rest: str) -> list[object]:
    """Parameters of which the default run tries the first, and .ci/night the rest."""
    return [pytest.param(first, id=first), *(pytest.param(each, id=each, marks=pytest.mark.long) for each in rest)]


class SeedBudget:
    """How many ``times`` the seeds of each generator are tried: ``--seeds``."""

    def __init__(self) -> None:
        self.times = 1.0

    def of(self, number: int) -> int:
        """So many seeds instead of this number; at least one."""
        return max(1, round(number * self.times))


seed_budget = SeedBudget()


def seeds(few: int, all_of_them: int = 0) -> list[object]:
    """Seeds of a generator, of which the default run tries a few, and .ci/night the rest, if there are more."""
    by_default = seed_budget.of(few)
    most = max(by_default, seed_budget.of(all_of_them))
    return [pytest.param(each, marks=[pytest.mark.long] if each >= by_default else []) for each in range(most)]


NO_POLICY = "none"


class Fleet:
    """The session's engines and Keyrails. An engine has a role, since a test may need two that are alike."""

    def __init__(self) -> None:
        self._engines: dict[tuple[str, str], Engine] = {}
        self._keyrails: dict[tuple[str, str, str, bool], Keyrail] = {}

    def engine(self, name: str, role: str = "subject", options: dict[str, str] | None = None) -> Engine:
        """The engine of this name and role; `options` are those of a role's first use."""
        key = (name, role)
        if key not in self._engines:
            self._engines[key] = Engine(kind_named(name), options)
        return self._engines[key]

    def keyrail(
        self, name: str, *, policy: str | Path | None = NO_POLICY, pooling: bool = True, role: str = "subject"
    ) -> Keyrail:
        # Two files that say the same are one policy, unless there is more to it than the file.
        text = policy.read_text() if isinstance(policy, Path) else str(policy)
        key = (name, role, str(policy) if "include:" in text else text, pooling)
        found = self._keyrails.get(key)
        if found is None or found.process.poll() is not None:
            found = Keyrail(self.engine(name, role).url, policy=policy, pooling=pooling)
            self._keyrails[key] = found
        return found

    def close_those_with_policies(self) -> None:
        """End what no other file asks for: a Keyrail that does nothing still wakes up several times a second."""
        for key, keyrail in list(self._keyrails.items()):
            if key[2] != NO_POLICY:
                keyrail.close()
                del self._keyrails[key]

    def close(self) -> None:
        for keyrail in self._keyrails.values():
            keyrail.close()
        for engine in self._engines.values():
            engine.close()


@pytest.fixture(scope="session")
def fleet() -> Iterator[Fleet]:
    fleet = Fleet()
    yield fleet
    fleet.close()


@pytest.fixture(autouse=True, scope="module")
def _end_of_file(fleet: Fleet) -> Iterator[None]:
    yield
    fleet.close_those_with_policies()


@pytest.fixture(params=(*EXPECTED, NEWEST_REDIS))
def engine_name(request: pytest.FixtureRequest) -> str:
    """Each engine in turn."""
    return kind_named(str(request.param)).name


@pytest.fixture(params=[True, False], ids=["pooled", "unpooled"])
def pooling(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def protocol(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def socket_folder() -> Iterator[Path]:
    """A folder with a short name: the path of a unix socket may have 107 bytes, and pytest's own names are long."""
    with tempfile.TemporaryDirectory(prefix="keyrail-") as name:
        yield Path(name)


@pytest.fixture
def new_engine() -> Iterator[Callable[..., Engine]]:
    """Start an engine that this test alone uses, and may break: `new_engine("valkey-9.1", {"maxclients": "5"})`."""
    started: list[Engine] = []

    def start(name: str = "valkey-9.1", options: dict[str, str] | None = None) -> Engine:
        started.append(Engine(kind_named(name), options))
        return started[-1]

    yield start
    for engine in started:
        engine.close()


@pytest.fixture
def new_keyrail() -> Iterator[Callable[..., Keyrail]]:
    """Start a Keyrail that this test alone uses; the arguments are those of `Keyrail`."""
    started: list[Keyrail] = []

    def start(upstream: str, **settings: object) -> Keyrail:
        started.append(Keyrail(upstream, **settings))  # type: ignore[arg-type]  # passed on as they are
        return started[-1]

    yield start
    for keyrail in started:
        keyrail.close()
