"""A browser, and Keyrails for it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import Fleet
from tests.engines import free_port
from tests.page.browser import Browser, program
from tests.page.watching import EVIL_KEY, EVIL_NAME, HOT, LONG_KEY, POLICY, TOKEN
from tests.resp import pack
from tests.server.running import Running, serve


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = program()
    if chromium is None:
        pytest.skip("Chromium is not installed here")
    started = Browser(chromium)
    yield started
    started.close()


@pytest.fixture(scope="module")
def upstream(fleet: Fleet) -> str:
    return fleet.engine("valkey-9.1", "server").url


@pytest.fixture(scope="module")
def running(upstream: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    policy = tmp_path_factory.mktemp("page") / "policy.yaml"
    policy.write_text(POLICY)
    with serve("--upstream", upstream, "--policy", str(policy)) as started:
        yield started.ready()


@pytest.fixture(scope="module")
def traffic(running: Running) -> Iterator[Callable[[], None]]:
    """A moment of traffic: most of it for one key, by a client with a name that would like to be markup."""
    with ExitStack() as stack:
        hammer, walker = (stack.enter_context(running.wire()) for _ in range(2))
        hammer.ask("CLIENT", "SETNAME", EVIL_NAME)
        walker.ask("CLIENT", "SETNAME", "spark-7")

        def moment() -> None:
            rare = pack("SET", EVIL_KEY, "x") * 5 + pack("GET", LONG_KEY) * 2 + pack("GET", "")
            hammer.send(pack("GET", HOT) * 30 + rare)
            hammer.frames(38)
            walker.send(pack("KEYS", "*"))
            walker.frames(1)

        yield moment


@pytest.fixture
def guarded(upstream: str, tmp_path: Path) -> Iterator[Running]:
    """A Keyrail with a token and two routes."""
    (tmp_path / "token").write_text(TOKEN)
    apps = "{checkout: {match: {client_name: checkout-*}}}"
    (tmp_path / "policy.yaml").write_text(f"keyrail: 1\napps: {apps}\nrules: {{}}\n")
    routes = "".join(
        f"  - {{name: {name}, listen: 'redis://127.0.0.1:{free_port()}', upstream: '{upstream}',"
        f" policy: {tmp_path / 'policy.yaml'}}}\n"
        for name in ("orders", "sessions")
    )
    settings = f"admin: 127.0.0.1:0\nadmin_token_file: {tmp_path / 'token'}\nroutes:\n{routes}"
    (tmp_path / "keyrail.yaml").write_text(settings)
    with serve("--config", str(tmp_path / "keyrail.yaml")) as started:
        yield started.ready()
