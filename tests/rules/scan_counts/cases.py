from tests.rules.cases import Case

CASES = [
    Case("scan-counts", {"scan_counts": {"max": "10"}}, "SCAN 0 COUNT 999"),
]
