from tests.rules.cases import Case

CASES = [
    Case("keys", {"keys_by_scan": {"keys": "1"}}, "KEYS *", ("SET k:1 v", "SET k:2 v"), group="apart"),
]
