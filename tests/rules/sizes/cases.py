from tests.rules.cases import Case

CASES = [
    Case("sizes", {"sizes": {"value": "8B"}}, "SET k:1 longer:than:eight", (), "MSET k:1 x k:2 longer:than:eight"),
    Case("members", {"sizes": {"members": "2"}}, "RPUSH k:1 a b c", (), "HSET k:1 a 1 b 2 c 3"),
]
