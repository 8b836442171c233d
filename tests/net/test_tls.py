"""TLS: which clients get in, renewed files are used at once, and broken files are named and change nothing."""

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import uvloop

from proxy.net.config.address import ListenerTls, UpstreamTls, Verify
from proxy.net.config.strict_url import Secret
from proxy.net.connection.tls import TlsError, handshake_failure, listener_context, reason_of, upstream_context
from tests.net.certificates import Pair, authority, issue


def fail(text: str) -> None:
    raise AssertionError(text)


@contextlib.asynccontextmanager
async def listening(context: ssl.SSLContext) -> AsyncIterator[int]:
    """Serve an echo of one line."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            writer.write(await reader.readline())
            await writer.drain()
            writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def say(port: int, context: ssl.SSLContext, name: str = "127.0.0.1") -> tuple[bytes, str]:
    """Return the echo and the common name of the server's certificate."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    certificate = writer.get_extra_info("peercert")
    writer.write(b"hello\n")
    echo = await reader.readline()
    writer.close()
    with contextlib.suppress(ssl.SSLError, ConnectionError):
        await writer.wait_closed()
    return echo, certificate["subject"][0][0][1]


def client(ca: Pair, own: Pair | None = None) -> ssl.SSLContext:
    tls = UpstreamTls(
        ca_file=ca.certificate,
        certificate=own.certificate if own else None,
        key=own.key if own else None,
    )
    return upstream_context(tls, fail).current()


def copy(pair: Pair, to: Pair) -> None:
    to.certificate.write_bytes(pair.certificate.read_bytes())
    to.key.write_bytes(pair.key.read_bytes())


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[..., None]:
    def run(main: object) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(main)  # type: ignore[arg-type]  # a coroutine, whatever the test calls it

    return run


def test_a_renewed_certificate_counts_at_once(tmp_path: Path, run: Callable[..., None]) -> None:
    ca = authority(tmp_path, "ca")
    used, renewed = issue(tmp_path, "first", ca), issue(tmp_path, "second", ca)
    context = listener_context(ListenerTls(used.certificate, used.key), fail)

    async def main() -> None:
        async with listening(context) as port:
            assert await say(port, client(ca)) == (b"hello\n", "first")
            copy(renewed, used)
            assert await say(port, client(ca)) == (b"hello\n", "second")

    run(main())


def test_clients_need_a_certificate_of_the_ca_of_now(tmp_path: Path, run: Callable[..., None]) -> None:
    ca, ours, theirs = (authority(tmp_path, name) for name in ("ca", "ours", "theirs"))
    server, insider, outsider = issue(tmp_path, "s", ca), issue(tmp_path, "i", ours), issue(tmp_path, "o", theirs)
    context = listener_context(ListenerTls(server.certificate, server.key, ours.certificate), fail)

    async def refused(port: int, own: Pair | None) -> bool:
        try:
            return (await say(port, client(ca, own)))[0] == b""
        except (ssl.SSLError, ConnectionError):
            return True

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        async with listening(context) as port:
            assert (await say(port, client(ca, insider)))[0] == b"hello\n"
            assert await refused(port, None)
            assert await refused(port, outsider)
            ours.certificate.write_bytes(theirs.certificate.read_bytes())
            assert (await say(port, client(ca, outsider)))[0] == b"hello\n"
            assert await refused(port, insider)

    run(main())


def test_broken_files_are_reported_once_and_change_nothing(tmp_path: Path, run: Callable[..., None]) -> None:
    ca = authority(tmp_path, "ca")
    used = issue(tmp_path, "first", ca)
    reports: list[str] = []
    context = listener_context(ListenerTls(used.certificate, used.key), reports.append)

    async def main() -> None:
        async with listening(context) as port:
            used.certificate.write_text("half a certif")
            assert await say(port, client(ca)) == (b"hello\n", "first")
            assert await say(port, client(ca)) == (b"hello\n", "first")

    run(main())
    (report,) = reports
    assert report.startswith(f"cannot use certificate {used.certificate}")


def test_an_encrypted_key(tmp_path: Path) -> None:
    ca = authority(tmp_path, "ca")
    pair = issue(tmp_path, "secret", ca, password="sesame")
    (tmp_path / "password").write_text("sesame\n")
    listener_context(ListenerTls(pair.certificate, pair.key, None, Secret(file=tmp_path / "password")), fail)
    for wrong in (None, Secret("wrong")):
        with pytest.raises(TlsError, match="cannot use certificate"):
            listener_context(ListenerTls(pair.certificate, pair.key, None, wrong), fail)
    with pytest.raises(TlsError, match="cannot read the password of key"):
        listener_context(ListenerTls(pair.certificate, pair.key, None, Secret(file=tmp_path / "no")), fail)


def test_unusable_files_are_named(tmp_path: Path) -> None:
    ca = authority(tmp_path, "ca")
    pair, other = issue(tmp_path, "one", ca), issue(tmp_path, "other", ca)
    missing, garbage = tmp_path / "missing.pem", tmp_path / "garbage.pem"
    garbage.write_text("garbage")
    for tls, expected in (
        (ListenerTls(missing, pair.key), f"cannot read certificate {missing}: No such file"),
        (ListenerTls(pair.certificate, missing), f"cannot read key {missing}: No such file"),
        (ListenerTls(pair.certificate, other.key), "key values mismatch"),
        (ListenerTls(garbage, pair.key), "not PEM"),
        (ListenerTls(pair.certificate, pair.key, garbage), f"cannot use CA certificates {garbage}"),
        (ListenerTls(pair.certificate, pair.key, missing), f"cannot read CA certificates {missing}"),
    ):
        with pytest.raises(TlsError) as caught:
            listener_context(tls, fail)
        assert expected in str(caught.value)


def test_how_much_an_upstream_must_prove(tmp_path: Path) -> None:
    ca = authority(tmp_path, "ca")
    strict = upstream_context(UpstreamTls(ca_file=ca.certificate), fail).current()
    assert strict.check_hostname
    assert strict.verify_mode is ssl.CERT_REQUIRED
    lax = upstream_context(UpstreamTls(Verify.NONE, check_hostname=False), fail).current()
    assert lax.verify_mode is ssl.CERT_NONE
    followed = upstream_context(UpstreamTls(ca_file=ca.certificate), fail)
    first = followed.current()
    assert followed.current() is first
    ca.certificate.write_bytes(authority(tmp_path, "next").certificate.read_bytes())
    assert followed.current() is not first


def test_why_an_upstream_is_not_trusted(tmp_path: Path, run: Callable[..., None]) -> None:
    ca, other = authority(tmp_path, "ca"), authority(tmp_path, "other")
    pair = issue(tmp_path, "server", ca)

    async def main() -> None:
        async with listening(listener_context(ListenerTls(pair.certificate, pair.key), fail)) as port:
            with pytest.raises(ssl.SSLError) as caught:
                await say(port, client(other))
            assert re.fullmatch(
                "its certificate is not accepted: [a-z -]+; name the CA that has signed it: ca=FILE in the URL .*",
                reason_of(caught.value),
            )
            assert re.fullmatch("its certificate is not accepted: [a-z -]+", handshake_failure(caught.value)[1])
            with pytest.raises(ssl.SSLError) as caught:
                await say(port, client(ca), "redis.example")
            assert "; connect to a name that it is for, or set check_hostname=false in" in reason_of(caught.value)

    run(main())
    assert reason_of(ConnectionRefusedError(111, "Connection refused")) == "Connection refused"
    assert reason_of(TimeoutError()) == "no answer within --connect-timeout"
    unsure = "no answer within --connect-timeout; if this port does not speak TLS, write redis:// for rediss://"
    assert reason_of(TimeoutError(), encrypted=True) == unsure
