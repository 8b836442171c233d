"""A rule's total counts the commands since it came into force, not those before."""

from proxy.traffic.rule_totals import RuleTotals


def test_a_rule_counts_from_its_own_beginning() -> None:
    totals = RuleTotals(["first"])
    assert totals.figures({"unknown": 5}) == {"first": {"unknown": 5}}
    totals.keep(["first", "second"], {"unknown": 10})
    assert totals.figures({"unknown": 12, "new": 1}) == {
        "first": {"unknown": 12, "new": 1},
        "second": {"unknown": 2, "new": 1},
    }
    totals.keep(["second"], {"unknown": 20})
    totals.keep(["second", "first"], {"unknown": 30})
    assert totals.figures({"unknown": 31}) == {"second": {"unknown": 21}, "first": {"unknown": 1}}
