from tests.rules.cases import Case

CASES = [
    Case("values", {"values": {"refuse": ["php"]}}, "SET k:1 a:1:{i:0;i:7;}", (), "HSET k:1 f a:1:{i:0;i:7;}"),
]
