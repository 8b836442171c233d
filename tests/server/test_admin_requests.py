"""The admin port answers every request, and never with 500.

Random requests, well-formed and not, over raw sockets; and requests that have caused a fault before.
"""

from __future__ import annotations

import json
import random
import re
import socket
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import Fleet
from tests.resp import PATIENCE_SECONDS, pack
from tests.server.running import Running, serve

POLICY = """
keyrail: 1
apps: {checkout: {match: {client_name: checkout}}}
rules: {walks: {refuse: [KEYS]}}
"""
DEEP = 100_000
PATHS = (
    *("/hotkeys", "/patterns", "/slots", "/clients", "/slow", "/traffic", "/nodes"),
    *("/incidents", "/remedies", "/remedies/1"),
    *("/rules", "/violations", "/policy", "/policy/reload", "/policy/kill-switch", "/metrics", "/info", "/", "/page/x"),
    *(
        "/healthz",
        "/readyz",
        "/grafana.json",
        "/remedies/99999999999999999999",
        "/remedies/\u0663",
        "/none",
        "//",
        "/%",
    ),
)
NAMES = ("count", "window", "by", "route", "nosuch", "", "%00", "count[]")
VALUES = (
    "1",
    "60",
    "7",
    "0",
    "-1",
    "+1",
    "1_0",
    " 1",
    "%D9%A3",
    "%00",
    "default",
    "all",
    "9" * 400,
    "\ud7ff",
    "%ff",
    "",
)
METHODS = ("GET", "POST", "DELETE", "HEAD", "PUT", "OPTIONS", "PATCH", "get", "TRACE")
JSON = (
    *("{}", "[]", "null", "{", "", "NaN", '"x"', "1e999", "9" * 5000, '{"for": ' + "9" * 5000 + "}"),
    *("[" * DEEP, '{"a":' * DEEP, '{"for": ' + "[" * DEEP + "]" * DEEP + "}"),
)
FIELDS = ("key", "incident", "route", "app", "rate", "for", "because", "dry_run", "switch", "nosuch")
GIVEN: tuple[object, ...] = (
    "x",
    "on",
    "off",
    "1/s",
    "\u0663/s",
    "30m",
    "1e3s",
    "",
    "\ud800",
    "\x00",
    1,
    -1,
    1e308,
    True,
    None,
    [],
    {},
    [[]],
)
HEADERS = (
    *("Content-Type: application/json; charset=nosuch", "Content-Encoding: gzip", "Content-Encoding: br"),
    *("Transfer-Encoding: chunked", "Host: evil.example", "Host: ", "Origin: null", "Authorization: Bearer \xff"),
    *("Accept: text/html", "Range: bytes=0-", "Expect: 100-continue", "X: " + "y" * 5000, "Accept-Encoding: gzip"),
)


@pytest.fixture(scope="module")
def running(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    policy = tmp_path_factory.mktemp("requests") / "policy.yaml"
    policy.write_text(POLICY)
    upstream = fleet.engine("valkey-9.1", "server").url
    with serve("--upstream", upstream, "--policy", str(policy), "--watch", "off") as started:
        yield started.ready()


def exchange(running: Running, request: bytes, *, ends: bool = False) -> tuple[int, bytes]:
    """Status and all that comes until the port closes; 0 where it closes without one. `ends`: no more is sent."""
    host, _, port = running.admin.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS) as peer:
        try:
            peer.sendall(request)
            if ends:
                peer.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # refused before all of it was sent
        answer = b""
        try:
            while piece := peer.recv(1 << 16):
                answer += piece
        except ConnectionError:
            pass
    found = re.match(rb"HTTP/1\.[01] (\d{3}) ", answer)
    return (int(found[1]) if found else 0), answer


def body_of(chance: random.Random) -> str:
    if chance.random() < 0.4:
        return chance.choice(JSON)
    return json.dumps({chance.choice(FIELDS): chance.choice(GIVEN) for _ in range(chance.randrange(6))})


def request_of(chance: random.Random) -> tuple[bytes, bool]:
    """A request, and whether it ends before it says it does."""
    path = chance.choice(PATHS)
    query = "&".join(f"{chance.choice(NAMES)}={chance.choice(VALUES)}" for _ in range(chance.randrange(3)))
    body = body_of(chance).encode("utf-8", "surrogatepass") if chance.random() < 0.6 else b""
    length = len(body) if chance.random() < 0.95 else chance.choice((len(body) + 5, 0, "x", "-1", "\u0663"))
    headers = [f"Content-Length: {length}", "Connection: close", *chance.sample(HEADERS, chance.randrange(3))]
    if not any(each.startswith("Host") for each in headers):
        headers.append("Host: localhost")
    head = f"{chance.choice(METHODS)} {path}?{query} HTTP/1.1\r\n" + "\r\n".join(headers) + "\r\n\r\n"
    return head.encode("utf-8", "surrogatepass") + body, length != len(body) or "chunked" in head or "Expect" in head


def test_random_requests_are_answered_and_never_with_an_error_of_keyrails_own(running: Running) -> None:
    chance = random.Random(11)
    for _ in range(400):
        request, ends = request_of(chance)
        status, answer = exchange(running, request, ends=ends)
        assert status < 500, (request[:300], answer[:300])
    assert "Traceback" not in running.stderr
    assert running.http("/healthz") == (200, "ok\n")


@pytest.mark.parametrize("path", ["/remedies", "/policy/kill-switch"])
@pytest.mark.parametrize("body", ["[" * DEEP, '{"a":' * DEEP, "\xff", "9" * 5000])
def test_a_body_that_is_none_is_the_askers_mistake(running: Running, path: str, body: str) -> None:
    data = body.encode("latin-1")
    for kind in ("application/json", "application/json; charset=nosuch"):
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n"
        status, answer = exchange(running, head.encode() + b"Connection: close\r\n\r\n" + data)
        assert status == 400, answer[:300]
        assert set(json.loads(answer.partition(b"\r\n\r\n")[2])) == {"error"}


@cache
def half_a_gigabyte() -> bytes:
    """So much, deflated to half a megabyte."""
    packing = zlib.compressobj()
    return b"".join(packing.compress(bytes(1 << 20)) for _ in range(500)) + packing.flush()


@pytest.mark.parametrize("path", ["/remedies", "/policy/kill-switch"])
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "identity, Deflate"])
def test_an_encoded_body_is_refused_and_never_decoded(running: Running, path: str, encoding: str) -> None:
    """Half a MB of them could take the event loop seconds."""
    bodies = (b"{}", random.Random(3).randbytes(900_000), half_a_gigabyte())
    before = running.metric("keyrail_supervisor_cpu_seconds_total")
    for body in bodies:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: {encoding}\r\nConnection: close\r\n"
        status, answer = exchange(running, f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert (status, b"without Content-Encoding" in answer) == (415, True)
    assert running.metric("keyrail_supervisor_cpu_seconds_total") - before < 1.0


def test_a_window_that_there_is_not_is_an_error_that_lists_those_that_there_are(running: Running) -> None:
    for window in ("7", "61", "0", "\u0666\u0660", "6_0", "+60"):
        for path in ("/hotkeys", "/patterns", "/slots", "/clients", "/events"):
            quoted = "".join(f"%{byte:02x}" for byte in window.encode())
            status, text = running.http(f"{path}?window={quoted}")
            assert status == 400
            assert json.loads(text) == {"error": f"window: expected 5, 10, 60, 600 or 3600 seconds, got {window!r}"}


def test_a_long_number_is_no_other_remedy(running: Running) -> None:
    """The first digits of a number are a number, too, and not the one that was meant."""
    order = {"key": "k", "app": "all", "rate": "1/s", "because": "x"}
    number = json.loads(running.http("/remedies", order)[1])["id"]
    assert running.http(f"/remedies/{number}".ljust(30, "0"), method="DELETE")[0] == 404
    assert running.http(f"/remedies/{number}", method="DELETE")[0] == 200


def test_off_loopback_metrics_name_no_key_and_no_client(fleet: Fleet) -> None:
    """The start line says so. On loopback they do, but only to a client that calls the port by one of its own names."""
    upstream = fleet.engine("valkey-9.1", "server").url
    for host, tells in (("0.0.0.0", False), ("127.0.0.1", True)):
        with serve("--upstream", upstream, "--admin", f"{host}:0", "--traces", "100000") as running:
            running.ready()
            with running.wire() as wire:
                wire.ask("CLIENT", "SETNAME", "the-client")
                for _ in range(100):
                    wire.send(pack("GET", "the-key") * 50)
                    wire.frames(50)
            if tells:
                for line in ("the-key", "the-client"):
                    while line not in running.http("/metrics")[1]:
                        running.await_http("/readyz", 200)
            text = running.http("/metrics")[1]
            assert "keyrail_commands_total" in text
            for word in ("the-key", "the-client", "library", "address="):
                assert (word in text) == tells, word
            for name in ("evil.example", "192.0.2.1", "[2001:db8::1]", "127.0.0.1.evil.example", "127.1", "localhost."):
                request = f"GET /metrics HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n"
                assert exchange(running, request.encode())[0] == (403 if tells else 200), name


def test_warnings_are_logged_beside_a_file_of_violations(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("keyrail: 1\ndefaults: {mode: warn}\nrules: {walks: {refuse: [KEYS]}}\n")
    upstream = fleet.engine("valkey-9.1", "server").url
    log = tmp_path / "violations"
    with serve("--upstream", upstream, "--policy", str(tmp_path / "policy.yaml"), "--violations", str(log)) as running:
        with running.ready().wire() as wire:
            wire.ask("KEYS", "none")
        running.await_line("rule walks would have refused KEYS")


def test_a_reload_that_leaves_no_rule_is_said(fleet: Fleet, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    upstream = fleet.engine("valkey-9.1", "server").url
    with serve("--upstream", upstream, "--policy", str(policy), "--watch", "off") as running:
        running.ready()
        policy.write_text("keyrail: 1\nrules: {}\n")
        assert running.http("/policy/reload", {})[0] == 200
        running.await_line(rf"^keyrail: {policy} has no rule any more \(1 rule before\): route default checks nothing$")
