from tests.rules.cases import Case

CASES = [
    Case("fan-out", {"fan_out": {"max": "2"}}, "MGET k:1 k:2 k:3", ("SET k:1 v",), "DEL k:1 k:2 k:3"),
]
