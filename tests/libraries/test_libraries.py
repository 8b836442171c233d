"""Well-known libraries behave under each packaged policy as the table in docs/libraries.md says.

Proves, for each row and column: a library that *works* does so through a restart of Redis, which forgets its scripts. A
library that is *refused* is refused by that rule before it has changed anything, and works fully with the lines, or as
the user, in the table. A worker's own first commands are tested beside the application's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue

import pytest
import yaml

from tests.keyrail_process import DIRECT, packaged_policy
from tests.libraries.station import HERE, JOBS, ROOT, Library, Missing, Station

PAGE = ROOT / "docs" / "libraries.md"
SESSIONS = {
    "redis-py": "redis_py",
    "ioredis": "ioredis",
    "node-redis": "node_redis",
    "python-redis-lock": "python_redis_lock",
    "Django cache": "django",
    "django-redis": "django_redis",
    "aiocache": "aiocache",
    "cachelib": "cachelib",
    "cashews": "cashews",
    "Flask-Limiter": "flask_limiter",
    "Flask-Session": "flask_session",
    "connect-redis": "connect_redis",
    "Socket.IO adapter": "socket_io",
    "RQ": "rq",
    "rq-scheduler": "rq_scheduler",
    "Celery": "celery",
    "Dramatiq": "dramatiq",
    "arq": "arq",
    "huey": "huey",
    "APScheduler": "apscheduler",
    "BullMQ": "bullmq",
    "bee-queue": "bee_queue",
}
"""The module or script in `sessions` of each row of the table."""
AT_ONCE = 4
"""Sessions that run side by side: they wait more than they compute."""
BESIDE_A_CACHE = "job-queues-beside-a-cache"
"""The lines that are for a user of their own."""
CELL = re.compile(
    r"(?:works|expires|refused: `(?P<rule>[^`]+)`)(?:; (?:\[lines\]\(#(?P<lines>[^)]+)\)|(?P<jobs>user `jobs`)))?"
)


@dataclass(frozen=True)
class Cell:
    """The outcome of a library's session under a policy, whose text is `text`: refused by `rule`, if there is one.

    `granted` is the policy that lets it do all, where that takes more, and `login` how its clients then log in.
    """

    policy: str
    text: str
    rule: str
    granted: str
    login: str


def section() -> str:
    text = PAGE.read_text(encoding="utf-8")
    return text.partition("## Client libraries and the packaged policies")[2].partition("\n## ")[0]


def rows() -> dict[str, list[str]]:
    """The columns behind the second one, by library."""
    lines = [line.strip("| ").split(" | ") for line in section().splitlines() if line.startswith("| ")]
    return {cells[0]: cells[2:] for cells in lines[1:]}


def policies() -> list[list[str]]:
    """The packaged policies that each column is about."""
    header = next(line for line in section().splitlines() if line.startswith("| library"))
    return [names.split(", ") for names in header.strip("| ").split(" | ")[2:]]


def cells(library: str) -> Iterator[Cell]:
    for names, said in zip(policies(), rows()[library], strict=True):
        match = CELL.fullmatch(said)
        assert match, said
        for name in names:
            packaged = packaged_policy(f"{name}.yaml").read_text(encoding="utf-8")
            text = re.sub(r"failing_for: \w+", "failing_for: 10m", packaged)  # no breaker opens on a busy machine
            granted = with_lines(text, match["lines"]) if match["lines"] else text if match["jobs"] else ""
            login = JOBS if match["jobs"] or match["lines"] == BESIDE_A_CACHE else ""
            yield Cell(name, text, match["rule"] or "", granted, login)


def with_lines(policy: str, anchor: str) -> str:
    """The policy with the lines that stand under a heading of the section."""
    blocks = {
        heading.lower().replace(" ", "-"): block
        for heading, block in re.findall(r"### (.*?)\n.*?```yaml lines\n(.*?)```", section(), re.DOTALL)
    }
    whole, lines = (yaml.load(text, yaml.BaseLoader) for text in (policy, blocks[anchor]))
    for key, added in lines.items():
        whole[key] = {**whole.get(key, {}), **added} if isinstance(added, dict) else [*whole.get(key, []), *added]
    return yaml.safe_dump(whole, sort_keys=False)


def wrong(library: Library, cell: Cell, station: Station) -> Iterator[str]:
    """The differences from the table."""
    station.prepare(cell.text)
    if cell.rule:
        yield station.refused(library, cell.rule)
    else:
        yield station.whole(library)
    if cell.granted:
        station.prepare(cell.granted)
        yield station.whole(library, cell.login)
        if station.lifetimes_of_jobs():
            yield "keys were given a TTL that they should not get"


def try_all(row: str, stations: SimpleQueue[Station | None]) -> list[str]:
    """Everything that is wrong with a row, tried at a station that is free, or not there yet. Raises Missing."""
    library = Library(SESSIONS[row])
    station = stations.get()
    try:
        station = station or Station()
        return [f"{cell.policy}: {each}" for cell in cells(row) for each in wrong(library, cell, station) if each]
    finally:
        stations.put(station)
        library.close()


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[list[str]]]]:
    """The faults of each row that a test has been selected for; all of them are tried side by side."""
    chosen = [item.callspec.params.get("library") for item in request.session.items if hasattr(item, "callspec")]
    selected = [row for row in SESSIONS if row in chosen]
    stations: SimpleQueue[Station | None] = SimpleQueue()
    for _ in range(AT_ONCE):
        stations.put(None)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {row: pool.submit(try_all, row, stations) for row in selected}
        pool.shutdown(cancel_futures=True)
    for station in (stations.get() for _ in range(AT_ONCE)):
        if station is not None:
            station.close()


@pytest.mark.skipif(DIRECT, reason="a policy is Keyrail's own")
@pytest.mark.parametrize("library", SESSIONS)
def test_a_library_does_what_the_table_says(library: str, outcomes: dict[str, Future[list[str]]]) -> None:
    try:
        found = outcomes[library].result()
    except Missing as error:
        pytest.skip(f"{library}: {error}")
    assert not found, "\n".join(found)


def test_the_table_has_every_session_and_every_policy_that_serves() -> None:
    assert list(rows()) == list(SESSIONS)
    found = {path.stem for path in (HERE / "sessions").iterdir() if path.suffix in {".py", ".cjs"}} - {"__init__"}
    assert found == set(SESSIONS.values())
    served = {path.stem for path in packaged_policy("default.yaml").parent.glob("*.yaml")}
    served -= {"bench", "agents"}  # for load tests; for agents and people with a shell
    assert {name for names in policies() for name in names} == served


def test_no_library_is_let_down_by_the_policy_that_holds_without_one() -> None:
    assert {cells[0] for cells in rows().values()} == {"works"}
