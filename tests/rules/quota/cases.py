from tests.rules.cases import Case

CASES: list[Case] = []
ELSEWHERE = "it is about what is stored, by a scan: guardrails/test_quota.py"
