"""A client that its own command makes another tenant's, once it has named a key: it gets the reply to that command as
Redis gives it, then nothing more, and nothing that it has sent behind the command runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Fleet
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Closed, pack
from tests.tenants.test_against_engines import POLICY, prepared

pytestmark = pytest.mark.skipif(DIRECT, reason="tenants are Keyrail's own")

DECIDERS = {
    "a private connection": ("", ()),
    "Redis, asked by Keyrail": ("", ("--client-auth", "upstream")),
    "a file": ("", ("--client-password-file", "{file}")),
    "the user of the route": ("globex:secret@", ()),
}
"""Who decides about logins: what the upstream's URL and the command line say."""
_OF_A_CONNECTION = re.compile(rb"\$2\r\nid\r\n:\d+\r\n")


@pytest.fixture
def redis(fleet: Fleet, engine_name: str) -> Engine:
    return prepared(fleet.engine(engine_name))


@pytest.fixture(params=DECIDERS)
def keyrail(redis: Engine, tmp_path: Path, request: Any) -> Iterator[Keyrail]:
    login, options = DECIDERS[request.param]
    (tmp_path / "passwords").write_text("acme secret\nglobex secret\n")
    (tmp_path / "tenants.yaml").write_text(POLICY)
    extra = [option.format(file=tmp_path / "passwords") for option in options]
    keyrail = Keyrail(redis.url.replace("//", f"//{login}"), policy=tmp_path / "tenants.yaml", extra=extra)
    yield keyrail
    keyrail.close()


@pytest.mark.parametrize("before", [2, 3])
def test_the_last_reply_is_that_of_redis(keyrail: Keyrail, redis: Engine, before: int) -> None:
    logins: list[tuple[str | int, ...]] = [("AUTH", "globex", "secret")]
    logins += [("HELLO", after, "AUTH", "globex", "secret") for after in (2, 3)]
    logins += [(*words, "SETNAME", "me") for words in logins[1:]]
    for behind in (b"", pack("SET", "late", "v")):
        for words in logins:
            with keyrail.wire() as through, redis.wire() as direct:
                for wire in (through, direct):
                    assert wire.ask("HELLO", before, "AUTH", "acme", "secret")[:1] in (b"*", b"%")
                    assert wire.ask("SET", "a", "v") == b"+OK\r\n"
                    wire.send(pack(*words))
                through.send(behind)
                told, expected = (_OF_A_CONNECTION.sub(b"", wire.frame()) for wire in (through, direct))
                assert told == expected, words
                with pytest.raises(Closed) as closed:
                    through.frame()
                assert closed.value.rest == b"", words
    assert redis.do("KEYS", "*late") == []
