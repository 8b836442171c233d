from tests.rules.cases import NOTHING_FOLLOWS, Case

CASES = [
    Case("lifetime", {"lifetime": {"default": "5m", "keys": "k:*"}}, "SET k:1 v", refused=False, ttl_of="k:1"),
    Case(
        "lifetime-behind",
        {"lifetime": {"default": "5m", "keys": ["k:*", "l:*"]}},
        "HSET k:1 f v",
        second="MSETNX l:1 v k:1 w",
        refused=False,
        ttl_of="k:1",
        without=NOTHING_FOLLOWS,
    ),
    Case(
        "lifetime-bounds",
        {"lifetime": {"default": "30m", "max": "1h", "outside": "refuse", "persist": "refuse", "keys": "k:*"}},
        "EXPIRE k:1 9999",
        ("SET k:1 v EX 60",),
        "GETEX k:1 PERSIST",
    ),
    Case(
        "lifetime-sliding",
        {"lifetime": {"default": "5m", "sliding": "true", "keys": "s:*"}},
        "GET s:1",
        ("SET s:1 v EX 60",),
        "MGET s:1 s:2",
        refused=False,
        ttl_of="s:1",
    ),
]
