from tests.rules.cases import Case

CASES = [
    Case("names", {"names": {"segments": "2.."}}, "SET bad v", (), "MSET k:1 v bad v"),
    Case(
        "names-by-pattern",
        {"names": {"prefixes": ["k:", "w:"]}},
        "SORT k:1 BY nosort GET l:*",
        ("RPUSH k:1 a", "SET l:a v"),
        "SORT_RO k:1 BY *:w GET #",
    ),
    Case("in-schema", {"names": {"in_schema": "true"}, "applies_to": "writes"}, "SET no v", (), "MSET page:a v no v"),
]
