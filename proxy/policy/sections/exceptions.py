"""``exceptions: [{rule: no-keyspace-walks, app: reports, keys: "lock:*", because: DATA-412, until: 2027-01-15}]``."""

from datetime import date

from proxy.policy.model import PolicyException
from proxy.policy.sections.modes import read_mode
from proxy.policy_yaml.errors import shown
from proxy.policy_yaml.fields import Fields, read_fields, read_line
from proxy.policy_yaml.globs import read_key_pattern
from proxy.policy_yaml.json_schema_recorder import note
from proxy.policy_yaml.yaml_source import Problems, Scalar, Sequence, Value


def read_exceptions(value: Value, problems: Problems) -> tuple[PolicyException, ...] | None:
    """The exceptions, in the order of the file."""
    if not isinstance(value, Sequence):
        problems.unexpected(value, 'a list such as [{rule: no-keyspace-walks, app: reports, because: "…"}]')
        return None
    found = [_read_exception(fields) for item in value.items if (fields := read_fields(item, problems)) is not None]
    return tuple(found)


def _read_exception(fields: Fields) -> PolicyException:
    then = fields.take("then")
    until = fields.take("until")
    exception = PolicyException(
        rule=fields.read("rule", read_word, ""),
        app=fields.read("app", read_word, ""),
        keys=fields.read("keys", read_key_pattern, ""),
        because=fields.read("because", read_line, ""),
        until=None if until is None else _read_day(until, fields.problems),
        then=None if then is None else read_mode(then, fields.problems),
        where=fields.where,
    )
    fields.finish()
    for key, said in (("rule", exception.rule), ("because", exception.because)):
        if not said and fields.lacks(key):
            fields.problems.add(fields.where, fields.path_of(key), "nothing", _WANTED[key])
    if not exception.app and not exception.keys:
        expected = "app, keys or both"
        fields.problems.add(fields.where, fields.path, "neither app nor keys", expected)
    if then is not None and until is None:
        fields.problems.add(
            fields.line_of("then"), fields.path_of("then"), "then without until", "until: DAY beside it"
        )
    return exception


_WANTED = {"rule": "the name of a rule", "because": "the reason, such as a ticket's number"}


def read_word(value: Value, problems: Problems) -> str | None:
    """The name of a rule or an app; ``checks.references`` checks later that it exists."""
    if isinstance(value, Scalar) and value.text:
        return value.text
    problems.unexpected(value, "a name")
    return None


def _read_day(value: Value, problems: Problems) -> date | None:
    note(value, type="string", format="date")
    try:
        return date.fromisoformat(value.text if isinstance(value, Scalar) else "")
    except ValueError:
        found = shown(value.text) if isinstance(value, Scalar) else "no text"
        problems.add(value.where, value.path, found, "a day such as 2027-01-15")
        return None
