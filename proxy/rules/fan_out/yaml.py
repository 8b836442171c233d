"""``fan_out: {max: 100, commands: [DEL, UNLINK]}``."""

from proxy.commands.table import STANDARD
from proxy.policy_yaml.fields import Fields, integer, read_fields
from proxy.policy_yaml.yaml_source import Value
from proxy.rules.fan_out.rule import FanOutSettings
from proxy.rules.listing_yaml import read_commands
from proxy.rules.rule import Binding, Wording

_MOST = 1_000_000


def read_fan_out(value: Value, rule: Fields) -> FanOutSettings | None:
    fields = read_fields(value, rule.problems)
    if fields is None:
        return None
    most = fields.require("max", integer(1, _MOST), 1, "a number of keys, such as 100")
    listed, commands = fields.take("commands"), None
    if listed is not None:
        limit = FanOutSettings(most).bind("", Wording(), Binding(STANDARD))
        expected = f"a command that can name more than {most} keys"
        commands = read_commands(listed, rule.problems, limit.touches, expected)
    fields.finish()
    return FanOutSettings(most, commands or ())
