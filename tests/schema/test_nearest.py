"""The entry that is most like a key without one; none if they have no text in common."""

from time import process_time

import pytest

from proxy.schema.entries import KeyEntry
from proxy.schema.nearest import nearest_entry
from proxy.schema.patterns import parse_pattern

PATTERNS = (
    "cart:{user:int}",
    "cart:{user:int}:items",
    "user:profile:{id}",
    "{app}:jobs",
    "v{major:int}:x",
    "lock:{w...}",
)
ENTRIES = [KeyEntry(pattern, parse_pattern(pattern)) for pattern in PATTERNS]


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("cart:x", "cart:{user:int}"),
        ("Cart:42", "cart:{user:int}"),
        ("crat:42:items", "cart:{user:int}:items"),
        ("cart:42:item", "cart:{user:int}:items"),
        ("user:profil:7", "user:profile:{id}"),
        ("lokc:a:b", "lock:{w...}"),
        ("orders:7", ""),
        ("", ""),
        (":", ""),
    ],
)
def test_the_entry_with_the_most_in_common(key: str, nearest: str) -> None:
    found = nearest_entry(ENTRIES, key.encode())
    assert (found.name if found else "") == nearest


def test_the_worst_key_is_compared_in_no_time() -> None:
    entries = [KeyEntry(f"{i}", parse_pattern(":".join([f"{'a' * 12}{i}"] * 12))) for i in range(1000)]
    key = b":".join([b"a" * 14] * 5000)
    began = process_time()
    nearest_entry(entries, key)
    assert process_time() - began < 2
