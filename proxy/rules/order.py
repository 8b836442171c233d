"""Which guardrail goes before which. The order is the product's, not the policy author's: moving a rule in a
file never changes what it does. Two rules of one guardrail keep the order of the file.

A rule sees the command as the rules before it left it, so whatever judges what the *client* said comes before
whatever changes it:

1. ``refuse``: a refused command needs no other opinion, and no rewrite may hide it from its refusal.
2. ``names``: about the keys that the client wrote, before anything adds arguments around them.
3. ``sizes``, ``fan_out``, ``ranges``, ``whole_collections``: about what the client asks for, the cheapest first.
4. ``scan_counts``: it may lower a COUNT, which no rule above is about.
5. ``replace``: before the lifetimes, which then see the command that will really run.
6. ``lifetime``: last, for it completes a write that every other rule has let through.
"""

from proxy.rules.fan_out import FanOutSettings
from proxy.rules.lifetime import LifetimeSettings
from proxy.rules.names import NamesSettings
from proxy.rules.ranges import RangesSettings
from proxy.rules.refuse import RefuseSettings
from proxy.rules.replace import ReplaceSettings
from proxy.rules.rule import Settings
from proxy.rules.scan_counts import ScanCountsSettings
from proxy.rules.sizes import SizesSettings
from proxy.rules.whole_collections import WholeCollectionsSettings

ORDER: tuple[type[Settings], ...] = (
    RefuseSettings,
    NamesSettings,
    SizesSettings,
    FanOutSettings,
    RangesSettings,
    WholeCollectionsSettings,
    ScanCountsSettings,
    ReplaceSettings,
    LifetimeSettings,
)
"""First to last."""
