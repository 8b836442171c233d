"""Configuration: the precedence of sources, the values of each option, and that all mistakes are reported at once."""

from pathlib import Path

import pytest

from proxy.net.config.address import parse_listen, parse_upstream
from proxy.net.config.settings import (
    AdminSettings,
    Embedded,
    ListenerSettings,
    PolicyKind,
    PolicySource,
    ReadFrom,
    RouteSettings,
    Settings,
    ViolationsSettings,
)
from proxy.server.config import ConfigError, load_settings
from proxy.server.option_readers import PACKAGED_POLICIES, read_seconds, read_size, read_time_back
from proxy.server.options import OPTIONS


def test_nothing_given() -> None:
    listener = ListenerSettings(parse_listen("redis://127.0.0.1:6380"))
    upstream = parse_upstream("redis://127.0.0.1:6379")
    policy = PolicySource(PolicyKind.PACKAGED, "default")
    assert load_settings({}, {}) == Settings((RouteSettings("default", (listener,), upstream, policy),))


def test_flags_win_over_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "keyrail.yaml"
    file.write_text("workers: 2\ndrain: 3s\npooling: off\nlisten: [127.0.0.1:7001, 127.0.0.1:7002]\npolicy: p.yaml\n")
    settings = load_settings(
        {"workers": ["4"], "config": [str(file)]}, {"KEYRAIL_WORKERS": "3", "KEYRAIL_DRAIN": "500ms"}
    )
    assert (settings.workers, settings.drain, settings.pooling) == (4, 0.5, False)
    (route,) = settings.routes
    assert [listener.address.port for listener in route.listeners] == [7001, 7002]
    assert route.policy == PolicySource(PolicyKind.FILE, str(tmp_path / "p.yaml"))
    again = load_settings({"listen": ["h:1"], "policy": ["none"]}, {"KEYRAIL_CONFIG": str(file)})
    assert [str(listener.address) for listener in again.routes[0].listeners] == ["redis://h:1"]
    assert again.routes[0].policy.kind is PolicyKind.NONE


def test_every_option_is_a_variable_and_a_key(tmp_path: Path) -> None:
    texts = {
        "listen": "redis://h:1",
        "upstream": "redis://h:2",
        "policy": "none",
        "present": "cluster",
        "advertise": "h:1,h:2",
        "client_auth": "none",
        "client_password_file": "/run/secrets/clients",
        "read_from": "replicas",
        "aliases": "FLUSHALL=ADMINFLUSHALL,CONFIG=X",
        "zone": "eu-1a",
        "admin": "off",
        "workers": "3",
        "pooling": "off",
        "drain": "1m",
        "shutdown_delay": "5s",
        "accept_patience": "2s",
        "ready_when": "any",
        "upstream_silence": "4s",
        "upstream_timeout": "3s",
        "connect_timeout": "2",
        "failover_wait": "3s",
        "upstream_connections": "5",
        "private_connections": "6",
        "max_clients": "7",
        "client_idle_timeout": "5m",
        "client_keepalive": "200s",
        "client_output_limit": "7KB",
        "client_query_limit": "8mb",
        "buffer_limit": "9GB",
        "log_format": "json",
        "log_level": "debug",
        "traffic_memory": "100MB",
        "traces": "9",
        "violations": "/var/log/violations",
        "redact": "shape",
        "watch": "off",
        "policy_tests": "refuse",
        "state_dir": "/var/lib/keyrail",
        "state_size": "1MB",
        "incidents": "/var/lib/keyrail/incidents",
        "admin_token_file": "/run/secrets/token",
    }
    assert texts.keys() | {"embedded"} == {option.name for option in OPTIONS}
    file = tmp_path / "all.yaml"
    file.write_text("".join(f"{name}: {text}\n" for name, text in texts.items()))
    from_file = load_settings({"config": [str(file)]}, {})
    assert from_file == load_settings({}, {f"KEYRAIL_{name.upper()}": text for name, text in texts.items()})
    assert from_file == load_settings({name: [text] for name, text in texts.items()}, {})
    assert from_file.admin is None
    assert from_file.client_output_limit == 7 * 1024


def test_an_option_that_is_no_more_names_the_new_one(tmp_path: Path) -> None:
    file = tmp_path / "old.yaml"
    file.write_text("workers: 2\nstate: state.json\n")
    new = "use --state-dir DIR (state_dir) instead of a file: to keep what your file has, copy it to DIR/state.json"
    for place, flags, variables in (
        ("--state", {"state": ["f"]}, {}),
        ("KEYRAIL_STATE", {}, {"KEYRAIL_STATE": "f"}),
        (f"{file}:2: state", {"config": [str(file)]}, {}),
    ):
        with pytest.raises(ConfigError) as error:
            load_settings(flags, variables)
        assert error.value.problems == (f"{place}: {new}",)


def test_evidence_needs_some_room() -> None:
    assert load_settings({"state_size": ["1MB"]}, {}).state_size == 1 << 20
    with pytest.raises(ConfigError, match="--state-size: expected at least 1MB, got '1023KB'"):
        load_settings({"state_size": ["1023KB"]}, {})


def test_aliases_are_text_or_a_mapping(tmp_path: Path) -> None:
    file = tmp_path / "aliases.yaml"
    for text in ("{flushall: AdminFlushall, CONFIG: x}", "flushall=AdminFlushall, config=X"):
        file.write_text(f"aliases: {text if text.startswith('{') else repr(text)}\n")
        (route,) = load_settings({"config": [str(file)]}, {}).routes
        assert route.aliases == (("FLUSHALL", "ADMINFLUSHALL"), ("CONFIG", "X"))
    file.write_text("aliases: {FLUSHALL: [A, B]}\n")
    with pytest.raises(ConfigError, match=r"aliases.yaml:1: aliases.FLUSHALL: expected text, got a list"):
        load_settings({"config": [str(file)]}, {})


def test_routes(tmp_path: Path) -> None:
    file = tmp_path / "routes.yaml"
    file.write_text(
        "admin: 127.0.0.1:9000\nroutes:\n"
        "  - {name: cache, listen: h:1, upstream: h:2, policy: bench}\n"
        "  - {name: queue, listen: [h:3, 'unix:///q'], embedded: on}\n"
    )
    settings = load_settings({"config": [str(file)]}, {})
    assert settings.admin == AdminSettings("127.0.0.1", 9000)
    cache, queue = settings.routes
    assert (cache.name, str(cache.upstream), str(cache.policy)) == ("cache", "redis://h:2", "bench")
    assert (queue.embedded, str(queue.policy), str(queue.listeners[1].address)) == (
        Embedded.SINGLE,
        "tour",
        "unix:///q",
    )


def test_files_in_a_file_lie_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "keyrail.yaml"
    file.write_text("violations: violations.json\npolicy: mine.yaml\nstate_dir: state\n")
    settings = load_settings({"config": [str(file)]}, {})
    assert settings.violations == ViolationsSettings(tmp_path / "violations.json")
    assert settings.routes[0].policy.path == tmp_path / "mine.yaml"
    assert settings.state_dir == tmp_path / "state"
    assert load_settings({"violations": ["v"]}, {}).violations == ViolationsSettings(Path("v"))


def test_reads_from_replicas_are_an_option_where_there_is_no_policy_of_ones_own() -> None:
    for policy in ({}, {"policy": ["none"]}, {"policy": ["cache"]}):
        (route,) = load_settings({"read_from": ["replicas"], **policy}, {}).routes
        assert route.read_from is ReadFrom.REPLICAS
    assert load_settings({}, {}).routes[0].read_from is ReadFrom.PRIMARY
    with pytest.raises(ConfigError) as caught:
        load_settings({"read_from": ["replicas"], "policy": ["mine.yaml"]}, {})
    assert str(caught.value) == (
        "--read-from: conflicts with the policy of --policy: say it there, in a rule such as "
        'replicas: {replica_reads: {keys: ["*"], max_lag: 1s}}'
    )


def test_a_cluster_of_keyrails_has_addresses() -> None:
    (route,) = load_settings({"present": ["cluster"], "advertise": ["10.0.0.1:6380, [::1]:6381,name:1"]}, {}).routes
    assert route.advertised == (("10.0.0.1", 6380), ("::1", 6381), ("name", 1))
    assert load_settings({"present": ["single"]}, {}).routes[0].advertised == ()


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (
            {"present": ["cluster"]},
            "--present: expected the addresses of all Keyrails, as in --advertise 10.0.0.1:6380",
        ),
        ({"advertise": ["h:1"]}, "--advertise: expected --present cluster, too"),
        (
            {"client_keepalive": ["500ms"]},
            "--client-keepalive: expected 0, or whole seconds from 1s to 32767s, such as 200s, got '500ms'",
        ),
        (
            {"aliases": ["FLUSHALL"]},
            "--aliases: expected renamed commands, such as FLUSHALL=ADMINFLUSHALL, got 'FLUSHALL'",
        ),
        ({"aliases": ["FLUSH=X"]}, "--aliases: expected a command of Redis before '=', got 'FLUSH'"),
        ({"aliases": ["DEL=UNLINK"]}, "--aliases: expected a name that is no command's own behind '=', got 'UNLINK'"),
        ({"aliases": ["GET=X,SET=x"]}, "--aliases: a name stands for two commands: 'GET=X,SET=x'"),
        ({"advertise": ["h"]}, "--advertise: expected addresses such as 10.0.0.1:6380,10.0.0.2:6380, got 'h'"),
        ({"advertise": ["h:0"]}, "--advertise: expected addresses such as 10.0.0.1:6380,10.0.0.2:6380, got 'h:0'"),
        (
            {"advertise": ["h:70000"]},
            "--advertise: expected addresses such as 10.0.0.1:6380,10.0.0.2:6380, got 'h:70000'",
        ),
        (
            {"present": ["cluster"], "advertise": ["h"]},
            "--advertise: expected addresses such as 10.0.0.1:6380,10.0.0.2:6380, got 'h'",
        ),
        ({"present": ["both"], "advertise": ["h:1"]}, "--present: expected single or cluster, got 'both'"),
        ({"advertise": ["h:1,h:1"]}, "--advertise: an address stands there twice: 'h:1,h:1'"),
        ({"present": ["both"]}, "--present: expected single or cluster, got 'both'"),
    ],
)
def test_addresses_that_cannot_be(flags: dict[str, list[str]], problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_settings(flags, {})
    assert raised.value.problems == (problem,)


def test_embedded_and_upstream_answer_one_question() -> None:
    assert load_settings({"embedded": ["on"]}, {"KEYRAIL_UPSTREAM": "redis://h"}).routes[0].embedded
    assert load_settings({"embedded": ["cluster"]}, {}).routes[0].embedded is Embedded.CLUSTER
    assert not load_settings({"embedded": ["off"]}, {}).routes[0].embedded
    assert not load_settings({"upstream": ["redis://h"]}, {"KEYRAIL_EMBEDDED": "on"}).routes[0].embedded
    with pytest.raises(ConfigError, match="conflicts with the upstream of --upstream"):
        load_settings({"embedded": ["on"], "upstream": ["redis://h"]}, {})


def test_listen_variable_holds_several() -> None:
    settings = load_settings({}, {"KEYRAIL_LISTEN": "h:1, unix:///x h:2"})
    assert len(settings.routes[0].listeners) == 3


def test_variables_of_others_are_left_alone() -> None:
    assert load_settings({}, {"KEYRAIL_PORT": "tcp://10.0.0.1:80", "KEYRAIL_SERVICE_HOST": "x"}) == load_settings(
        {}, {}
    )


def problems_of(flags: dict[str, list[str]], environment: dict[str, str]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_settings(flags, environment)
    return list(caught.value.problems)


def test_everything_wrong_is_reported_at_once(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(
        "workers: many\nworkers: 2\npoling: on\nroutes:\n"
        "  - {name: a b, listen: [], upstream: 'http://h'}\n"
        "  - {name: c, listen: h:1}\n"
        "  - {name: c, listen: h:1, upstream: {url: x}, policy: ''}\n"
        "  - words\n"
    )
    problems = problems_of({"config": [str(file)], "drain": ["soon"]}, {"KEYRAIL_POOLING": "maybe"})
    shown = "\n".join(problems)
    for expected in (
        "KEYRAIL_POOLING: expected on or off, got 'maybe'",
        "--drain: expected a time such as 500ms, 30s, 2m or 10 (seconds), got 'soon'",
        f"{file}:2: workers: found a second time",
        f"{file}:1: workers: expected a whole number from 1 to 256, got 'many'",
        f"{file}:3: poling: unknown key, expected one of",
        "watch, workers, zone; did you mean pooling?",
        f"{file}:5: routes[0].name: expected a name",
        f"{file}:5: routes[0].listen: expected at least one URL",
        f"{file}:5: routes[0].upstream: bad URL 'http://h'",
        f"{file}:6: routes[1]: expected 'upstream'",
        f"{file}:7: routes[2].name: a second route named 'c'",
        f"{file}:7: routes[2].upstream: expected text, got a mapping",
        f"{file}:7: routes[2].policy: expected a file, none, or one of {', '.join(PACKAGED_POLICIES)}",
        f"{file}:8: routes[3]: expected a route",
    ):
        assert expected in shown
    assert len(problems) == 13


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- 1", "expected options"),
        ("routes: {}", "expected a list of routes"),
        ("routes: []", "expected a list of routes"),
        ("listen: h:1\nroutes: [{name: a, listen: h:2, upstream: h:3}]", "move it to a route"),
        ("routes: [{name: a, listen: h:1, upstream: h}]", "expected redis://[USER:PASSWORD@]HOST"),
        ("a: [", "bad.yaml:1: found the end of the file, expected a value"),
        ("listen: [h:1, h:1]", "redis://h:1: listened on twice"),
        (
            "routes: [{name: a, listen: h:1, upstream: h:9}, {name: b, listen: 'h:1', upstream: h:9}]",
            "listened on twice",
        ),
    ],
)
def test_files_refused(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    problems = problems_of({"config": [str(file)]}, {})
    assert any(expected in problem for problem in problems), problems


def test_a_flag_for_several_routes_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text("routes: [{name: a, listen: h:1, upstream: h:9}, {name: b, listen: h:2, upstream: h:9}]")
    (problem,) = problems_of({"config": [str(file)], "policy": ["none"]}, {})
    assert problem.startswith("--policy: this option is about one route")
    (problem,) = problems_of({"config": [str(file)]}, {"KEYRAIL_LISTEN": "h:3"})
    assert problem.startswith("KEYRAIL_LISTEN: this option is about one route")


def test_mistakes_in_a_file_come_in_its_order(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("workers: many\npoling: on\nadmin: here\nlisten: 6\n")
    lines = [problem.removeprefix(f"{file}:")[:2] for problem in problems_of({"config": [str(file)]}, {})]
    assert lines == ["1:", "2:", "3:", "4:"]


def test_an_empty_flag_is_no_default() -> None:
    """A script whose variable is unset must not start with other options than it meant."""
    assert problems_of({"config": [""]}, {}) == ["--config: expected a file"]
    assert problems_of({"violations": [""]}, {}) == ["--violations: expected stderr, off or a file"]
    assert load_settings({}, {"KEYRAIL_CONFIG": "", "KEYRAIL_VIOLATIONS": ""}) == load_settings({}, {})


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    (problem,) = problems_of({"config": [str(tmp_path / "no.yaml")]}, {})
    assert "no.yaml" in problem
    assert "\n" not in problem


@pytest.mark.parametrize(
    ("text", "seconds"), [("10", 10), ("0", 0), ("2.5", 2.5), ("500ms", 0.5), ("30s", 30), ("2m", 120), ("1h", 3600)]
)
def test_seconds(text: str, seconds: float) -> None:
    assert read_seconds(text) == seconds


def test_a_time_back_may_be_days() -> None:
    assert [read_time_back(text) for text in ("7d", "9999d", "12h", "10")] == [604_800, 863_913_600, 43_200, 10]
    for text in ("0d", "0", "1.5d", "7 d", "10000d", "", "d", "1w", "nan"):
        with pytest.raises(ValueError, match="such as 30m, 12h or 7d"):
            read_time_back(text)


@pytest.mark.parametrize(
    ("text", "size"), [("1B", 1), ("1k", 1000), ("1KB", 1024), ("8 MB", 1 << 23), ("2gb", 2 << 30)]
)
def test_sizes(text: str, size: int) -> None:
    assert read_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "0MB", "1", "-1", "1TB", "1.5MB", "x"])
def test_sizes_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a size"):
        read_size(text)


@pytest.mark.parametrize("text", ["", "localhost", "h:70000", "h:x", "a b:1", "http://h:1"])
def test_admin_refused(text: str) -> None:
    (problem,) = problems_of({"admin": [text]}, {})
    assert "expected HOST:PORT or off" in problem
