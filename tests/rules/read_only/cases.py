from tests.rules.cases import Case

CASES = [
    Case("read-only", {"read_only": "true"}, "SET k:1 w", ("SET k:1 v",), "MSET k:1 w k:2 w"),
]
