from tests.rules.cases import Case

ALLOWED = ["GET", "ECHO", "MULTI", "WATCH", "CLIENT REPLY", "CLIENT TRACKING"]
"""The commands that the forms themselves need, and GET."""


CASES = [
    Case("allow-only", {"allow_only": ALLOWED}, "SET k:1 w", ("SET k:1 v",)),
]
