"""Keyrail finds out which commands a user may run without running them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from proxy.net.engine import Probed, probe

OK, QUEUED = b"+OK\r\n", b"+QUEUED\r\n"


class Redis:
    """It answers a command inside MULTI as it is told to, and writes down what was asked."""

    def __init__(self, told: bytes = QUEUED, multi: bytes = OK, discard: bytes = OK) -> None:
        self.told = {"MULTI": multi, "DISCARD": discard, "UNLINK": told}
        self.asked: list[str] = []
        self.aborted = False

    async def ask(self, argv: list[str]) -> bytes:
        self.asked.append(argv[0])
        return self.told[argv[0]]

    def abort(self) -> None:
        self.aborted = True


def probed(redis: Any) -> Probed:
    return asyncio.run(probe(redis, frozenset({"UNLINK"})))


def able(redis: Any) -> frozenset[str]:
    found = probed(redis)
    assert not found.unclear
    return found.able


@pytest.mark.parametrize(
    ("told", "may"),
    [
        (QUEUED, True),
        *(
            (f"-{code} 1 127.0.0.1:1\r\n".encode(), True)
            for code in ("MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "CROSSSLOT")
        ),
        (b"-ERR unknown command 'UNLINK'\r\n", False),
        (b"-NOPERM User app has no permissions to run the 'unlink' command\r\n", False),
        (b"-NOPERM User keyrail has no permissions to run the 'unlink' command\r\n", False),
        (b"-NOPERM this user has no permissions to run the 'unlink' command or its subcommand\r\n", False),
        (b"-NOPERM No permissions to access a key\r\n", True),
        (b"-NOPERM this user has no permissions to access one of the keys used as arguments\r\n", True),
    ],
)
def test_a_command_is_queued_and_forgotten(told: bytes, may: bool) -> None:
    redis = Redis(told)
    assert able(redis) == (frozenset({"UNLINK"}) if may else frozenset())
    assert redis.asked == ["MULTI", "UNLINK", "DISCARD"]


@pytest.mark.parametrize("code", ["OOM", "BUSY", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS"])
def test_an_error_of_the_moment_says_nothing_of_the_command(code: str) -> None:
    error = f"-{code} not now\r\n".encode()
    nothing = Probed(frozenset(), frozenset({"UNLINK"}))
    assert probed(Redis(told=error)) == nothing
    assert probed(Redis(multi=error)) == nothing


def test_where_there_is_no_multi_nothing_is_known_and_nothing_is_tried() -> None:
    redis = Redis(multi=b"-NOPERM\r\n")
    assert probed(redis) == Probed(frozenset(), untold=frozenset({"UNLINK"}))
    assert redis.asked == ["MULTI"]


def test_a_connection_on_which_the_command_may_still_run_is_given_up() -> None:
    redis = Redis(discard=b"-NOPERM\r\n")
    assert probed(redis) == Probed(frozenset(), untold=frozenset({"UNLINK"}))
    assert redis.aborted
