from tests.rules.cases import Case

CASES = [
    Case("replies", {"replies": {"elements": "1"}}, "HGETALL k:1", ("HSET k:1 a 1 b 2",), refused=False),
]
