"""`serve` for its operator: readiness, routes, sockets, figures, reloads, workers that die, the end."""

import os
import re
import signal
import ssl
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from proxy import __version__
from proxy.build_form import BUILD_FORM
from tests.conftest import Fleet
from tests.engines import Engine, free_port
from tests.net.certificates import authority, issue
from tests.resp import Address, Closed, Wire, eventually
from tests.server.running import Running, serve, ticks

REFUSE_KEYS = """
keyrail: 1
rules:
  no-keys: {refuse: [KEYS], because: it is slow, instead: use SCAN, mode: enforce}
"""


def await_refusal(port: int) -> None:
    """Wait until nobody listens there any more."""
    for _ in ticks():
        try:
            Wire(Address(port=port)).close()
        except ConnectionRefusedError:
            return
    raise AssertionError("still accepting connections")


@pytest.fixture
def upstream(fleet: Fleet) -> str:
    return fleet.engine("valkey-9.1", "server").url


def test_the_ready_line_names_everything(upstream: str) -> None:
    with serve("--upstream", upstream, "--workers", "2") as running:
        line = running.ready().ready_line()
        assert re.fullmatch(
            rf"keyrail: ready on redis://127\.0\.0\.1:\d+ -> {upstream} policy default generation 1; "
            rf"2 workers, {BUILD_FORM}; admin http://127\.0\.0\.1:\d+",
            line,
        )
        assert running.http("/healthz") == (200, "ok\n")
        assert running.await_http("/readyz", 200) == "ready\n"
        assert running.http("/nothing")[0] == 404
        assert running.metric(f'keyrail_build_info{{form="{BUILD_FORM}",version="{__version__}"}}') == 1
        assert running.metric("keyrail_workers") == 2
        assert running.stop() == 0


def test_admin_off(upstream: str) -> None:
    with serve("--upstream", upstream, "--admin", "off") as running:
        assert "admin" not in running.ready().ready_line()
        assert running.stop() == 0


def test_an_upstream_that_is_down_is_no_error(new_engine: Callable[..., Engine]) -> None:
    engine = new_engine()
    engine.kill()
    with serve("--upstream", engine.url, "--policy", "none") as running:
        assert f"-> {engine.url} (down, " in running.ready().ready_line()
        status, body = running.http("/readyz")
        assert (status, body.startswith(f"route default: {engine.url}")) == (503, True)
        assert running.http("/healthz")[0] == 200
        assert running.metric('keyrail_route_ready{route="default"}') == 0
        engine.start()
        running.await_line(r"^keyrail: route default: the upstream answers \(valkey 9\.1")
        running.await_http("/readyz", 200)
        with running.wire() as wire:
            assert wire.ask("PING") == b"+PONG\r\n"
        engine.kill()
        running.await_line(r"^keyrail: route default: not ready: ")
        running.await_http("/readyz", 503)


def test_routes_have_their_own_listeners_and_policies(upstream: str, tmp_path: Path, socket_folder: Path) -> None:
    strict, socket_file = tmp_path / "strict.yaml", socket_folder / "second.sock"
    strict.write_text(REFUSE_KEYS)
    (tmp_path / "keyrail.yaml").write_text(
        f"admin: 127.0.0.1:0\nroutes:\n"
        f"  - {{name: strict, listen: '127.0.0.1:0', upstream: '{upstream}', policy: strict.yaml}}\n"
        f"  - {{name: open, listen: ['127.0.0.1:0', 'unix://{socket_file}?mode=600'], upstream: '{upstream}',"
        f" policy: none}}\n"
    )
    with serve("--config", str(tmp_path / "keyrail.yaml")) as running:
        first, second = running.ready().ports()
        with running.wire(first) as wire:
            assert wire.ask("KEYS", "x").startswith(b"-DENIED keyrail/no-keys: ")
            assert wire.ask("SET", "a", "1") == b"+OK\r\n"
        with running.wire(second) as wire:
            assert wire.ask("KEYS", "x") == b"*0\r\n"
        with Wire(Address(path=str(socket_file))) as wire:
            assert wire.ask("GET", "a") == b"$1\r\n1\r\n"
        assert stat.S_IMODE(socket_file.stat().st_mode) == 0o600
        sample = 'keyrail_verdicts_total{app="unknown",mode="enforce",route="strict",rule="no-keys",what="refused"}'
        running.await_metric(sample, 1)
        eventually(lambda: [key["key"] for key in running.json("/hotkeys?route=strict")["keys"]] == ["a"])
        assert running.json("/hotkeys?route=open")["keys"] == []
        assert running.http("/hotkeys") == (400, '{"error": "route: expected one of strict, open"}')
        assert running.stop() == 0
        assert not socket_file.exists()


@pytest.mark.parametrize(("when", "status"), [("all", 503), ("any", 200)])
def test_one_dead_redis_need_not_take_the_others_traffic(upstream: str, tmp_path: Path, when: str, status: int) -> None:
    (tmp_path / "keyrail.yaml").write_text(
        f"admin: 127.0.0.1:0\nready_when: {when}\nroutes:\n"
        f"  - {{name: alive, listen: '127.0.0.1:0', upstream: '{upstream}', policy: none}}\n"
        f"  - {{name: dead, listen: '127.0.0.1:0', upstream: 'redis://127.0.0.1:{free_port()}', policy: none}}\n"
    )
    with serve("--config", str(tmp_path / "keyrail.yaml")) as running:
        running.ready()
        assert running.await_http("/readyz?route=alive", 200) == "ready\n"
        why = running.await_http("/readyz?route=dead", 503)
        assert re.fullmatch(r"route dead: redis://\S+: [Cc]onnection refused\n", why)
        assert running.http("/readyz") == (status, "ready\n" if when == "any" else why)
        with running.wire(running.ports()[0]) as wire:
            assert wire.ask("PING") == b"+PONG\r\n"
        for wrong in ("/readyz?route=other", "/readyz?routes=alive"):
            expected = "expected no parameter, or route=NAME with one of alive, dead\n"
            assert running.http(wrong) == (400, expected)


def test_a_stale_unix_socket_is_replaced(upstream: str, socket_folder: Path) -> None:
    file = socket_folder / "keyrail.sock"
    arguments = ["--listen", f"unix://{file}", "--upstream", upstream, "--policy", "none"]
    with serve(*arguments) as running:
        running.ready()
    assert file.is_socket()
    with serve(*arguments, "--workers", "2") as running:
        running.ready()
        for _ in range(4):
            with Wire(Address(path=str(file))) as wire:
                assert wire.ask("PING") == b"+PONG\r\n"
        # A worker that ends in good order leaves the file to the others.
        os.kill(running.workers()[0], signal.SIGTERM)
        running.await_metric("keyrail_worker_restarts_total", 1)
        with Wire(Address(path=str(file))) as wire:
            assert wire.ask("PING") == b"+PONG\r\n"
        assert running.stop() == 0
    assert not file.exists()


def test_tls_in_front_and_behind(new_engine: Callable[..., Engine], tmp_path: Path) -> None:
    ca = authority(tmp_path, "ca")
    pair, client = issue(tmp_path, "server", ca), issue(tmp_path, "client", ca)
    tls_port = free_port()
    options = {
        "tls-port": str(tls_port),
        "tls-cert-file": str(pair.certificate),
        "tls-key-file": str(pair.key),
        "tls-ca-cert-file": str(ca.certificate),
        "tls-auth-clients": "no",
    }
    try:
        new_engine("redis-7.0", options)
    except RuntimeError:
        pytest.skip("this Redis has no TLS")
    upstream = f"rediss://127.0.0.1:{tls_port}?ssl_ca_certs={ca.certificate}"
    tls = f"?certificate={pair.certificate}&key={pair.key}&client_ca={ca.certificate}"
    with serve("--listen", f"rediss://127.0.0.1:0{tls}", "--upstream", upstream) as running:
        (port,) = running.ready().ports()
        running.await_http("/readyz", 200)
        context = ssl.create_default_context(cafile=str(ca.certificate))
        context.load_cert_chain(client.certificate, client.key)
        with Wire(Address(port=port), tls=context) as wire:
            assert wire.ask("PING") == b"+PONG\r\n"


def test_figures_of_the_busiest_keys(upstream: str) -> None:
    with serve("--upstream", upstream, "--workers", "2") as running:
        running.ready()
        for turn in range(10):
            with running.wire() as wire:
                wire.ask("SET", "busy", "1")
                wire.ask("GET", "busy")
                wire.ask("GET", f"calm:{turn}")
        answer = running.json("/hotkeys?count=1&window=60")
        for _ in ticks():
            if sum(key["count"] for key in answer["keys"]) >= 20 and answer["keys"][0]["share"] < 0.67:
                break
            answer = running.json("/hotkeys?count=1&window=60")  # figures are up to a second old
        assert answer["window"] == 60
        assert 0 <= answer["age"] < 10
        (busy,) = answer["keys"]
        known = {"key": "busy", "count": 20, "error": 0, "reads": 10, "writes": 10, "hot": False}
        assert {name: busy[name] for name in known} == known
        assert busy["share"] == pytest.approx(2 / 3, abs=1e-5)
        eventually(lambda: running.json("/hotkeys?count=1")["keys"][0]["clients"] != [])
        eventually(lambda: running.json("/patterns")["patterns"][0]["pattern"] == "busy")
        for path in ("/slots", "/clients", "/slow", "/traffic", "/hotkeys?window=3600&by=bytes"):
            assert running.http(path)[0] == 200
        for query, expected in (
            ("count=0", "count: expected a whole number from 1 to 1000, got '0'"),
            ("window=3601", "window: expected 5, 10, 60, 600 or 3600 seconds, got '3601'"),
            ("by=size", "by: expected one of all, reads, writes, bytes, got 'size'"),
            ("route=x", "route: expected one of default"),
            ("cuont=1", "unknown parameter 'cuont', expected count, window, by or route"),
        ):
            assert running.http(f"/hotkeys?{query}")[0] == 400
            assert running.json(f"/hotkeys?{query}") == {"error": expected}


def test_sighup_reloads_in_all_workers_or_none(upstream: str, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("keyrail: 1\nrules: {}\n")
    with serve("--upstream", upstream, "--policy", str(policy), "--workers", "2", "--watch", "off") as running:
        running.ready()
        wires = [running.wire() for _ in range(8)]
        assert all(wire.ask("KEYS", "x") == b"*0\r\n" for wire in wires)
        policy.write_text(REFUSE_KEYS)
        running.process.send_signal(signal.SIGHUP)
        running.await_line("^keyrail: policies reloaded: generation 2$")
        assert all(wire.ask("KEYS", "x").startswith(b"-DENIED keyrail/no-keys") for wire in wires)
        assert running.metric("keyrail_policy_generation") == 2
        policy.write_text("keyrail: 1\nrules: {a: {refuse: KEYS}}\n")
        running.process.send_signal(signal.SIGHUP)
        running.await_line("^keyrail: policies not reloaded: generation 2 stays$")
        assert f"keyrail: {policy}:2: " in running.stderr
        assert all(wire.ask("KEYS", "x").startswith(b"-DENIED") for wire in wires)
        assert running.metric("keyrail_policy_generation") == 2
        assert running.metric("keyrail_policy_reload_failures_total") == 1
        os.kill(running.workers()[0], signal.SIGKILL)
        running.await_metric("keyrail_worker_restarts_total", 1)
        running.await_metric("keyrail_workers", 2)
        for _ in range(8):
            with running.wire() as wire:
                assert wire.ask("KEYS", "x").startswith(b"-DENIED")
        for wire in wires:
            wire.close()
        assert running.stop() == 0


def test_a_worker_that_dies_is_replaced_and_nothing_it_counted_is_lost(upstream: str) -> None:
    with serve("--upstream", upstream, "--policy", "none") as running:
        (victim,) = running.ready().workers()
        pooled = 'keyrail_commands_total{path="pooled",route="default"}'
        with running.wire() as wire:
            for _ in range(5):
                wire.ask("GET", "k")
            running.await_metric(pooled, 5)
            os.kill(victim, signal.SIGKILL)
            with pytest.raises((Closed, ConnectionError)):
                wire.ask("GET", "k")
        # The listening socket stays open meanwhile: this connection waits instead of being refused.
        with running.wire() as wire:
            assert wire.ask("GET", "k") == b"$-1\r\n"
        assert running.workers() != [victim]
        assert re.search(rf"keyrail: worker 0 \(pid {victim}\) ended by signal 9; replacing it", running.stderr)
        running.await_metric(pooled, 6)
        running.await_http("/readyz", 200)
        assert running.stop() == 0


def test_no_worker_outlives_its_supervisor(upstream: str) -> None:
    with serve("--upstream", upstream, "--policy", "none", "--workers", "2") as running:
        workers, (port,) = running.ready().workers(), running.ports()
        assert len(workers) == 2
        running.process.kill()
        for _ in ticks():
            if not any(Path(f"/proc/{pid}").exists() for pid in workers):
                break
        assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    listen = f"127.0.0.1:{port}"
    with serve("--upstream", upstream, "--policy", "none", "--listen", listen) as again, again.ready().wire() as wire:
        assert wire.ask("PING") == b"+PONG\r\n"


def test_clients_are_served_while_the_supervisor_hangs(upstream: str) -> None:
    with serve("--upstream", upstream, "--policy", "none", "--workers", "2") as running:
        ports = running.ready().ports()
        with running.wire() as early:
            assert early.ask("SET", "k", "v") == b"+OK\r\n"
            os.kill(running.process.pid, signal.SIGSTOP)
            try:
                assert early.ask("GET", "k") == b"$1\r\nv\r\n"
                for _ in range(8):
                    with running.wire(ports[0]) as late:
                        assert late.ask("GET", "k") == b"$1\r\nv\r\n"
            finally:
                os.kill(running.process.pid, signal.SIGCONT)
        running.await_http("/readyz", 200)
        assert "has not reported" not in running.stderr


@pytest.fixture
def engine(fleet: Fleet) -> Engine:
    return fleet.engine("valkey-9.1", "server")


@contextmanager
def blocked_client(engine: Engine, running: Running) -> Iterator[Wire]:
    """A client that waits in Redis for what never comes by itself."""
    engine.await_info("clients", "blocked_clients", "0")
    with running.wire() as wire:
        wire.say("BLPOP", "queue", "0")
        engine.await_info("clients", "blocked_clients", "1")
        yield wire


def test_sigterm_lets_clients_have_what_they_are_owed(engine: Engine) -> None:
    with serve("--upstream", engine.url, "--policy", "none", "--drain", "10m") as running:
        (port,) = running.ready().ports()
        with running.wire() as idle, blocked_client(engine, running) as blocked:
            assert idle.ask("PING") == b"+PONG\r\n"
            running.process.send_signal(signal.SIGTERM)
            await_refusal(port)
            engine.do("RPUSH", "queue", "job")
            assert blocked.frame() == b"*2\r\n$5\r\nqueue\r\n$3\r\njob\r\n"
            with pytest.raises(Closed):
                idle.frame()
        status, _ = running.exit()
        assert status == 0


def test_a_worker_that_is_stuck_is_not_ready_until_it_is_replaced(upstream: str) -> None:
    with serve("--upstream", upstream, "--policy", "none") as running:
        (worker,) = running.ready().workers()
        os.kill(worker, signal.SIGSTOP)
        said = running.await_http("/readyz", 503)
        assert re.match(r"worker 0 has not reported for \d+ s\n|1 of 1 workers are not serving\n", said)
        running.await_http("/readyz", 200)


def test_without_a_worker_the_process_is_not_healthy(upstream: str) -> None:
    """It is what the image's health check and the liveness probe of Kubernetes ask."""
    with serve("--upstream", upstream, "--policy", "none") as running:
        (worker,) = running.ready().workers()
        assert running.http("/healthz") == (200, "ok\n")
        os.kill(worker, signal.SIGSTOP)
        assert running.await_http("/healthz", 503) == "no worker serves\n"
        running.await_http("/healthz", 200)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_is_at_once(engine: Engine, how: signal.Signals) -> None:
    with serve("--upstream", engine.url, "--policy", "none", "--drain", "10m") as running:
        running.ready()
        with blocked_client(engine, running):
            running.process.send_signal(how)
            assert running.await_http("/readyz", 503) == "stopping\n"
            assert running.process.poll() is None
            running.process.send_signal(how)
            assert running.exit()[0] == 0


def test_the_drain_time_is_the_limit(engine: Engine) -> None:
    with serve("--upstream", engine.url, "--policy", "none", "--drain", "300ms") as running:
        running.ready()
        with blocked_client(engine, running) as blocked:
            began = time.monotonic()
            assert running.stop() == 0
            assert time.monotonic() - began >= 0.3
            with pytest.raises(Closed):
                blocked.frame()


def test_after_sigterm_clients_are_accepted_until_the_delay_is_over(upstream: str) -> None:
    with serve("--upstream", upstream, "--policy", "none", "--shutdown-delay", "10m") as running:
        (port,) = running.ready().ports()
        with running.wire() as before:
            assert before.ask("PING") == b"+PONG\r\n"
            running.process.send_signal(signal.SIGTERM)
            assert running.await_http("/readyz", 503) == "stopping\n"
            with running.wire() as after:
                assert after.ask("PING") == b"+PONG\r\n"
            assert before.ask("PING") == b"+PONG\r\n"
        running.process.send_signal(signal.SIGTERM)
        await_refusal(port)
        assert running.exit()[0] == 0


def test_sigint_is_not_delayed(upstream: str) -> None:
    with serve("--upstream", upstream, "--policy", "none", "--shutdown-delay", "10m") as running:
        running.ready().process.send_signal(signal.SIGINT)
        assert running.exit()[0] == 0


def test_the_environment_configures_it_too(upstream: str) -> None:
    variables = {"KEYRAIL_UPSTREAM": upstream, "KEYRAIL_POLICY": "none", "KEYRAIL_WORKERS": "2"}
    with serve(variables=variables) as running:
        assert f"-> {upstream} policy none generation 1; 2 workers" in running.ready().ready_line()


def test_a_password_file_is_read_anew(new_engine: Callable[..., Engine], tmp_path: Path) -> None:
    engine = new_engine("valkey-9.1", {"requirepass": "right"})
    secret = tmp_path / "password"
    secret.write_text("wrong\n")
    with serve("--upstream", f"{engine.url}?password_file={secret}", "--policy", "none") as running:
        assert "(down, " in running.ready().ready_line()
        assert "wrong" not in running.stderr.lower().replace("wrongpass", "")
        secret.write_text("right\n")
        running.await_line("^keyrail: route default: the upstream answers")
        with running.wire() as wire:
            assert wire.ask("SET", "k", "v") == b"+OK\r\n"
