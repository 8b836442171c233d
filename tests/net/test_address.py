"""URLs: every accepted form, and an error with the expected form for all others."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proxy.net.config.address import (
    ListenAddress,
    ListenerTls,
    UpstreamAddress,
    UpstreamTls,
    Verify,
    parse_listen,
    parse_upstream,
)
from proxy.net.config.endpoint import Endpoint
from proxy.net.config.sentinel_address import Sentinels
from proxy.net.config.strict_url import AddressError, Secret, redacted


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://127.0.0.1:6380", ListenAddress("127.0.0.1", 6380)),
        ("redis://127.0.0.1", ListenAddress("127.0.0.1", 6380)),
        ("redis://0.0.0.0:0/", ListenAddress("0.0.0.0", 0)),
        ("127.0.0.1:7000", ListenAddress("127.0.0.1", 7000)),
        ("[::1]:7000", ListenAddress("::1", 7000)),
        ("redis://[::]:7000", ListenAddress("::", 7000)),
        ("unix:///run/keyrail.sock", ListenAddress("", 0, Path("/run/keyrail.sock"))),
        ("unix:///run/keyrail.sock?mode=770", ListenAddress("", 0, Path("/run/keyrail.sock"), 0o770)),
        (
            "rediss://h:1?certificate=/c.pem&key=/k.pem",
            ListenAddress("h", 1, tls=ListenerTls(Path("/c.pem"), Path("/k.pem"))),
        ),
        ("rediss://h:1?ssl_certfile=c", ListenAddress("h", 1, tls=ListenerTls(Path("c"), Path("c")))),
        (
            "rediss://h:1?certificate=c&key=k&client_ca=a&key_password_file=p",
            ListenAddress("h", 1, tls=ListenerTls(Path("c"), Path("k"), Path("a"), Secret(file=Path("p")))),
        ),
    ],
)
def test_listen(url: str, expected: ListenAddress) -> None:
    assert parse_listen(url) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://", UpstreamAddress("localhost", 6379)),
        ("redis://cache", UpstreamAddress("cache", 6379)),
        ("cache:7000", UpstreamAddress("cache", 7000)),
        ("redis://cache:7000/3", UpstreamAddress("cache", 7000, database=3)),
        ("redis://cache:7000/3?db=5", UpstreamAddress("cache", 7000, database=5)),
        ("valkey://cache", UpstreamAddress("cache", 6379)),
        ("redis://:p%40ss@cache", UpstreamAddress("cache", 6379, password=Secret("p@ss"))),
        ("redis://u%3a:p@cache", UpstreamAddress("cache", 6379, username="u:", password=Secret("p"))),
        ("redis://cache?username=u&password=p", UpstreamAddress("cache", username="u", password=Secret("p"))),
        (
            "redis://u@cache?password_file=/run/secret",
            UpstreamAddress("cache", username="u", password=Secret(file=Path("/run/secret"))),
        ),
        ("redis://c?socket_timeout=3&protocol=3&decode_responses=True", UpstreamAddress("c")),
        ("unix:///run/redis.sock?db=2", UpstreamAddress("", 0, Path("/run/redis.sock"), database=2)),
        (
            "unix://u:p@/run/redis.sock",
            UpstreamAddress("", 0, Path("/run/redis.sock"), username="u", password=Secret("p")),
        ),
        ("rediss://c", UpstreamAddress("c", tls=UpstreamTls())),
        (
            "redis://c?replicas=r1,[::1]:6380",
            UpstreamAddress("c", replicas=(Endpoint("r1", 6379), Endpoint("::1", 6380))),
        ),
        (
            "rediss://c?ssl_cert_reqs=none",
            UpstreamAddress("c", tls=UpstreamTls(Verify.NONE, check_hostname=False)),
        ),
        (
            "rediss://c?ssl_ca_certs=/ca&ssl_check_hostname=false&ssl_certfile=/c&ssl_keyfile=/k&ssl_password=x",
            UpstreamAddress(
                "c",
                tls=UpstreamTls(
                    check_hostname=False,
                    ca_file=Path("/ca"),
                    certificate=Path("/c"),
                    key=Path("/k"),
                    key_password=Secret("x"),
                ),
            ),
        ),
    ],
)
def test_upstream(url: str, expected: UpstreamAddress) -> None:
    assert parse_upstream(url) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("", "expected redis://HOST:PORT"),
        ("localhost", "expected redis://HOST:PORT"),
        ("http://localhost:80", "expected redis://HOST:PORT"),
        ("::1:6380", "brackets"),
        ("redis://:6380", "expected redis://HOST:PORT"),
        ("redis://h:99999", "host or port cannot be read"),
        ("redis://h:x", "host or port cannot be read"),
        ("redis://h:1/2", "SELECT"),
        ("redis://u:p@h:1", "no user"),
        ("redis://h:1?certificate=c", "certificate is about TLS: write rediss:// for redis://"),
        ("rediss://h:1", "needs a certificate"),
        ("rediss://h:1?cert=c&certificate=d", "mean the same"),
        ("unix://run/x", "three slashes"),
        ("unix:///x?mode=9", "permission bits"),
        ("redis://h:1#x", "expected redis://HOST:PORT"),
    ],
)
def test_listen_refused(url: str, expected: str) -> None:
    with pytest.raises(AddressError, match="bad URL") as caught:
        parse_listen(url)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("localhost", "expected redis://[USER:PASSWORD@]HOST"),
        ("redis://h:0", "between 1 and 65535"),
        ("redis://h/x", "expected a database number, got 'x'"),
        ("redis://h?db=-1", "expected a database number"),
        ("redis://u@h", "needs a password"),
        ("redis://:p@h?password=q", "given twice"),
        ("redis://h?password=p&password_file=f", "exclude each other"),
        ("redis://h?db=1&db=2", "db is given twice"),
        ("redis://h?replicas=r1,r1", "given twice"),
        ("redis://h?replicas=", "expected HOST:PORT"),
        ("redis+cluster://h?replicas=r1", "unknown option 'replicas'"),
        ("redis://h?ssl_ca_certs=x", "ssl_ca_certs is about TLS: write rediss:// for redis://"),
        ("redis+cluster://h?ca=x", "ca is about TLS: write rediss+cluster:// for redis+cluster://"),
        ("rediss://h?ssl_ca_cert=x", "unknown option 'ssl_ca_cert'"),
        ("rediss://h?ca=x&ssl_ca_certs=y", "ca and ssl_ca_certs mean the same: give one"),
        ("rediss://h?ca_cert=x", "unknown option 'ca_cert'"),
        ("rediss://h?ssl_cert_reqs=maybe", "expected required, optional or none"),
        ("rediss://h?ssl_check_hostname=maybe", "expected true or false"),
        ("rediss://h?ssl_cert_reqs=none&ssl_check_hostname=true", "check_hostname=true needs verify=required"),
        ("rediss://h?ssl_keyfile=k", "key needs certificate"),
        ("rediss://h?ssl_ca_certs=", "expected the path of a file"),
        ("unix://", "three slashes"),
        ("unix://host/x", "three slashes"),
    ],
)
def test_upstream_refused(url: str, expected: str) -> None:
    with pytest.raises(AddressError, match="bad URL") as caught:
        parse_upstream(url)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://user:hunter2@host:port",
        "redis://:hunter2@host/x",
        "redis://:hun/hunter2@host/x",
        "redis://host?password=hunter2&x=1",
        "rediss://host?ssl_password=hunter2&x=1",
        "rediss://host?key_password=hunter2&x=1",
        "redis:user:hunter2@host",
        "user:hunter2@host",
    ],
)
def test_no_message_shows_a_password(url: str) -> None:
    for parse in (parse_upstream, parse_listen):
        with pytest.raises(AddressError) as caught:
            parse(url)
        assert "hunter2" not in str(caught.value)
    assert "hunter2" not in redacted(url)
    assert "hunter2" not in repr(Secret("hunter2"))


def test_display_names_no_secret() -> None:
    assert str(parse_upstream("rediss://u:p@cache/3")) == "rediss://cache:6379/3"
    assert str(parse_upstream("unix:///x?password=p")) == "unix:///x"
    assert str(parse_listen("[::1]:7")) == "redis://[::1]:7"


SEEDS = (Endpoint("h1", 7000), Endpoint("::1", 7001), Endpoint("h3", 6379))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis+cluster://h1:7000,[::1]:7001,h3", UpstreamAddress("h1", 7000, seeds=SEEDS)),
        (
            "valkeys+cluster://u:p%2C@h1/2?ssl_cert_reqs=none",
            UpstreamAddress(
                "h1",
                tls=UpstreamTls(Verify.NONE, check_hostname=False),
                username="u",
                password=Secret("p,"),
                database=2,
                seeds=(Endpoint("h1", 6379),),
            ),
        ),
    ],
)
def test_cluster(url: str, expected: UpstreamAddress) -> None:
    assert parse_upstream(url) == expected


def test_a_node_has_the_login_of_its_seeds() -> None:
    address = parse_upstream("rediss+cluster://u:p@h1:7000,h2:7000")
    node = address.at(Endpoint("n", 7005))
    assert (str(node), node.username, node.password, node.tls) == ("rediss://n:7005", "u", Secret("p"), UpstreamTls())
    assert str(address) == "rediss+cluster://h1:7000,h2:7000"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis+cluster://", "'': expected HOST:PORT"),
        ("redis+cluster://h1,,h2", "'': expected HOST:PORT"),
        ("redis+cluster://h1:0", "'h1:0': expected HOST:PORT"),
        ("redis+cluster://h1:99999", "'h1:99999': expected HOST:PORT"),
        ("redis+cluster://h1:7000,h1:7000", "given twice"),
        ("unix+cluster://h1", "expected redis+cluster://"),
        ("redis+cluster://u:hunter2@h1:x", "'h1:x': expected HOST:PORT"),
        ("redis+cluster://h1?map=", "map: cannot read ''"),
        ("redis+cluster://u:hunter2@h1:7000,u2:p2@h2:7001", "expected one USER:PASSWORD@ before all hosts, with %40"),
        ("redis+cluster://u:hunter2@,x@h1:7000", "expected one USER:PASSWORD@ before all hosts"),
        ("redis://h1?map=x", "unknown option 'map'"),
    ],
)
def test_cluster_refused(url: str, expected: str) -> None:
    with pytest.raises(AddressError, match="bad URL") as caught:
        parse_upstream(url)
    assert expected in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_addresses_behind_nat_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "nat"
    file.write_text(
        "# announced, reachable\n10.0.0.1:7000 203.0.113.5:17000\n\n10.0.0.2:7000\t203.0.113.5:17001 # two\n"
    )
    assert parse_upstream(f"redis+cluster://h1?map={file}").reachable == {
        Endpoint("10.0.0.1", 7000): Endpoint("203.0.113.5", 17000),
        Endpoint("10.0.0.2", 7000): Endpoint("203.0.113.5", 17001),
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1\n", ":1: expected two addresses, ANNOUNCED REACHABLE, got 1 words"),
        ("a:1 b:2\na:1 c:3\n", ":2: a:1 is mapped twice"),
        ("\na:1 b:x\n", ":2: 'b:x': expected HOST:PORT"),
        ("a:1 b:2 c:3\n", "got 3 words"),
    ],
)
def test_a_mistake_in_that_file_is_named_by_its_line(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "nat"
    file.write_text(text)
    with pytest.raises(AddressError) as caught:
        parse_upstream(f"redis+cluster://h1?map={file}")
    assert str(file) in str(caught.value)
    assert expected in str(caught.value)


def test_a_secret_file_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("first\n")
    secret = Secret(file=file)
    assert secret.read() == "first"
    file.write_text("second")
    assert secret.read() == "second"
    assert Secret("text").read() == "text"


# Sentinels


@pytest.mark.parametrize(
    ("url", "sentinels", "database"),
    [
        (
            "redis+sentinel://s1:26380,[::1],s3/mymaster",
            Sentinels((Endpoint("s1", 26380), Endpoint("::1", 26379), Endpoint("s3", 26379)), "mymaster"),
            0,
        ),
        ("valkey+sentinel://s1/m%2Fy/3", Sentinels((Endpoint("s1", 26379),), "m/y"), 3),
        (
            "redis+sentinel://app:p%2C@s1/m?db=2&sentinel_user=w&sentinel_password=x",
            Sentinels((Endpoint("s1", 26379),), "m", "w", Secret("x")),
            2,
        ),
        (
            "redis+sentinel://s1/m?sentinel_password_file=f",
            Sentinels((Endpoint("s1", 26379),), "m", None, Secret(file=Path("f"))),
            0,
        ),
    ],
)
def test_sentinels(url: str, sentinels: Sentinels, database: int) -> None:
    address = parse_upstream(url)
    assert (address.sentinels, address.database, address.seeds) == (sentinels, database, ())


def test_each_has_the_login_that_is_meant_for_it() -> None:
    address = parse_upstream("rediss+sentinel://u:p@s1,s2:1/m/2?sentinel_user=w&sentinel_password=x")
    assert str(address) == "rediss+sentinel://s1:26379,s2:1/m/2"
    server, sentinel = (at(Endpoint("h", 7)) for at in (address.at, address.at_sentinel))
    assert (server.username, server.password, server.database, str(server)) == ("u", Secret("p"), 2, "rediss://h:7/2")
    assert (sentinel.username, sentinel.password, str(sentinel)) == ("w", Secret("x"), "rediss://h:7")
    assert server.tls == sentinel.tls is not None


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis+sentinel://s1", "expected redis+sentinel://"),
        ("redis+sentinel://s1/", "expected redis+sentinel://"),
        ("redis+sentinel:///m", "'': expected HOST:PORT"),
        ("redis+sentinel://s1,s1/m", "given twice"),
        ("unix+sentinel://s1/m", "expected redis+sentinel://"),
        ("redis+sentinel://s1/m/x", "the path is the database"),
        ("redis+sentinel://u:p@s1,u:p@s2/m", "expected one USER:PASSWORD@ before all hosts"),
        ("redis+sentinel://s1/m?sentinel_user=w", "sentinel_user 'w' needs a password"),
        ("redis+sentinel://s1/m?sentinel_password=hunter2&sentinel_password_file=f", "exclude each other"),
        ("redis+sentinel://s1/m?sentinel_password=hunter2&sentinel=1", "unknown option 'sentinel'"),
        ("redis://h/0?sentinel_user=w", "unknown option 'sentinel_user'"),
    ],
)
def test_sentinels_refused(url: str, expected: str) -> None:
    with pytest.raises(AddressError) as caught:
        parse_upstream(url)
    assert expected in str(caught.value)
    assert "hunter2" not in str(caught.value)


SIDES = [
    ("ca", "ssl_ca_certs"),
    ("certificate", "ssl_certfile"),
    ("key", "ssl_keyfile"),
    ("key_password", "ssl_password"),
]


@pytest.mark.parametrize("read", [parse_listen, parse_upstream])
def test_both_sides_take_the_same_names_for_tls(read: Callable[[str], Any]) -> None:
    """And redis-py's names, which mean the same."""
    ours, theirs = ("&".join(f"{names[of]}=/f{place}" for place, names in enumerate(SIDES)) for of in (0, 1))
    assert read(f"rediss://h:1?{ours}") == read(f"rediss://h:1?{theirs}")
    by_file = read("rediss://h:1?certificate=c&key_password_file=/f").tls.key_password
    assert (
        by_file == read("rediss://h:1?certificate=c&ssl_password_file=/f").tls.key_password == Secret(file=Path("/f"))
    )
    whole = parse_upstream("rediss://h?ca_path=/c&verify=optional&check_hostname=false")
    assert whole == parse_upstream("rediss://h?ssl_ca_path=/c&ssl_cert_reqs=optional&ssl_check_hostname=false")
