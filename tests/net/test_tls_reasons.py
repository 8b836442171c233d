"""Where TLS to Redis fails, the reason names the option that helps, whichever side is not content."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import kind_named
from tests.engines import Engine, free_port
from tests.net import certificates
from tests.server.running import serve

TLS_ENGINE = "redis-7.0"
CA = "ca={ca}"
OWN = "&certificate={mine}&key={mine_key}"
FOREIGN = "&certificate={foreign}&key={foreign_key}"
IN_URL = "in the URL of the upstream"


@pytest.mark.parametrize(
    ("scheme", "plain", "options", "reason"),
    [
        ("redis", False, "", "closed the connection without an answer; if this port speaks TLS, write rediss:// for"),
        ("rediss", True, CA, "no answer within --connect-timeout; if this port does not speak TLS, write redis:// for"),
        ("rediss", False, "", f"; name the CA that has signed it: ca=FILE {IN_URL}"),
        ("rediss", False, "ca={other}", f"; name the CA that has signed it: ca=FILE {IN_URL}"),
        ("rediss", False, CA, f"it wants a certificate of its clients: certificate=FILE&key=FILE {IN_URL}"),
        ("rediss", False, CA + FOREIGN, "it does not know the CA of Keyrail's certificate: see tls-ca-cert-file in"),
        ("rediss", False, CA + OWN, ""),
    ],
)
def test_the_reason_names_what_helps(tmp_path: Path, scheme: str, plain: bool, options: str, reason: str) -> None:
    ca, other = (certificates.authority(tmp_path, name) for name in ("ca", "other"))
    server, mine = (certificates.issue(tmp_path, name, ca) for name in ("server", "mine"))
    foreign, port = certificates.issue(tmp_path, "foreign", other), free_port()
    files = {"tls-cert-file": server.certificate, "tls-key-file": server.key, "tls-ca-cert-file": ca.certificate}
    engine = Engine(kind_named(TLS_ENGINE), {"tls-port": str(port)} | {name: str(file) for name, file in files.items()})
    query = options.format(
        ca=ca.certificate,
        other=other.certificate,
        mine=mine.certificate,
        mine_key=mine.key,
        foreign=foreign.certificate,
        foreign_key=foreign.key,
    )
    upstream = f"{scheme}://127.0.0.1:{engine.port if plain else port}?{query}"
    try:
        with serve(
            "--upstream", upstream, "--policy", "none", "--connect-timeout", "500ms" if plain else "30s"
        ) as keyrail:
            line = keyrail.ready().ready_line()
            assert reason in line if reason else "(down" not in line, line
    finally:
        engine.close()
