from tests.rules.cases import Case

CASES = [
    Case("replace", {"replace": {"DEL": "UNLINK"}}, "DEL k:1 k:2", ("SET k:1 v",), "DEL k:2 k:1", refused=False),
]
