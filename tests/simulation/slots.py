"""The slot of a key, by the specification of Redis Cluster."""

from __future__ import annotations

from functools import cache

SLOTS = 16384


def _entry(byte: int) -> int:
    crc = byte << 8
    for _ in range(8):
        crc = (crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1
    return crc & 0xFFFF


_TABLE = [_entry(byte) for byte in range(256)]


@cache
def slot_of(key: bytes) -> int:
    """CRC16 (XMODEM) of the key, or of what stands in its first braces."""
    opened = key.find(b"{")
    closed = key.find(b"}", opened + 1)
    hashed = key[opened + 1 : closed] if opened >= 0 and closed > opened + 1 else key
    crc = 0
    for byte in hashed:
        crc = ((crc << 8) & 0xFFFF) ^ _TABLE[(crc >> 8) ^ byte]
    return crc % SLOTS
