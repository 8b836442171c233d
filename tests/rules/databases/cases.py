from tests.rules.cases import Case

CASES = [
    Case("databases", {"databases": ["0"]}, "COPY k:1 k:2 DB 1", ("SET k:1 v",)),
]
