from tests.rules.cases import Case

CASES = [
    Case("refuse", {"refuse": ["KEYS"]}, "KEYS *", ("SET k:1 v",)),
    Case("refuse-arguments", {"refuse": ["CONFIG SET"]}, "CONFIG SET maxmemory 0"),
    Case("refuse-but", {"refuse": ["FLUSHALL"], "allow": ["FLUSHALL ASYNC"]}, "FLUSHALL SYNC", ("SET k:1 v",)),
]
