from tests.rules.cases import NOTHING_FOLLOWS, Case

CASES = [
    Case(
        "trim",
        {"collections": {"members": "2", "lists": "trim"}},
        "RPUSH k:1 c",
        ("RPUSH k:1 a b",),
        "RPUSHX k:1 c",
        refused=False,
        leaves=("RPUSH k:1 b c",),
        without=NOTHING_FOLLOWS | {"hidden ones are forbidden"},  # what cannot be trimmed is refused when too long
    ),
]
