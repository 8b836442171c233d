"""Listeners that ask their clients for a login: options, the password file, notices to operators."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from proxy.net.config.address import parse_listen, parse_upstream
from proxy.net.config.client_auth import ClientAuth
from proxy.net.config.settings import ListenerSettings, PolicySource, RouteSettings
from proxy.net.config.strict_url import AddressError
from proxy.server.config import ConfigError, load_settings
from proxy.server.exposure import warnings
from tests.engines import Engine, free_port
from tests.resp import Address, Wire, pack
from tests.server.running import refused, serve, ticks

NewEngine = Callable[..., Engine]
OK = b"+OK\r\n"
PONG = b"+PONG\r\n"
WRONG = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"
NOAUTH = b"-NOAUTH Authentication required.\r\n"


def listeners(*arguments: str) -> list[tuple[ClientAuth, Path | None]]:
    flags: dict[str, list[str]] = {}
    for name, text in zip(arguments[::2], arguments[1::2], strict=True):
        flags.setdefault(name, []).append(text)
    (route,) = load_settings(flags, {}).routes
    return [(each.client_auth, each.password_file) for each in route.listeners]


def test_a_listener_s_url_says_more_than_the_options_of_its_route() -> None:
    assert listeners() == [(ClientAuth.NONE, None)]
    assert listeners("client_auth", "upstream") == [(ClientAuth.UPSTREAM, None)]
    assert listeners("client_password_file", "p", "client_auth", "none") == [(ClientAuth.FILE, Path("p"))]
    assert listeners(
        *("listen", "h:1", "listen", "redis://h:2?client_auth=none", "listen", "unix:///s?client_password_file=/q"),
        *("client_auth", "upstream"),
    ) == [(ClientAuth.UPSTREAM, None), (ClientAuth.NONE, None), (ClientAuth.FILE, Path("/q"))]


def test_one_of_them_decides() -> None:
    with pytest.raises(
        ConfigError, match="--client-password-file: conflicts with client_auth upstream of --client-auth"
    ):
        listeners("client_auth", "upstream", "client_password_file", "p")
    with pytest.raises(AddressError, match="client_auth and client_password_file exclude each other"):
        parse_listen("redis://h:1?client_auth=upstream&client_password_file=p")
    for text in ("file", "yes", ""):
        with pytest.raises(ConfigError, match="expected none or upstream"):
            listeners("client_auth", text)


def test_a_password_file_in_a_config_file_lies_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "keyrail.yaml"
    file.write_text("routes:\n  - {name: a, listen: h:1, upstream: h:2, client_password_file: p}\n")
    assert listeners("config", str(file)) == [(ClientAuth.FILE, tmp_path / "p")]


@pytest.mark.parametrize(
    ("url", "client_auth", "warns"),
    [
        ("0.0.0.0:1", ClientAuth.NONE, True),
        ("10.1.2.3:1", ClientAuth.NONE, True),
        ("[::]:1", ClientAuth.NONE, True),
        ("myhost:1", ClientAuth.NONE, True),
        ("rediss://0.0.0.0:1?certificate=c", ClientAuth.NONE, True),
        ("rediss://0.0.0.0:1?certificate=c&client_ca=d", ClientAuth.NONE, False),
        ("0.0.0.0:1", ClientAuth.UPSTREAM, False),
        ("0.0.0.0:1", ClientAuth.FILE, False),
        ("127.0.0.2:1", ClientAuth.NONE, False),
        ("[::1]:1", ClientAuth.NONE, False),
        ("localhost:1", ClientAuth.NONE, False),
        ("unix:///s", ClientAuth.NONE, False),
    ],
)
def test_a_listener_that_lets_anybody_in_is_warned_about(url: str, client_auth: ClientAuth, warns: bool) -> None:
    listener = ListenerSettings(parse_listen(url), client_auth)
    for upstream, user in (("redis://u:secret@h", "u"), ("redis://:secret@h", "default"), ("redis://h", "default")):
        route = RouteSettings("r", (listener,), parse_upstream(upstream), PolicySource())
        said = "".join(warnings(route))
        assert (f": any client that reaches it acts as user {user!r} of redis://h" in said) is warns
        assert "secret" not in said


def test_the_start_says_so(new_engine: NewEngine) -> None:
    """Of TLS towards Redis that proves nothing, too."""
    url = f"rediss://127.0.0.1:{new_engine().port}?ssl_cert_reqs=none"
    # Redis never answers the TLS handshake, for which the start waits.
    with serve("--listen", "0.0.0.0:0", "--upstream", url, "--connect-timeout", "100ms") as running:
        running.await_line(r"^keyrail: redis://0\.0\.0\.0:\d+ asks clients for no login: .*--client-auth")
        running.await_line(r"^keyrail: rediss://.*: ssl_cert_reqs=none: .*; set ssl_ca_certs")
    with serve("--listen", "0.0.0.0:0", "--upstream", new_engine().url, "--client-auth", "upstream") as running:
        running.ready()
        running.stop()
        assert not any(" warning keyrail: " in line for line in running.stamped)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "cannot read the client passwords in {file}: No such file or directory"),
        (b"# nothing\n\n", "{file}: there is no password in it, so nobody could log in"),
        (b"ok\na secret word\n", "{file}:2: expected a password, or a user and a password"),
        (b"user #abc\n", "{file}:1: expected # and the 64 hexadecimal digits of a SHA-256"),
    ],
)
def test_a_password_file_that_cannot_be_used_ends_the_start(tmp_path: Path, text: bytes | None, problem: str) -> None:
    file = tmp_path / "passwords"
    if text is not None:
        file.write_bytes(text)
    status, lines = refused(["--upstream", "redis://127.0.0.1:1", "--client-password-file", str(file)])
    assert status == 2
    assert len(lines) == 1
    assert problem.format(file=file) in lines[0]
    assert "secret" not in lines[0]


def replace(file: Path, text: bytes) -> None:
    """As an operator should: no reader sees half of it."""
    new = file.with_name("new")
    new.write_bytes(text)
    new.rename(file)


def test_a_file_decides_and_a_changed_one_counts_for_the_next_login(new_engine: NewEngine, tmp_path: Path) -> None:
    engine = new_engine()
    file = tmp_path / "passwords"
    hashed = hashlib.sha256("ü\u00ff".encode()).hexdigest()
    file.write_bytes(b"# who may come\n\nfirst\r\nweb  two\nweb #" + hashed.upper().encode() + b"\n\xff\xfe \xfd\n")
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "keyrail: 1\napps:\n  others: {match: {user: default}}\nrules:\n"
        "  no-flush: {refuse: [FLUSHALL], mode: enforce}\nexceptions:\n"
        "  - {rule: no-flush, app: others, because: they may}\n"
    )
    with serve("--upstream", engine.url, "--client-password-file", str(file), "--policy", str(policy)) as running:
        running.ready()

        def log_in(*login: bytes | str) -> Wire:
            wire = running.wire()
            assert wire.ask("AUTH", *login) == OK, login
            return wire

        with running.wire() as wire:
            for login in (("two",), ("web", "first"), ("nobody", "first"), ("web", "#" + hashed), ("",)):
                assert wire.ask("AUTH", *login) == WRONG, login
            assert wire.ask("PING") == NOAUTH
            wire.send(pack("AUTH", "first") + pack("PING") + pack("AUTH", "wrong") + pack("PING"))
            assert wire.frames(4) == [OK, PONG, WRONG, PONG]
            assert wire.ask("RESET") == b"+RESET\r\n"
            assert wire.ask("PING") == NOAUTH
        log_in("default", "first")
        log_in(b"\xff\xfe", b"\xfd")
        web = log_in("web", "ü\u00ff")
        assert web.ask("FLUSHALL").startswith(b"-DENIED keyrail/no-flush")
        assert log_in("first").ask("FLUSHALL") == OK
        with running.wire() as wire:
            assert wire.ask("HELLO", 3, "AUTH", "web", "two", "SETNAME", "me").startswith(b"%")
            assert wire.ask("CLIENT", "GETNAME") == b"$2\r\nme\r\n"
        # Old and new together, then the new one alone: nobody is refused in between.
        replace(file, b"first\nsecond\n")
        log_in("second")
        old = log_in("first")
        replace(file, b"second\n")
        with running.wire() as wire:
            # Keyrail looks at the file once in a millisecond.
            assert any(wire.ask("AUTH", "first") == WRONG for _ in ticks())
        assert [old.ask("PING"), web.ask("PING")] == [PONG] * 2, "who is logged in stays so"
        replace(file, b"second one too many\n")
        for _ in ticks():
            log_in("second")
            if "what was read before stays in use" in running.stderr:
                break
        running.await_line(r"passwords:1: expected a password.*what was read before stays in use")
    assert engine.info("stats")["acl_access_denied_auth"] == "0", "Redis was asked about none of them"


def test_refused_logins_are_counted_and_told_without_passwords(new_engine: NewEngine, tmp_path: Path) -> None:
    file = tmp_path / "passwords"
    file.write_text("first")
    listen = f"127.0.0.1:{free_port()}"
    arguments = ("--listen", listen, "--upstream", new_engine().url, "--client-password-file", str(file))
    with serve(*arguments) as running:
        with running.ready().wire() as wire:
            for number in range(30):
                assert wire.ask("AUTH", f"mal\r\nlory{number}", "hunter2") == WRONG
            assert wire.ask("AUTH", "first") == OK
        line = running.await_line(r"^keyrail: login refused: .*")
        assert "user mal" in line
        assert line.endswith(f"on {listen}")
        running.await_metric('keyrail_logins_total{outcome="refused",route="default"}', 30.0)
        running.await_metric('keyrail_logins_total{outcome="accepted",route="default"}', 1.0)
        assert running.stderr.count("login refused") <= 3
        assert "hunter2" not in running.stderr


def test_each_listener_asks_as_its_url_says(new_engine: NewEngine, tmp_path: Path, socket_folder: Path) -> None:
    engine = new_engine("valkey-9.1", {"requirepass": "pw"})
    (tmp_path / "passwords").write_text("first")
    sock = socket_folder / "s"
    upstream, file = free_port(), free_port()
    passwords = f"?client_password_file={tmp_path / 'passwords'}"
    arguments = (
        *("--listen", f"127.0.0.1:{upstream}", "--listen", f"redis://127.0.0.1:{file}{passwords}"),
        *("--listen", f"unix://{sock}?client_auth=none", "--client-auth", "upstream", "--workers", "2"),
    )
    with serve(*arguments, "--upstream", f"redis://:pw@127.0.0.1:{engine.port}", "--policy", "none") as running:
        running.ready()
        for _ in range(4):
            with running.wire(upstream) as wire:
                assert [wire.ask("AUTH", "first"), wire.ask("AUTH", "pw"), wire.ask("PING")] == [WRONG, OK, PONG]
            with running.wire(file) as wire:
                assert [wire.ask("AUTH", "pw"), wire.ask("AUTH", "first"), wire.ask("PING")] == [WRONG, OK, PONG]
            with Wire(Address(path=str(sock))) as wire:
                assert wire.ask("PING") == PONG


def test_a_client_that_speaks_as_a_browser_does_is_told_of_once_a_minute(new_engine: NewEngine) -> None:
    with serve("--upstream", new_engine().url, "--client-auth", "upstream", "--policy", "none") as running:
        running.ready()
        for _ in range(3):
            with running.wire() as wire:
                wire.send(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nFLUSHALL\r\n")
                assert wire.remaining() == []
        line = running.await_line(r"^keyrail: .* sent POST or Host: as browsers do")
        assert ": closed the client 127.0.0.1:" in line
        running.await_metric('keyrail_client_closes_total{cause="web_request",route="default"}', 3.0)
        assert running.stderr.count("as browsers do") == 1


@pytest.mark.parametrize("administrator", ["with a login of Redis", "with a password of a file"])
def test_a_change_of_users_counts_in_all_workers(administrator: str, new_engine: NewEngine, tmp_path: Path) -> None:
    """As soon as the administrator has the reply, no worker answers by itself what it remembers from before."""
    engine = new_engine("valkey-9.1", {"requirepass": "pw"})
    file = tmp_path / "passwords"
    file.write_text("pw")
    asking, with_file = free_port(), free_port()
    arguments = (
        *("--listen", f"redis://127.0.0.1:{asking}?client_auth=upstream"),
        *("--listen", f"redis://127.0.0.1:{with_file}?client_password_file={file}"),
        *("--upstream", f"redis://:pw@127.0.0.1:{engine.port}", "--policy", "none", "--workers", "2"),
    )
    with serve(*arguments) as running, ExitStack() as held:
        running.ready()

        def clients() -> list[Wire]:
            # Of four that come one after another no worker has fewer than one.
            return [held.enter_context(running.wire(asking)) for _ in range(4)]

        for wire in clients() * 2:
            assert wire.ask("AUTH", "pw") == OK
        admin = held.enter_context(running.wire(asking if administrator == "with a login of Redis" else with_file))
        assert admin.ask("AUTH", "pw") == OK
        assert admin.ask("CONFIG", "SET", "requirepass", "other") == OK
        for wire in clients():
            assert wire.ask("AUTH", "pw") == WRONG


def test_a_redis_that_is_away_closes_who_wants_to_log_in(new_engine: NewEngine) -> None:
    engine = new_engine("valkey-9.1", {"requirepass": "pw"})
    url = f"redis://:pw@127.0.0.1:{engine.port}"
    with serve("--upstream", url, "--client-auth", "upstream", "--policy", "none") as running:
        running.ready()
        engine.kill()
        with running.wire() as wire:
            wire.say("AUTH", "pw")
            assert wire.remaining() == []
        engine.start()
        for _ in ticks():
            with running.wire() as wire:
                wire.say("AUTH", "pw")
                wire.half_close()
                if wire.remaining() == [OK]:
                    return
        raise AssertionError("nobody can log in again")
