from tests.rules.cases import Case

CASES = [
    Case("ranges", {"ranges": {"max": "2"}}, "LRANGE k:1 0 -1", ("RPUSH k:1 a b c",), "ZRANGE k:2 0 5"),
]
