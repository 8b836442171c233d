"""A rule is held against the commands since it came into force, not against those before."""

from proxy.traffic.exposure import Exposure


def test_a_rule_counts_from_its_own_beginning() -> None:
    exposure = Exposure(["first"])
    assert exposure.figures({"unknown": 5}) == {"first": {"unknown": 5}}
    exposure.keep(["first", "second"], {"unknown": 10})
    assert exposure.figures({"unknown": 12, "new": 1}) == {
        "first": {"unknown": 12, "new": 1},
        "second": {"unknown": 2, "new": 1},
    }
    exposure.keep(["second"], {"unknown": 20})
    exposure.keep(["second", "first"], {"unknown": 30})
    assert exposure.figures({"unknown": 31}) == {"second": {"unknown": 21}, "first": {"unknown": 1}}
