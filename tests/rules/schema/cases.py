from tests.rules.cases import Case

CASES = [
    Case("schema-type", {"schema": "type"}, "LPUSH cart:1 x", ("HSET cart:1 a 1",), "LPUSH cart:2 x"),
    Case("schema-size", {"schema": "size"}, "SET page:a longer", (), "MSET page:a x page:b longer"),
    Case("schema-ttl", {"schema": "ttl"}, "SET page:a v", refused=False, ttl_of="page:a"),
]
