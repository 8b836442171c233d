"""What follows from what Sentinels tell: only what more than half of all of them say."""

from __future__ import annotations

from typing import Any

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.net.config.endpoint import Endpoint
from proxy.net.topology.sentinel_views import (
    NoMajorityError,
    SentinelError,
    SentinelGroup,
    SentinelView,
    agreed,
    counting,
    dissent,
    listed,
    read_sentinel,
    replicas,
    size,
)

OLD, NEW = Endpoint("10.0.0.1", 6379), Endpoint("10.0.0.2", 6379)
SENTINELS = {name: Endpoint(f"10.0.1.{number}", 26379) for number, name in enumerate("abcde", 1)}


def view(by: str, primary: Endpoint | None, others: str = "abc") -> SentinelView:
    return SentinelView(by, primary, {name: SENTINELS[name] for name in others if name != by})


def refusal(*views: SentinelView, named: int = 3) -> str:
    with pytest.raises(NoMajorityError) as caught:
        agreed(views, "mymaster", named)
    return str(caught.value)


def test_two_of_three_decide() -> None:
    assert agreed([view("a", NEW), view("b", NEW), view("c", OLD)], "mymaster", 3) == NEW
    assert agreed([view("a", NEW), view("b", NEW)], "mymaster", 1) == NEW


def test_one_of_three_decides_nothing() -> None:
    assert refusal(view("a", NEW)) == "1 of 3 Sentinels answer"
    assert refusal(view("a", NEW), named=1) == "1 of 3 Sentinels answer"
    assert refusal() == "no Sentinel answers"
    assert refusal(view("a", NEW), view("b", OLD)) == (
        "no majority of the Sentinels names one primary: 10.0.0.1:6379 (1 of 3), 10.0.0.2:6379 (1 of 3)"
    )


def test_half_of_them_decides_nothing() -> None:
    assert refusal(view("a", NEW, "ab"), view("b", OLD, "ab"), named=2).startswith("no majority")
    assert refusal(*(view(by, NEW, "abcd") for by in "ab")) == "2 of 4 Sentinels answer"
    assert agreed([view(by, NEW, "abcd") for by in "abc"], "mymaster", 1) == NEW


def test_a_sentinel_that_has_forgotten_the_others_is_not_alone() -> None:
    assert refusal(view("a", NEW, others="")) == "1 of 3 Sentinels answer"
    assert agreed([view("a", NEW, others="")], "mymaster", 1) == NEW


def views_of(*told: SentinelView) -> dict[Endpoint, SentinelView]:
    return {SENTINELS[each.by]: each for each in told}


def a_group(*told: SentinelView, named: str = "a") -> SentinelGroup:
    """One that has agreed once on what these tell."""
    group = SentinelGroup([SENTINELS[by] for by in named], lambda at: at)
    group.agree(views_of(*told), "mymaster")
    return group


def test_a_sentinel_that_has_forgotten_the_others_decides_nothing() -> None:
    """It is the only one that the URL names, and the others do not answer now."""
    lonely = view("a", NEW, others="")
    group = a_group(*(view(by, OLD) for by in "abc"))
    for told in ([lonely], [lonely, view("b", OLD)]):
        with pytest.raises(NoMajorityError):
            group.agree(group.counting(views_of(*told)), "mymaster")
    assert group.agree(group.counting(views_of(lonely, view("b", OLD), view("c", OLD))), "mymaster") == OLD
    with pytest.raises(NoMajorityError, match="1 of 3 Sentinels answer"):
        group.agree(views_of(lonely), "mymaster")
    assert group.members.keys() == {*"abc"}


def test_a_sentinel_that_is_cut_off_brings_in_nobody() -> None:
    """It has another master of the same name by now, and friends there. The others of the group do not answer."""
    group = a_group(*(view(by, OLD) for by in "abc"))
    for friends in ("d", "de"):
        told = [view(by, NEW, "a" + friends) for by in "a" + friends]
        with pytest.raises(NoMajorityError, match="1 of 3 Sentinels answer"):
            group.agree(group.counting(views_of(*told)), "mymaster")


def test_a_group_gets_members_that_most_of_it_list() -> None:
    group = a_group(*(view(by, OLD) for by in "abc"))
    told = views_of(*(view(by, NEW, "abcd") for by in "abd"))
    assert group.counting(told) == told
    assert group.agree(told, "mymaster") == NEW
    assert "d" in group.members


def test_a_group_that_was_replaced_as_a_whole() -> None:
    group = a_group(*(view(by, OLD, "ab") for by in "ab"))
    told = views_of(*(view(by, NEW, "cde") for by in "cde"))
    assert group.agree(group.counting(told), "mymaster") == NEW
    assert group.members.keys() >= {*"cde"}


def test_a_group_shrinks_when_most_of_it_say_so() -> None:
    group = a_group(*(view(by, OLD, "abcde") for by in "abcde"))
    assert group.agree(views_of(*(view(by, NEW, "abc") for by in "abc")), "mymaster") == NEW
    assert group.members.keys() == {*"abc"}
    assert group.agree(views_of(view("a", OLD), view("b", OLD)), "mymaster") == OLD
    group = a_group(*(view(by, OLD, "abcde") for by in "abcde"))
    with pytest.raises(NoMajorityError, match="2 of 5 Sentinels answer"):
        group.agree(views_of(view("a", NEW, "ab"), view("b", NEW, "ab")), "mymaster")
    assert group.members.keys() == {*"abcde"}


def test_one_sentinel_takes_the_place_of_another() -> None:
    group = a_group(*(view(by, OLD) for by in "abc"))
    group.agree(views_of(view("a", OLD, "abd"), view("b", OLD, "abd")), "mymaster")
    assert group.members.keys() == {*"abd"}


def test_all_may_forget_each_other_for_a_moment() -> None:
    group = a_group(*(view(by, OLD) for by in "abc"))
    with pytest.raises(NoMajorityError):
        group.agree(views_of(view("a", NEW, ""), view("b", OLD, "")), "mymaster")
    assert group.agree(views_of(*(view(by, NEW, "") for by in "abc")), "mymaster") == NEW


def test_who_was_agreed_on_counts_although_nobody_lists_it() -> None:
    group = a_group(*(view(by, OLD) for by in "abc"))
    forgotten = views_of(view("a", NEW, ""), view("b", OLD, "bc"), view("c", OLD, "bc"))
    assert group.counting(forgotten) == forgotten
    stranger = forgotten | {SENTINELS["d"]: view("d", NEW, "abcd")}
    assert group.counting(stranger) == forgotten


def test_a_sentinel_with_a_new_id_or_at_a_new_address_is_one() -> None:
    group = a_group(*(view(by, OLD) for by in "abc"))
    moved = Endpoint("10.0.1.9", 26379)
    group.agree({SENTINELS["a"]: view("a", OLD), moved: view("b", OLD), SENTINELS["c"]: view("d", OLD)}, "mymaster")
    assert group.members == {"a": SENTINELS["a"], "b": moved, "d": SENTINELS["c"]} | {"c": SENTINELS["c"]}


def test_a_name_that_no_sentinel_knows() -> None:
    assert refusal(*(view(by, None, "") for by in "abc")) == "the Sentinels know no primary named 'mymaster'"


def test_one_sentinel_at_two_addresses_has_one_voice() -> None:
    assert refusal(view("a", NEW), view("a", NEW), view("b", OLD)).startswith("no majority")


def test_whom_only_a_liar_lists_is_not_asked() -> None:
    liar = SentinelView("c", OLD, {"d": SENTINELS["d"], "e": SENTINELS["e"]})
    assert listed([view("a", NEW), view("b", NEW), liar]).keys() == {"c"}
    assert size([view("a", NEW), view("b", NEW), liar], 3) == 3
    assert listed([view("a", NEW)]).keys() == {"b", "c"}


def test_a_sentinel_that_the_others_have_forgotten_does_not_count() -> None:
    views = {SENTINELS[by]: view(by, NEW if by == "a" else OLD, "abc") for by in "abc"}
    views[SENTINELS["d"]] = view("d", NEW, "abcd")
    assert counting(views, [SENTINELS["a"]]).keys() == {SENTINELS[by] for by in "abc"}
    assert counting(views, [SENTINELS["d"]]).keys() == views.keys()
    alone = {SENTINELS["b"]: view("b", NEW)}
    assert counting(alone, []) == alone


def test_who_says_otherwise_is_named() -> None:
    views = {SENTINELS["a"]: view("a", NEW), SENTINELS["b"]: view("b", OLD), SENTINELS["c"]: view("c", None)}
    assert dissent(views, NEW) == {
        "Sentinel 10.0.1.2:26379 names 10.0.0.1:6379, and most others 10.0.0.2:6379",
        "Sentinel 10.0.1.3:26379 names no primary, and most others 10.0.0.2:6379",
    }


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from([OLD, NEW])), max_size=5, unique_by=lambda v: v[0]))
def test_two_majorities_never_name_different_primaries(told: list[tuple[str, Endpoint]]) -> None:
    """Whatever part of five Sentinels each of two Keyrails can see."""
    views = [view(by, primary, "abcde") for by, primary in told]
    seen = set()
    for part in range(1 << len(views)):
        try:
            seen.add(agreed([each for at, each in enumerate(views) if part >> at & 1], "mymaster", 1))
        except NoMajorityError:
            continue
    assert len(seen) <= 1


def fields(name: str, port: int, *, as_map: bool) -> Any:
    told = {b"ip": b"10.0.1.9", b"port": b"%d" % port, b"runid": name.encode(), b"flags": b"sentinel"}
    return told if as_map else [word for pair in told.items() for word in pair]


@pytest.mark.parametrize("as_map", [False, True])
def test_replies_of_both_protocols(as_map: bool) -> None:
    found = read_sentinel("at", b"me", [b"10.0.0.1", b"6379"], [fields("x", 1, as_map=as_map)])
    assert found == SentinelView("me", OLD, {"x": Endpoint("10.0.1.9", 1)})


def test_replicas_as_a_sentinel_sees_them() -> None:
    good = {b"ip": b"10.0.0.2", b"port": b"6379", b"flags": b"slave"}
    good |= {b"role-reported": b"slave", b"master-link-status": b"ok"}
    for change in (
        {b"flags": b"s_down,slave,disconnected"},
        {b"role-reported": b"master"},
        {b"master-link-status": b"err"},
        {b"flags": None},
    ):
        found = read_sentinel("at", b"me", [b"10.0.0.1", b"6379"], [], [good | {b"port": b"1"}, good | change])
        assert found.replicas == {Endpoint("10.0.0.2", 1): True, NEW: False}


def test_a_replica_is_one_that_most_list_and_replicates_if_all_say_so() -> None:
    def lists(by: str, **told: bool) -> SentinelView:
        return SentinelView(by, OLD, replicas={Endpoint(host, 1): well for host, well in told.items()})

    assert replicas([lists("a", x=True, y=True), lists("b", x=True, y=False), lists("c", x=True, y=True, z=False)]) == {
        Endpoint("x", 1): True,
        Endpoint("y", 1): False,
    }
    assert replicas([lists("a", x=True), lists("b", x=True), lists("c")]) == {Endpoint("x", 1): False}
    assert replicas([lists("a", x=True), lists("a", x=True), lists("b"), lists("c")]) == {}, "one voice each"
    assert replicas([]) == {}


def test_replies_of_other_servers() -> None:
    error = hiredis.ReplyError("ERR unknown command")
    assert read_sentinel("at", error, [b"10.0.0.1", b"6379"], error) == SentinelView("at", OLD)
    assert read_sentinel("at", b"me", None, error) == SentinelView("me", None)
    with pytest.raises(SentinelError, match="it answers ERR unknown command"):
        read_sentinel("at", error, error, error)
    for nonsense in ([b"10.0.0.1"], [b"", b"6379"], [b"h", b"0"], [b"h", b"65536"], b"OK", [b"h", 1]):
        with pytest.raises(SentinelError, match="it names no address"):
            read_sentinel("at", b"me", nonsense, [])
    assert read_sentinel("at", b"me", [b"h", b"1"], [[b"ip", b"h"]]).others == {}
