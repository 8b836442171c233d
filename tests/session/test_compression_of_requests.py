"""However much a client sends, others are served after about a megabyte that is compressed for it."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import hiredis
import pytest

from proxy.compression import frames
from proxy.compression.frames import FIELD, STRING, unpack
from proxy.rules.compress import rule
from proxy.wire.request import RequestLimits
from tests.compression.histories import json_of
from tests.session.given import Client, call, route_with

READ = 1 << 16
"""Bytes that Keyrail reads from a client before it looks at the others."""
MOST = 1 << 20
RULES = """
defaults: {mode: enforce}
rules:
  docs: {compress: {keys: "doc:*", above: 1KB}}
  more: {compress: {keys: "more:*", above: 1KB, codec: lz4}}
"""
VALUES = [json_of(Random(size), size) for size in (5000, 50_000, 1_000_000)]
assert max(map(len, VALUES)) < MOST


def commands() -> Iterator[list[bytes]]:
    for value in VALUES:
        for number in range(3_000_000 // len(value)):
            yield [b"SET", b"doc:%d" % number, value]
        numbers = range(min(20, 4_000_000 // len(value)))
        names = [b"%b:%d" % (prefix, number) for number in numbers for prefix in (b"doc", b"more", b"other")]
        yield [b"MSET", *(word for name in names for word in (name, value))]
        yield [b"HSET", b"doc:h", *(word for name in names for word in (name, value))]


def test_a_read_has_a_megabyte_compressed_at_most_and_that_of_one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(route_with(RULES))
    client.intake.limits = RequestLimits(1 << 31, 1 << 29, MOST, True)
    upstream = client.route.upstream()
    compressed = 0

    def counted(value: bytes, *terms: Any) -> bytes:
        nonlocal compressed
        compressed += len(value)
        return frames.pack(value, *terms)

    monkeypatch.setattr(rule, "pack", counted)
    wanted = list(commands())
    sent = b"".join(call(*argv) for argv in wanted)
    most, total = 0, 0
    arrived = []
    for start in range(0, len(sent), READ):
        compressed = 0
        client.send(sent[start : start + READ])
        most, total = max(most, compressed), total + compressed
        arrived.append(upstream.taken())
        upstream.answer(b"+OK\r\n" * client.sender.pending_replies)
    assert MOST / 2 < most <= MOST + READ
    assert total > 10 * MOST
    assert not client.is_paused()
    reader = hiredis.Reader()
    reader.feed(b"".join(arrived))
    for argv in wanted:
        assert [unpack(unpack(word, STRING), FIELD) for word in reader.gets()] == argv, "in their order"
    assert reader.gets() is False
