"""The YAML of the guardrails about size and work: accepted settings, and the errors for others."""

import pytest

from proxy.policy_yaml.errors import PolicyError
from proxy.rules.collections.rule import CollectionsSettings
from proxy.rules.fan_out.rule import FanOutSettings
from proxy.rules.keys_by_scan.rule import KeysByScanSettings
from proxy.rules.ranges.rule import RangesSettings
from proxy.rules.replies.rule import RepliesSettings
from proxy.rules.rule import RuleSettings
from proxy.rules.scan_counts.rule import ScanCountsSettings
from proxy.rules.sizes.rule import SizesSettings
from proxy.rules.whole_collections.rule import WholeCollectionsSettings
from tests.policy.given import policy


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("sizes: {value: 10KB, members: 100, command: 1MB}", SizesSettings(10_240, 100, 1 << 20)),
        ("sizes: {value: 512B}", SizesSettings(512)),
        ("ranges: {max: 100}", RangesSettings(100)),
        ("ranges: {max: 100, bytes: 1KB, endless: allow}", RangesSettings(100, 1024, endless=True)),
        ("scan_counts: {max: 1000}", ScanCountsSettings(1000)),
        ("scan_counts: {max: 1000, over: lower}", ScanCountsSettings(1000, lower=True)),
        ("fan_out: {max: 100}", FanOutSettings(100)),
        ("fan_out: {max: 100, commands: [del, UNLINK]}", FanOutSettings(100, ("DEL", "UNLINK"))),
        ("whole_collections: {}", WholeCollectionsSettings()),
        (
            "whole_collections: {max: 100, remember: 1m, unknown: refuse}",
            WholeCollectionsSettings(max=100, remember=60, unknown=False),
        ),
        ("collections: {members: 5000}", CollectionsSettings(5000, None, 0.1, 5)),
        ("collections: {members: 5, streams: 6, sample: 50%, remember: 1m}", CollectionsSettings(5, 6, 0.5, 60)),
        ("collections: {members: 5, lists: trim}", CollectionsSettings(5, trim=True)),
        ("collections: {members: 5, unknown: refuse}", CollectionsSettings(5, unknown=False)),
        ("replies: {elements: 5}", RepliesSettings(5)),
        ("replies: {elements: 5, bytes: 1KB, commands: [get, HGETALL]}", RepliesSettings(5, 1024, ("GET", "HGETALL"))),
        ("keys_by_scan: {}", KeysByScanSettings(10_000, 1 << 20, 2, 500)),
        ("keys_by_scan: {keys: 5, bytes: 1KB, time: 1s, count: 7}", KeysByScanSettings(5, 1024, 1, 7)),
        ("whole_collections: {commands: [hgetall, SMEMBERS]}", WholeCollectionsSettings(("HGETALL", "SMEMBERS"))),
    ],
)
def test_read(text: str, settings: RuleSettings) -> None:
    assert [rule.settings for rule in policy(f"rules: {{r: {{{text}}}}}").rules] == [settings]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sizes: {}", "r.sizes: found no limit, expected at least one of value, members, command"),
        ("sizes: {value: 10}", "r.sizes.value: found '10', expected a size with its unit, such as 512B, 10KB or 1MB"),
        ("sizes: {members: 0}", "r.sizes.members: found '0', expected a whole number from 1"),
        ("ranges: {}", "r.ranges.max: found nothing, expected a number of elements, such as 100"),
        ("ranges: {max: 1, endless: maybe}", "expected one of refuse, allow"),
        ("scan_counts: {over: lower}", "r.scan_counts.max: found nothing, expected the largest COUNT"),
        ("fan_out: {max: 5, commands: [GET]}", "r.fan_out.commands[0]: found 'GET', expected a command that can name"),
        ("fan_out: {max: 5, commands: [DEL, DEL]}", "r.fan_out.commands[1]: found 'DEL', expected each command once"),
        ("fan_out: {most: 5}", "r.fan_out.most: found an unknown key, expected one of max"),
        ("collections: {sample: 10%}", "r.collections: found no cap, expected members, streams or both"),
        ("collections: {streams: 5, lists: trim}", "r.collections.lists: found this, expected members beside it"),
        ("replies: {}", "r.replies: found no limit, expected elements, bytes or both"),
        ("replies: {bytes: 1B, commands: [MONITOR]}", "expected a command with exactly one reply"),
        ("whole_collections: {remember: 5s}", "r.whole_collections.remember: found this, expected max beside it"),
        ("keys_by_scan: {time: 2m}", "r.keys_by_scan.time: found 120 s, expected at most 60s"),
        ("whole_collections: {commands: [GET]}", "found 'GET', expected a command that reads whole collections"),
        ("whole_collections: {commands: [HGETALL, hgetall]}", "expected each command once"),
    ],
)
def test_what_makes_no_sense(text: str, said: str) -> None:
    with pytest.raises(PolicyError) as raised:
        policy(f"rules: {{r: {{{text}}}}}")
    assert said in str(raised.value)
