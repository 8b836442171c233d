"""Every command has a decision about the nodes of a cluster, tips are followed but where rows say otherwise, and the
documentation says the same."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from proxy.commands.generate import undecided
from proxy.commands.over_nodes import TO_SLOT, Destination, Join, OverNodes, tipped
from proxy.commands.overlay import over_nodes
from proxy.commands.recorded import Recorded, standard_commands
from proxy.commands.rows import ROWS
from proxy.commands.spec import ConnectionState
from proxy.commands.table import STANDARD
from tests.commands.test_table import spec

PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"
NAMES = {recorded.description.name: recorded.description for recorded in standard_commands()}
UNLIKE_TIPS = {
    *("INFO", "COMMANDLOG|GET", "COMMANDLOG|LEN", "SLOWLOG|GET", "SLOWLOG|LEN"),
    *("PING", "CLIENT|SETNAME", "CLIENT|SETINFO", "CLUSTER|SLOT-STATS", "MSET", "MSETEX", "SCAN", "WAIT", "WAITAOF"),
    *("FUNCTION|STATS", "LATENCY|DOCTOR", "LATENCY|GRAPH", "LATENCY|HISTOGRAM", "LATENCY|HISTORY", "LATENCY|LATEST"),
    *("MEMORY|DOCTOR", "MEMORY|MALLOC-STATS", "MEMORY|STATS", "RANDOMKEY", "CLUSTERSCAN"),
}
"""Commands of which Keyrail does something else than engines tip, or the tip is `special`."""


def decided(name: str) -> OverNodes:
    return spec(name).over_nodes


def test_a_command_without_a_decision_is_found() -> None:
    made_up = NAMES["PING"]._replace(name="MADE.UP", request_policy="", response_policy="")
    commands = {"MADE.UP": Recorded(made_up, "", ("redis-7.0",))}
    assert "MADE.UP: nothing says which nodes of a cluster it goes to" in undecided(commands)
    special = made_up._replace(request_policy="special")
    assert "MADE.UP: nothing says which nodes of a cluster it goes to" in undecided(
        {"MADE.UP": Recorded(special, "", ("redis-7.0",))}
    )


def test_tips_are_followed_but_where_a_row_says_otherwise() -> None:
    unlike = {
        name
        for name, found in NAMES.items()
        if found.request_policy and decided(name) != tipped(found.request_policy, found.response_policy)
    }
    assert unlike == UNLIKE_TIPS - {name for name in UNLIKE_TIPS if not NAMES[name].request_policy}
    assert {name for name in UNLIKE_TIPS if name not in NAMES} == set()


def test_rows_say_only_what_nothing_else_says() -> None:
    for row in ROWS.values():
        found = NAMES.get(row.name)
        if row.over_nodes is not None and found is not None:
            tips = tipped(found.request_policy, found.response_policy)
            container = ROWS.get(row.name.partition("|")[0])
            if container is None or container.subcommands_over_nodes is None:
                assert row.over_nodes != tips, row.name


def test_all_tips_are_known() -> None:
    assert {found.request_policy for found in NAMES.values()} == {
        "",
        "all_nodes",
        "all_shards",
        "multi_shard",
        "special",
    }
    responses = {found.response_policy for found in NAMES.values()} - {"", "special"}
    assert all(tipped("all_nodes", response) is not None for response in responses)
    assert tipped("all_shards", "agg_max") is None, "a policy that Keyrail does not know decides nothing"


@pytest.mark.parametrize(
    ("name", "destination", "join"),
    [
        ("GET", Destination.SLOT, Join.NONE),
        ("BLPOP", Destination.SLOT, Join.NONE),
        ("EVALSHA", Destination.SLOT, Join.NONE),
        ("SPUBLISH", Destination.SLOT, Join.NONE),
        ("RENAME", Destination.SLOT, Join.NONE),
        ("MGET", Destination.SPLIT, Join.BY_KEY),
        ("DEL", Destination.SPLIT, Join.SUM),
        ("DBSIZE", Destination.ALL_PRIMARIES, Join.SUM),
        ("KEYS", Destination.ALL_PRIMARIES, Join.ARRAYS),
        ("SCRIPT|EXISTS", Destination.ALL_PRIMARIES, Join.LOGICAL_AND),
        ("SCRIPT|KILL", Destination.ALL_PRIMARIES, Join.ONE_SUCCEEDED),
        ("FLUSHALL", Destination.ALL_PRIMARIES, Join.ALL_SUCCEEDED),
        ("LATENCY|RESET", Destination.ALL_PRIMARIES, Join.SUM),
        ("CONFIG|SET", Destination.ALL_NODES, Join.ALL_SUCCEEDED),
        ("CLUSTER|SLOTS", Destination.HERE, Join.NONE),
        ("CLUSTER|MEET", Destination.ON_NODES, Join.NONE),
        ("KEYRAIL|HOTKEYS", Destination.HERE, Join.NONE),
        ("", Destination.ANY, Join.NONE),
    ],
)
def test_decisions(name: str, destination: Destination, join: Join) -> None:
    found = STANDARD.specs[0] if not name else spec(name)
    assert found.over_nodes == (destination, join)


def test_a_command_of_a_newer_engine_is_decided_by_its_tips_or_refused() -> None:
    def entry(name: bytes, *tips: bytes) -> list[object]:
        return [name, 1, [b"readonly"], 0, 0, 0, [], list(tips), [], []]

    table = STANDARD.completed_by(
        [entry(b"newcount", b"request_policy:all_shards", b"response_policy:agg_sum"), entry(b"newthing")]
    )
    counted, thing = table.find("NEWCOUNT"), table.find("NEWTHING")
    assert counted is not None
    assert thing is not None
    assert counted.over_nodes == (Destination.ALL_PRIMARIES, Join.SUM)
    assert thing.over_nodes.destination is Destination.REFUSED


def test_joins_belong_to_what_goes_to_several_nodes() -> None:
    several = {
        Destination.SPLIT,
        Destination.SPLIT_IF_ALLOWED,
        Destination.ALL_PRIMARIES,
        Destination.ALL_NODES,
        Destination.PUBLISH,
        Destination.WAIT,
    }
    for each in STANDARD.specs:
        destination, join = each.over_nodes
        assert (destination in several) == (join is not Join.NONE), each.name
        if destination in (Destination.SPLIT, Destination.SPLIT_IF_ALLOWED):
            assert each.may_have_keys, each.name


def test_whatever_has_keys_goes_to_their_nodes() -> None:
    for each in STANDARD.specs:
        if each.may_have_keys and each.state is not ConnectionState.WATCH and each.name != "HIMPORT|SET":
            assert each.over_nodes.destination in (Destination.SLOT, Destination.SPLIT, Destination.SPLIT_IF_ALLOWED), (
                each.name
            )
    assert over_nodes("MADE.UP", frozenset(), None, has_keys=True, container=False) == TO_SLOT


def rows_of_the_page() -> dict[OverNodes, list[str]]:
    """The commands of each row of the table in the documentation, in its order."""
    found: dict[OverNodes, list[str]] = {OverNodes(*each): [] for each in product(Destination, Join)}
    for name, recorded in NAMES.items():
        if not recorded.container and not name.endswith("|HELP"):
            found[decided(name)].append(name)
    return {decision: names for decision, names in found.items() if names}


def lines_of_the_page() -> Iterator[str]:
    """The table as it must stand in the documentation."""
    for (destination, join), names in rows_of_the_page().items():
        if OverNodes(destination, join) == TO_SLOT:
            yield f"| {destination.value} | | all other commands with keys, or with shard channels |"
        else:
            replies = f" {join.value} " if join.value else " "
            shown = " ".join(f"`{name.replace('|', ' ')}`" for name in names)
            yield f"| {destination.value} |{replies}| {shown} |"


def test_the_page_has_the_table() -> None:
    table = "\n".join(
        ["| where it goes | how replies become one | commands |", "|---|---|---|", *lines_of_the_page(), ""]
    )
    page = PAGE.read_text("utf-8")
    begin = page.index("| where it goes")
    assert page[begin : page.index("\n\n", begin) + 1] == table
