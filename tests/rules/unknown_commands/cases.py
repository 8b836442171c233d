from tests.rules.cases import Case

CASES = [
    Case("unknown", {"unknown_commands": "refuse"}, "NO.SUCH k:1"),
]
