from tests.rules.cases import Case

CASES = [
    Case("one-slot", {"one_slot": "true"}, "MGET k:1 k:2", ("SET k:1 v",), "DEL {a}:1 {a}:2 {b}:3"),
]
