"""``tests: [{send: "KEYS *", refused_by: no-keyspace-walks}, {send: "DEL k", becomes: "UNLINK k"}]``."""

from proxy.policy.model import Expectation
from proxy.policy.sections.exceptions import read_word
from proxy.policy_yaml.fields import Fields, choice, read_fields, read_list
from proxy.policy_yaml.json_schema_recorder import note
from proxy.policy_yaml.yaml_source import Problems, Scalar, Sequence, Value
from proxy.wire.inline import split_inline

_ALONE = ("refused_by", "asked_by", "answered_by", "warned_by")
_SENT = ("becomes", "unchanged")
_BESIDE = ("followed_by", "moved_by")


def read_tests(value: Value, app: str, problems: Problems) -> tuple[Expectation, ...] | None:
    """The tests, in the order of the file; in an app's file, that app sends the commands."""
    if not isinstance(value, Sequence):
        problems.unexpected(value, 'a list such as [{send: "KEYS *", refused_by: no-keyspace-walks}]')
        return None
    return tuple(_read_test(fields, app) for item in value.items if (fields := read_fields(item, problems)) is not None)


def _read_test(fields: Fields, app: str) -> Expectation:
    expectation = Expectation(
        send=fields.read("send", _read_command, ()),
        app=app or fields.read("app", read_word, ""),
        refused_by=fields.read("refused_by", read_word, ""),
        asked_by=fields.read("asked_by", read_word, ""),
        answered_by=fields.read("answered_by", read_word, ""),
        warned_by=fields.read("warned_by", read_word, ""),
        followed_by=fields.read("followed_by", _read_words, ()),
        moved_by=fields.read("moved_by", _read_words, ()),
        becomes=fields.read("becomes", _read_command, ()),
        unchanged=fields.read("unchanged", choice({"true": True}), False),
        without_jitter=fields.read("jitter", choice({"0": True}), False),
        where=fields.where,
    )
    fields.finish()
    if fields.lacks("send"):
        fields.problems.add(fields.where, fields.path_of("send"), "nothing", 'a command, such as "KEYS *"')
    said = [key for key in (*_ALONE, *_SENT, *_BESIDE) if key in fields]
    together = not set(said).intersection(_ALONE) and not set(_SENT).issubset(said)
    if not said or (len(said) > 1 and not together):
        found = " and ".join(said) or "no outcome"
        beside = f"or some of {' or '.join(_SENT)}, {' and '.join(_BESIDE)}"
        fields.problems.add(fields.where, fields.path, found, f"one of {', '.join(_ALONE)}; {beside}")
    return expectation


def _read_words(value: Value, problems: Problems) -> tuple[str, ...] | None:
    """The name of a rule, or a list of them."""
    note(value, type="string")
    if isinstance(value, Sequence):
        found = read_list(value, problems)
        return None if found is None else tuple(name.text for name in found)
    word = read_word(value, problems)
    return None if word is None else (word,)


def _read_command(value: Value, problems: Problems) -> tuple[bytes, ...] | None:
    """A command as in redis-cli, with its quotes."""
    words = split_inline(value.text.encode()) if isinstance(value, Scalar) else None
    if words:
        return tuple(words)
    problems.unexpected(value, "a command as typed into redis-cli, with balanced quotes")
    return None
