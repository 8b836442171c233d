"""The generator measures only commands with right replies."""

import socket
import threading
from collections.abc import Iterator

import pytest

from loadtest import generator
from loadtest.benchmark import RunError
from loadtest.workloads import Probe


@pytest.fixture
def ponging() -> Iterator[int]:
    """A server that answers each PING with +PONG, and anything else with an error."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(65536):
                connection.sendall(b"+PONG\r\n" * data.count(b"PING") + b"-ERR\r\n" * data.count(b"PONG"))

    def accept() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield server.getsockname()[1]
    server.shutdown(socket.SHUT_RDWR)
    server.close()


PING = Probe((b"PING",), lambda reply: reply == b"PONG")


def test_a_rehearsal_measures_the_replies_of_a_batch(ponging: int) -> None:
    batches = generator.rehearse(ponging, [PING] * 6, 3)
    assert [(len(batch.request), batch.reply_length) for batch in batches] == [(42, 21), (42, 21)]


def test_a_wrong_reply_ends_the_rehearsal(ponging: int) -> None:
    with pytest.raises(RunError, match="was answered with"):
        generator.rehearse(ponging, [Probe((b"PONG",), lambda reply: reply == b"PONG")], 1)


def test_a_run_sends_what_it_should(ponging: int) -> None:
    batches = generator.rehearse(ponging, [PING] * 8, 4)
    measured = generator.run(ponging, batches, clients=3, pipeline=4, commands=120)
    assert measured.rate > 0
    assert 0 < measured.p50 <= measured.p99


def test_a_reply_of_another_length_fails_the_run(ponging: int) -> None:
    short = [generator.Batch(PING.encoded() * 2, 7)]
    with pytest.raises(RunError, match="more bytes"):
        generator.run(ponging, short, clients=1, pipeline=2, commands=20)
