"""The hash slot of a key in Redis Cluster, one of 16,384."""

from binascii import crc_hqx

SLOTS = 16_384


def hashed_part(key: bytes) -> bytes:
    """The hash tag of a key: the text between its first ``{`` and the next ``}``; the whole key if there is none."""
    start = key.find(b"{") + 1
    end = key.find(b"}", start) if start else -1
    return key[start:end] if end > start else key


def slot_of(key: bytes) -> int:
    """The key's slot: its CRC16 (polynomial 0x1021, nothing reflected) modulo 16,384."""
    return crc_hqx(hashed_part(key), 0) % SLOTS
