from tests.rules.cases import NOT_IN_MULTI, Case

CASES = [
    Case(
        "transactions",
        {"transactions": "refuse"},
        "WATCH k:1",
        without=NOT_IN_MULTI | {"after a watch"},
        group="apart",
    ),
]
