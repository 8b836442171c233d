"""The screen of `keyrail top`, drawn from answers for terminals of any size, without a terminal."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from proxy.cli.top.columns import Line, Tint
from proxy.cli.top.screen import Paper, page, plain, screen
from proxy.cli.top.state import ViewState
from proxy.cli.top.text import cells
from proxy.cli.top.views import VIEWS, View
from tests.cli.top.given import CACHE, COLD, HOT, INFO, NODE, NOW, REPLICA, SECOND, TOLD, answers, view

USUAL = Paper(80, 24)


def drawn(state: ViewState, paper: Paper = USUAL, problem: str = "", **changed: object) -> list[str]:
    return plain(screen(answers(**changed), state, paper, NOW, problem))


def tints(line: Line, text: str) -> list[Tint]:
    return [tint for each, tint in line if text in each]


def test_hot_keys_on_80_by_24() -> None:
    lines = drawn(ViewState())
    assert lines[:7] == [
        "keyrail 1.0  route default -> valkey 9.1.0, ready  1 INCIDENT",
        "policy platform.yaml, generation 3; kill switch off; 1,204 clients, 2 workers",
        "108,204 commands/s  Redis p50 0.40 p99 14.0 ms  Keyrail p50 0.02 p99 0.20 ms",
        "1 Keys 2 Patterns 3 Slots 4 Clients 5 Slow 6 Rules 7 Incidents 8 Nodes    1m all",
        "KEY                          RATE/s  SHARE           READS    HIT BYTES/s  SLOT",
        "product:8841:stock           41,000  38.0% ███       99.7% 100.0%    373M  7211",
        "user:1:name                     0.2   0.0%           99.7%      -    373M  7211",
    ]
    assert lines[-1] == "q quit  ? help  s sort  w window  p pause  arrows, Enter details"


def test_a_local_cache_has_a_line_and_its_keys_a_column() -> None:
    keys = [{**HOT, "cached_share": 0.95}, COLD]
    told: dict[str, Any] = {"hotkeys": {**TOLD["hotkeys"], "keys": keys}, "local_cache": {**CACHE, "rules": ["hot"]}}
    lines = drawn(ViewState(), **told)
    assert lines[3] == "38,950/s answered from memory  saves 31.2% of a Redis core  hit 99.8%"
    assert lines[5:8] == [
        "KEY                   RATE/s  SHARE           READS    HIT CACHED BYTES/s  SLOT",
        "product:8841:stock    41,000  38.0% ███       99.7% 100.0%  95.0%    373M  7211",
        "user:1:name              0.2   0.0%           99.7%      -      -    373M  7211",
    ]
    wide = drawn(ViewState(), Paper(160, 24), **told)[3]
    assert wide.endswith("  hit 99.8%  883K of 128M  1,204 replies  60/s filled  12/s invalidated")
    detail = drawn(ViewState(chosen=str(HOT["key"]), detail=True), **told)
    assert any(line.startswith("reads 99.7% (95.0% of them answered from memory), hit 100.0%") for line in detail)


def test_keys_of_tenants_have_both_names() -> None:
    acme, unknown = {"app": "acme", "key": "8841:stock"}, {"app": None, "key": "1"}
    slot = {**TOLD["slots"]["slots"][0], "keys": ["a:1", "b"], "tenants": [unknown, None]}
    told: dict[str, Any] = {
        "hotkeys": {**TOLD["hotkeys"], "keys": [{**HOT, "tenant": acme}, {**COLD, "tenant": None}]},
        "slots": {**TOLD["slots"], "slots": [slot]},
        "slow": {"commands": [{**TOLD["slow"]["commands"][0], "key": "acme:x", "tenant": acme}]},
    }
    assert [line[:48].rstrip() for line in drawn(ViewState(), Paper(120, 24), **told)[4:7]] == [
        "KEY                         TENANT'S NAME",
        "product:8841:stock          8841:stock of acme",
        "user:1:name                 -",
    ]
    detail = drawn(ViewState(chosen=str(HOT["key"]), detail=True), **told)
    assert any(line.startswith("product:8841:stock (8841:stock of tenant acme)  HOT") for line in detail)
    assert any("a:1 (1 of a tenant) b" in line for line in drawn(ViewState(view("Slots")), **told))
    assert any("acme:x" in line and "8841:stock of acme" in line for line in drawn(ViewState(view("Slow")), **told))
    assert not any("TENANT" in line for line in drawn(ViewState()))


def test_keys_that_replicas_answer_have_a_column() -> None:
    told: dict[str, Any] = {"hotkeys": {**TOLD["hotkeys"], "keys": [{**HOT, "replica_share": 0.95}, COLD]}}
    lines = drawn(ViewState(), **told)
    assert "REPLICAS" in lines[4]
    assert " 95.0% " in lines[5]
    detail = drawn(ViewState(chosen=str(HOT["key"]), detail=True), **told)
    assert any(line.startswith("reads 99.7% (95.0% of them answered by replicas), hit 100.0%") for line in detail)


def test_replicas_have_their_share_of_reads_and_how_often_they_failed() -> None:
    nodes = [NODE, REPLICA, {**REPLICA, "node": "n5", "reads": 3_702, "serves": True, "read_errors": 2}]
    lines = drawn(ViewState(view=view("Nodes")), Paper(160, 24), nodes={"nodes": nodes})
    head = next(line for line in lines if line.startswith("NODE"))
    rows = {line[:2]: line for line in lines if line[:2] in ("n1", "n4", "n5")}
    assert head.split()[8:11] == ["READS", "SHARE", "FAILED"]
    about_reads = slice(head.index("READS") - 10, head.index("FAILED") + len("FAILED"))
    assert [rows[name][about_reads].split()[-3:] for name in sorted(rows)] == [
        ["-", "-", "-"],
        ["(1,234)", "25.0%", "-"],
        ["3,702", "75.0%", "2"],
    ]


def test_a_local_cache_that_only_audits_or_is_off_says_so() -> None:
    audit = {"hits": 38_950.0, "bytes": 3.6e8, "saved_redis_seconds": 0.312}
    none = {**CACHE["enforce"], "hits": 0.0, "saved_redis_seconds": 0.0}
    cache = {**CACHE, "rules": ["hot-reads"], "enforce": none, "audit": audit, "off": 2}
    line = drawn(ViewState(), Paper(120, 24), local_cache=cache)[3]
    assert line.startswith(
        "0.0/s answered from memory  OFF: 2 without a connection  audit: 38,950/s would be, saving 31.2%"
    )


def test_a_local_cache_with_nothing_to_do_has_no_line() -> None:
    idle = {name: value if name in ("enforce", "audit") else 0 for name, value in CACHE.items()}
    nothing = dict.fromkeys(CACHE["enforce"], 0.0)
    cache = {**idle, "enforce": nothing, "audit": nothing, "rules": ["hot-reads"]}
    assert drawn(ViewState(), local_cache=cache)[3].startswith("1 Keys")


def test_a_wide_terminal_has_more() -> None:
    lines = drawn(ViewState(), Paper(160, 24))
    assert lines[2].endswith("11.4M/s in 373M/s out  ▄█"), "the second that is not over yet is left out"
    assert lines[4].split() == ["KEY", "RATE/s", "SHARE", "READS", "HIT", "BYTES/s", "SLOT", "PATTERN", "CLIENTS"]
    assert lines[5].startswith("product:8841:stock  ")
    assert lines[5].endswith(" product:{int}:stock           91% checkout/checkout-7 +1")


@pytest.mark.parametrize("width", [80, 120, 150])
def test_keys_that_differ_in_their_last_part_can_be_told_apart(width: int) -> None:
    names = [f"cache:catalog:product:europe:stock-by-warehouse:{number}" for number in (8841, 8842)]
    keys = [{**COLD, "key": name} for name in names]
    lines = drawn(ViewState(), Paper(width, 24), hotkeys={**TOLD["hotkeys"], "keys": keys})
    shown = [line.split()[0] for line in lines[5:7]]
    assert all(name.startswith("cache:catalog") and "~" in name for name in shown)
    assert [name[-5:] for name in shown] == [":8841", ":8842"]


@pytest.mark.parametrize("shown", VIEWS, ids=lambda shown: shown.name)
@pytest.mark.parametrize("size", [(80, 24), (200, 60), (40, 10), (13, 3), (1, 1), (0, 0)])
def test_every_view_fits_every_terminal(shown: View, size: tuple[int, int]) -> None:
    first = next(iter(shown.rows(TOLD, shown.orders[0])))
    detail = ViewState(view=shown, chosen=shown.called(first), detail=True)
    for state in (ViewState(view=shown), ViewState(view=shown, help=True), detail):
        lines = screen(answers(), state, Paper(*size), NOW)
        assert len(lines) == size[1]
        assert all(cells("".join(text for text, _ in line)) <= size[0] for line in lines)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Patterns", ["41,000", "97.6%", "25.0%", "9.1K", "373M", "14.0", "product:{int}:stock"]),
        ("Slots", ["41,000", "38.0%", "7211", "product:8841:stock", "3.5/s commands with keys in more than one slot"]),
        ("Clients", ["37,310", "35.0%", "858M", "2.0", "checkout", "checkout-7"]),
        ("Slow", ["02:47:12Z", "1,204", "0.21", "HGETALL", "checkout default c~"]),
        ("Incidents", ["11-21 02:47:03Z", "not over", "INC-9", "hot-key", "product:8841:stock HOT", "11-20 23:00:00Z"]),
        ("Nodes", ["primary", "8,192", "41,000", "0.21", "replica of n1", "unlinked", "9.1K", "10.0.0.1:7000"]),
        ("Rules", ["5", "90,210", "enforce", "02:47:12Z", "no-keyspace-walks", "silent"]),
    ],
)
def test_other_views(name: str, words: list[str]) -> None:
    text = "\n".join(drawn(ViewState(view=view(name))))
    for word in words:
        assert word in text


def test_a_row_that_is_chosen_is_marked_and_seen() -> None:
    keys = [{**COLD, "key": f"user:{number}"} for number in range(100)]
    lines = screen(answers(hotkeys={**TOLD["hotkeys"], "keys": keys}), ViewState(chosen="user:70"), USUAL, NOW)
    marked = [line for line in lines[5:] if line and line[0][1] is Tint.TURNED]
    assert len(marked) == 1
    assert plain(marked)[0].startswith("user:70 ")


def test_all_that_is_known_of_a_key() -> None:
    lines = drawn(ViewState(chosen=str(HOT["key"]), detail=True))
    assert lines[4:18] == [
        "product:8841:stock  HOT",
        "41,000/s = 38.0% of 108,000/s in 60 s (at most 0.2% more)",
        "was 120/s until 02:47:10Z",
        "reads 99.7%, hit 100.0%, 9.1K/s in, 373M/s out",
        "slot 7211, pattern product:{int}:stock",
        "",
        "INC-9",
        "product:8841:stock HOT 41k/s = 38 %",
        "remedy: keyrail remedy product:8841:stock",
        "",
        "behind it",
        "  91.0%  app checkout, user default, checkout-7, go-redis 9.7, 10.0.0.7  new",
        "   7.0%  app web, user default, checkout-7, go-redis 9.7, 10.0.0.7",
        "   2.0%  others",
    ]
    keys = [{**HOT, "before": 0.0}]
    lines = drawn(ViewState(chosen=str(HOT["key"]), detail=True), hotkeys={**TOLD["hotkeys"], "keys": keys})
    assert lines[6] == "not among the busiest keys until 02:47:10Z"
    assert drawn(ViewState(chosen="gone", detail=True))[4] == "gone is no longer in this list"


def test_a_remedy_is_there_as_a_whole() -> None:
    remedy = "remedy: keyrail remedy product:8841:stock --cap checkout=5000/s --for 30m --because INC-9"
    told = {"incidents": [{**TOLD["incidents"]["incidents"][0], "lines": [remedy, "x" * 200]}]}
    lines = drawn(ViewState(view=view("Incidents"), chosen="INC-9", detail=True), incidents=told)
    assert lines[5:7] == [remedy[: remedy.index(" --because")], "    --because INC-9"]
    assert "".join(line.strip() for line in lines[7:10]) == "x" * 200
    low = drawn(ViewState(view=view("Incidents"), chosen="INC-9", detail=True), Paper(80, 8), incidents=told)
    assert low[-2] == "and 4 lines for a taller terminal"


def test_all_that_is_known_of_a_rule() -> None:
    lines = drawn(ViewState(view=view("Rules"), chosen="no-keyspace-walks", detail=True))
    assert "  reports:" in lines
    assert "      shape: user:{int}" in lines


def test_the_newest_violations_have_the_lower_half() -> None:
    lines = drawn(ViewState(view=view("Rules")))
    at = lines.index("TIME      MODE     RULE                 COMMAND      KEY")
    assert lines[at + 1].split() == ["02:47:12Z", "-", "no-keyspace-walks", "and", "17", "more", "-"]
    assert lines[at + 2].split() == ["02:47:12Z", "enforce", "no-keyspace-walks", "KEYS", "user:{int}#9f86d081"]
    assert [line.split()[3] for line in lines[at + 3 : -1] if line] == ["KEYS"] * 12
    assert "reports default spark-7" in drawn(ViewState(view=view("Rules")), Paper(140, 24))[at + 2]
    assert "TIME" not in "".join(drawn(ViewState(view=view("Rules")), violations={"violations": []}))


def test_what_is_wrong_stands_out() -> None:
    reason = "redis://10.0.0.1:6379: Redis has not answered since 2026-11-21T02:47:10Z"
    info = {**INFO, "ready": False, "reason": reason}
    switch = {"on": True, "until": "2026-11-21T03:17:00.000Z"}
    found = answers(info=info, switch=switch, at=NOW - 12, routes=("other", "default"))
    lines = screen(found, ViewState(), Paper(120, 24), NOW, "http://h:1: Connection refused")
    assert tints(lines[0], "NOT READY") == [Tint.BAD]
    assert lines[1] == [(reason, Tint.BAD)]
    narrow = drawn(ViewState(), Paper(40, 24), info=info)
    told = " ".join(line.strip() for line in narrow[1:3])
    assert told == reason, "the time is not cut off"
    assert tints(lines[0], "12 s ago") == [Tint.BAD]
    assert "route default (2 of 2)" in plain(lines)[0]
    assert tints(lines[2], "KILL SWITCH ON until 03:17:00Z") == [Tint.BAD]
    assert lines[-1] == [("http://h:1: Connection refused; trying again", Tint.BAD)]
    assert tints(lines[6], "product:8841:stock") == [Tint.BAD], "it is hot"
    one = drawn(ViewState(), info={**INFO, "clients": 1, "workers": 1})
    assert one[1].endswith("; 1 client, 1 worker")
    assert drawn(ViewState(paused=True))[-1] == "paused: press p to continue"


def test_before_the_first_answer_of_a_view_and_without_traffic() -> None:
    found = dataclasses.replace(answers(seconds=[]), told={name: TOLD[name] for name in ("incidents", "local_cache")})
    assert plain(screen(found, ViewState(), USUAL, NOW))[4] == "asking …"
    nothing = drawn(ViewState(), hotkeys={**TOLD["hotkeys"], "keys": []}, seconds=[])
    assert nothing[5] == "nothing yet"
    uncounted = drawn(ViewState(), hotkeys={**TOLD["hotkeys"], "keys": [], "counted": False})
    assert uncounted[4].startswith("Keyrail counts no keys under the policy none")
    assert nothing[2].startswith("0.0 commands/s  Redis p50 - p99 - ms")


EVIL = "a\x1b[31m\x9b2J\x07\r\n\u202e\u2028b\ud800"


@pytest.mark.parametrize("unicode", [True, False])
def test_no_name_reaches_the_terminal_as_it_is(unicode: bool) -> None:
    key = {**HOT, "key": EVIL, "pattern": EVIL}
    client = {**TOLD["clients"]["clients"][0], "app": EVIL, "client_name": EVIL}
    key["clients"] = [{**client, "new": False}]
    changed: dict[str, object] = {
        "hotkeys": {**TOLD["hotkeys"], "keys": [key]},
        "clients": {**TOLD["clients"], "clients": [client]},
        "info": {**INFO, "upstream": EVIL},
        "seconds": [SECOND],
    }
    for state in (ViewState(), ViewState(chosen=EVIL, detail=True), ViewState(view=view("Clients"))):
        lines = drawn(state, Paper(200, 24, unicode), EVIL, **changed)
        assert all(line.isprintable() and (unicode or line.isascii()) for line in lines)
        assert "a\\x1b[31m\\x9b2J" in "\n".join(lines[1:-1])


def test_wide_characters_keep_the_columns() -> None:
    lines = drawn(ViewState(), Paper(100, 24), hotkeys={**TOLD["hotkeys"], "keys": [{**HOT, "key": "鍵" * 40}, HOT]})
    at = [cells(line[: line.index("91% ch")]) for line in lines[5:7]]
    assert at[0] == at[1]
    assert "鍵~鍵" in lines[5]


def test_a_page_for_no_terminal_is_as_long_as_it_has_to_be() -> None:
    keys = [{**COLD, "key": f"user:{number}"} for number in range(20)]
    lines = page(answers(hotkeys={**TOLD["hotkeys"], "keys": keys}), ViewState(), Paper(80, 80), NOW)
    assert len(lines) == 5 + 20
    assert lines[-1].startswith("user:19 ")
