from tests.rules.cases import Case

CASES: list[Case] = []
ELSEWHERE = "the same command, sent again, is answered from memory: tests/net/test_local_caches.py"
