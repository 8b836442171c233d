from tests.rules.cases import Case

CASES = [
    Case("schema-type", {"schema": "type"}, "LPUSH cart:1 x", ("HSET cart:1 a 1",), "LPUSH cart:2 x"),
    Case("schema-size", {"schema": "size"}, "SET page:a longer", (), "MSET page:a x page:b longer"),
    Case(
        "schema-members",
        {"schema": "size", "remember": "6s"},
        "SUNIONSTORE cart:1 a b",
        ("SADD a 1 2 3", "SADD b 4 5"),
        "ZUNIONSTORE cart:2 2 a b",
        without=frozenset({"another type"}),  # then Redis itself refuses it
    ),
    Case("schema-fields", {"schema": "fields"}, "HSET card:1 mail x", ("HSET card:1 name a",), "HSET card:1 age x"),
    Case("schema-ttl", {"schema": "ttl"}, "SET page:a v", refused=False, ttl_of="page:a"),
]
