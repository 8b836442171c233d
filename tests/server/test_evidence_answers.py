"""Answers with evidence are made once for all who ask at the same time, and hold up nobody else."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterable
from contextlib import closing, suppress
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from proxy.server.admin import evidence as answers
from proxy.server.admin.app import serve
from proxy.server.evidence.model import Evidence, EvidenceError
from tests.resp import PATIENCE_SECONDS


class Keeper:
    """A keeper that has nothing, and counts how often it is asked."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self.reads = 0
        self.fails = False

    async def read(self, _: float) -> Evidence:
        self.reads += 1
        if self.fails:
            raise EvidenceError("the disk is full")
        return Evidence()


class Access:
    """Lets everybody in, and counts the requests."""

    def __init__(self) -> None:
        self.come = asyncio.Semaphore(0)

    @web.middleware
    async def check(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        self.come.release()  # the handler runs up to where it waits before anybody else does
        return await handler(request)


class Making:
    """In place of what makes answers: one is made when it may."""

    def __init__(self) -> None:
        self.made = 0
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self, *_: object) -> Iterable[str]:
        self.made += 1
        self.begun.set()
        assert self.go.wait(PATIENCE_SECONDS)
        return ["[", str(self.made), "]"]


async def get(session: aiohttp.ClientSession, path: str) -> tuple[int, str]:
    async with session.get(path) as answer:
        return answer.status, await answer.text()


async def asked(keeper: Keeper, making: Making) -> list[tuple[int, str]]:
    """The answers to requests that come while the first is being made; one client gives up."""
    access, workers = Access(), SimpleNamespace(living=1, silent=list)
    settings = SimpleNamespace(state_dir=None)
    state: Any = SimpleNamespace(keeper=keeper, workers=workers, settings=settings)
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        end = await serve([listener], state, access, closed=False)  # type: ignore[arg-type]  # all that it needs
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with asyncio.timeout(PATIENCE_SECONDS), aiohttp.ClientSession(url) as session:
            same = [asyncio.ensure_future(get(session, "/evidence?since=7205")) for _ in range(4)]
            other = asyncio.ensure_future(get(session, "/evidence?since=7200&x"))
            another = asyncio.ensure_future(get(session, "/evidence?since=3600"))
            for _ in range(6):
                await access.come.acquire()
            assert await asyncio.to_thread(making.begun.wait, PATIENCE_SECONDS)
            assert await get(session, "/healthz") == (200, "ok\n")
            assert making.made == 1, "one after another"
            same[0].cancel()
            with suppress(asyncio.CancelledError):
                await same[0]
            making.go.set()
            found = [await each for each in (*same[1:], other, another)]
            found.append(await get(session, "/evidence?since=7205"))
        await end()
    return found


def test_who_asks_while_an_answer_is_made_gets_that_one(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper, making = Keeper(), Making()
    monkeypatch.setattr(answers, "json_pieces", making)
    found = asyncio.run(asked(keeper, making))
    bodies = [body for status, body in found if status == 200]
    assert len(set(bodies[:4])) == 1, "all ask for the evidence since the same hour"
    assert sorted({bodies[0], bodies[4]}) == ["[1]", "[2]"]
    assert bodies[5:] == ["[3]"], "later ones are made anew"
    assert keeper.reads == 3


def test_an_error_is_told_to_all_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper, making = Keeper(), Making()
    making.begun.set()
    making.made = 1
    keeper.fails = True
    monkeypatch.setattr(answers, "json_pieces", making)
    assert asyncio.run(asked(keeper, making)) == [(503, '{"error": "the disk is full"}')] * 6
