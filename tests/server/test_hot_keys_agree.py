"""``/hotkeys``, the page, ``KEYRAIL HOTKEYS``, metrics and incidents show the same figures for the same traffic.

Each of them names the snapshot of its figures, so figures of one snapshot are compared exactly.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import redis
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import Fleet
from tests.resp import PATIENCE_SECONDS, Wire, pack
from tests.server.running import Running, events, serve, stream, ticks

POLICY = """
keyrail: 1
alerts: {hot_key: {share: 40%, rate: 20/s}}
rules: {}
"""
HOT, WARM = "product:8841:stock", "user:7"
USES = {HOT: 8, WARM: 3}
"""Of each client in each round."""
CLIENTS = 8
GROWS_AFTER = 100
"""Rounds; an incident shows the figures of its peak, so a new peak is another chance to see both at the same moment."""

Snapshot = tuple[int, str]
"""The window, and when it was taken in seconds since the epoch."""
Figures = dict[str, dict[str, float]]
"""By key."""


class Shown:
    """The figures of each snapshot, by the source that showed them."""

    def __init__(self) -> None:
        self.of: dict[Snapshot, dict[str, Figures]] = {}

    def note(self, source: str, window: int, taken: float, figures: Figures) -> None:
        known = self.of.setdefault((window, f"{taken:.3f}"), {})
        assert known.setdefault(source, figures) == figures, "a snapshot does not change"

    def by_all(self, window: int, sources: set[str]) -> Iterator[dict[str, Figures]]:
        """The snapshots of a window that all these sources have shown."""
        return (known for (its, _), known in self.of.items() if its == window and sources <= known.keys())


@pytest.fixture
def running(fleet: Fleet, tmp_path: Path) -> Iterator[Running]:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    upstream = fleet.engine("valkey-9.1", "server").url
    arguments = ("--upstream", upstream, "--policy", str(policy), "--workers", "2")
    with serve(*arguments, variables={"KEYRAIL_REDACT": "none"}) as started:
        yield started.ready()


def seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def of_rows(told: dict[str, Any]) -> Figures:
    wanted = ("count", "error", "rate", "share")
    return {row["key"]: {name: row[name] for name in wanted} for row in told["keys"]}


def ask_hot_keys(running: Running, shown: Shown, window: int) -> None:
    told = running.json(f"/hotkeys?window={window}")
    assert 0 <= told["age"] < PATIENCE_SECONDS
    shown.note("hotkeys", window, seconds(told["at"]), of_rows(told))


def ask_the_page(running: Running, shown: Shown, window: int) -> None:
    with stream(running, f"/events?window={window}") as answer:
        told = next(data for name, data in events(answer) if name == "overview")["hotkeys"]
    shown.note("page", window, seconds(told["at"]), of_rows(told))


def ask_in_band(client: Any, shown: Shown, window: int) -> None:
    told = client.execute_command("KEYRAIL", "HOTKEYS", "WINDOW", str(window))
    shown.note("in band", window, seconds(told["at"]), of_rows(told))


def ask_prometheus(running: Running, shown: Shown) -> None:
    figures: Figures = {}
    taken = 0.0
    for family in text_string_to_metric_families(running.http("/metrics")[1]):
        for sample in family.samples:
            if sample.name in ("keyrail_hot_key_rate", "keyrail_hot_key_share"):
                figures.setdefault(sample.labels["key"], {})[sample.name.rpartition("_")[2]] = sample.value
            elif sample.name == "keyrail_hot_keys_timestamp_seconds":
                taken = sample.value
    shown.note("metrics", 60, taken, figures)


def ask_for_incidents(running: Running, shown: Shown) -> None:
    for incident in running.json("/incidents")["incidents"]:
        figures = incident["figures"]
        its = {name: figures[name] for name in ("count", "error", "rate", "share")}
        shown.note("incidents", figures["window"], seconds(figures["at"]), {incident["subject"]: its})


def ask_all(running: Running, client: Any, shown: Shown) -> None:
    for window in (5, 60):
        ask_hot_keys(running, shown, window)
        ask_the_page(running, shown, window)
        ask_in_band(client, shown, window)
    ask_prometheus(running, shown)
    ask_for_incidents(running, shown)


def use(wires: list[Wire], times: int) -> None:
    for wire in wires:
        wire.send(b"".join(pack("GET", key) * (uses * times) for key, uses in USES.items()))
    for wire in wires:
        wire.frames(sum(USES.values()) * times)


def test_all_show_the_same_figures_of_the_same_window(running: Running) -> None:
    short, minute = {"hotkeys", "page", "in band", "incidents"}, {"hotkeys", "page", "in band", "metrics"}
    shown, used = Shown(), 0

    def compare(window: int, sources: set[str], whole: Callable[[Figures], bool]) -> bool:
        """Whether all have shown a snapshot that is as wanted; what any of them have shown is the same."""
        for known in shown.by_all(window, {"hotkeys"}):
            for source in known.keys() - {"hotkeys"}:
                assert set(known[source]) <= set(known["hotkeys"])
                for key, figures in known[source].items():
                    assert figures.items() <= known["hotkeys"][key].items(), (window, source, key)
        return any(whole(known["hotkeys"]) for known in shown.by_all(window, sources))

    with ExitStack() as stack:
        (port,) = running.ports()
        client: Any = stack.enter_context(redis.Redis(port=port, protocol=3, decode_responses=True))
        wires = [stack.enter_context(running.wire()) for _ in range(CLIENTS)]
        for turn, _ in enumerate(ticks()):
            times = 1 + turn // GROWS_AFTER
            use(wires, times)
            used += times
            ask_all(running, client, shown)
            if compare(5, short, bool) and compare(60, minute, bool):
                break
        assert compare(5, short, bool), shown.of
        total = {key: CLIENTS * uses * used for key, uses in USES.items()}

        def complete(figures: Figures) -> bool:
            return {key: each["count"] for key, each in figures.items()} == total

        for _ in ticks():
            ask_all(running, client, shown)
            if compare(60, minute, complete):
                break
        assert compare(60, minute, complete), (total, shown.of)
    (figures,) = [known["hotkeys"] for known in shown.by_all(60, minute) if complete(known["hotkeys"])][:1]
    share = USES[HOT] / sum(USES.values())
    assert (figures[HOT]["error"], figures[HOT]["share"]) == (0, round(share, 6))
    assert figures[HOT]["rate"] / figures[WARM]["rate"] == pytest.approx(USES[HOT] / USES[WARM], abs=0.01)
