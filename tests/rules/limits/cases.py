from tests.rules.cases import Case

CASES: list[Case] = []
ELSEWHERE = "it is about what went before: guardrails/test_limits.py sends these forms until there is too much"
