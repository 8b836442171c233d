from tests.rules.cases import Case

CASES: list[Case] = []
ELSEWHERE = "it is about Redis, whatever the command: guardrails/test_breaker.py"
