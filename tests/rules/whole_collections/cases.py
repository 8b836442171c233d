from tests.rules.cases import Case

CASES = [
    Case("whole", {"whole_collections": {"commands": ["HGETALL"]}}, "HGETALL k:1", ("HSET k:1 a 1",)),
    Case(
        "whole-max",
        {"whole_collections": {"max": "2", "unknown": "refuse"}},
        "HGETALL k:1",
        ("HSET k:1 a 1 b 2 c 3", "SADD k:2 a b", "SADD k:3 c"),
        "SUNION k:2 k:3",
        without=frozenset({"another type"}),  # for the sizes that were looked up are remembered
    ),
]
