from tests.rules.cases import Case

CASES: list[Case] = []
ELSEWHERE = "tests/replicas/test_reads.py: it takes replicas to see it"
