"""Access to the admin port: which requests it answers, and the format of a token file."""

import asyncio
import json
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from proxy.server.admin.access import Access
from proxy.server.admin.token import read_token

TOKEN = "a-long-enough-token"
READING = ("/hotkeys", "/rules", "/policy", "/policy/kill-switch")


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(f"  {TOKEN}\n")
    return file


def status(access: Access, method: str, path: str, **headers: str) -> int:
    """The status of a request that the handler itself would answer with 200."""

    async def handler(_request: web.Request) -> web.StreamResponse:
        return web.Response()

    async def ask() -> web.StreamResponse:
        return await access.check(make_mocked_request(method, path, headers), handler)

    answer = asyncio.run(ask())
    if answer.status != 200:
        assert isinstance(answer, web.Response)
        assert answer.text is not None
        assert set(json.loads(answer.text)) == {"error"}
    return answer.status


def test_with_a_token_everything_but_health_needs_it(token_file: Path) -> None:
    for loopback in (True, False):
        access = Access(token_file, loopback=loopback)
        for method, path in [("POST", "/policy/reload"), ("GET", "/metrics"), *(("GET", path) for path in READING)]:
            assert status(access, method, path) == 401
            assert status(access, method, path, Authorization=f"Bearer {TOKEN}x") == 401
            assert status(access, method, path, Authorization=f"Basic {TOKEN}") == 401
            assert status(access, method, path, Authorization="Bearer ") == 401
            assert status(access, method, path, Authorization=f"bearer {TOKEN}") == 200
        assert status(access, "GET", "/readyz") == status(access, "GET", "/healthz") == 200


def test_a_token_can_be_changed_and_must_be_there(token_file: Path) -> None:
    access = Access(token_file, loopback=True)
    token_file.write_text("another-long-token")
    assert status(access, "GET", "/rules", Authorization=f"Bearer {TOKEN}") == 401
    assert status(access, "GET", "/rules", Authorization="Bearer another-long-token") == 200
    token_file.unlink()
    assert status(access, "GET", "/rules", Authorization="Bearer another-long-token") == 503


@pytest.mark.parametrize("text", ["", "short", "  \n"])
def test_a_token_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(ValueError, match="shorter than 8 bytes"):
        read_token(tmp_path / "token")


def test_without_a_token_only_loopback_tells_and_obeys() -> None:
    for loopback, expected in ((True, 200), (False, 403)):
        access = Access(None, loopback=loopback)
        for path in READING:
            assert status(access, "GET", path) == expected
        assert status(access, "POST", "/policy/reload") == expected
        assert status(access, "POST", "/metrics") == expected
        for path in ("/", "/metrics", "/healthz", "/readyz"):
            assert status(access, "GET", path) == 200


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost:9121", 200),
        ("127.0.0.1:9121", 200),
        ("[::1]:9121", 200),
        ("127.9.9.9", 200),
        ("LOCALHOST", 200),
        ("[::ffff:127.0.0.1]", 403),
        ("192.0.2.1:9121", 403),
        ("[2001:db8::1]:9121", 403),
        ("127.0.0.1:x", 403),
        ("127.0.0.1:9121:9121", 403),
        ("user@localhost", 403),
        ("", 403),
        ("evil.example:9121", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example", 403),
    ],
)
def test_a_name_that_anybody_can_give_to_this_machine_is_not_its_own(
    host: str, expected: int, token_file: Path
) -> None:
    for path in (*READING, "/metrics"):
        assert status(Access(None, loopback=True), "GET", path, Host=host) == expected
    assert status(Access(None, loopback=False), "GET", "/metrics", Host=host) == 200, "which names nobody there"
    access = Access(token_file, loopback=True)
    assert status(access, "GET", "/rules", Host=host, Authorization=f"Bearer {TOKEN}") == 200


def test_the_host_that_the_settings_name_is_its_own() -> None:
    access = Access(None, loopback=True, host="keyrail.internal")
    assert status(access, "GET", "/rules", Host="Keyrail.Internal:9121") == 200
    assert status(access, "GET", "/rules", Host="keyrail.internal.evil.example:9121") == 403


def test_the_page_is_there_for_whoever_has_a_token_to_give(token_file: Path) -> None:
    for access in (Access(token_file, loopback=False), Access(None, loopback=False)):
        assert status(access, "GET", "/") == status(access, "GET", "/page/page.js") == 200
        assert status(access, "GET", "/events") in (401, 403)


def test_a_web_page_cannot_turn_anything() -> None:
    access = Access(None, loopback=True)
    assert status(access, "POST", "/policy/kill-switch", Origin="http://evil.example") == 403


def test_what_is_not_there_is_json_too() -> None:
    async def missing(_request: web.Request) -> web.StreamResponse:
        raise web.HTTPNotFound

    answer = asyncio.run(Access(None, loopback=True).check(make_mocked_request("GET", "/none"), missing))
    assert isinstance(answer, web.Response)
    assert (answer.status, answer.text) == (404, '{"error": "Not Found"}')
