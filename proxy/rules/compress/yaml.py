"""``compress: {keys: ["doc:*"], above: 4KB, codec: zstd|lz4, level: 3, scripts: refuse|trusted}``, and dictionaries:
``{dictionary: doc-2.zdict, also_read: [doc-1.zdict]}``.
"""

from typing import NamedTuple

from proxy.compression.dictionaries import LARGEST, Dictionary, DictionaryError, checked
from proxy.compression.frames import EXTRA, Codec, missing
from proxy.policy_yaml.fields import Fields, choice, integer, one_or_more, read_fields, read_size
from proxy.policy_yaml.globs import read_key_patterns
from proxy.policy_yaml.json_schema_recorder import note
from proxy.policy_yaml.named_file import read_named_file
from proxy.policy_yaml.yaml_source import Problems, Scalar, Value
from proxy.rules.compress.rule import CompressSettings
from proxy.rules.compress.terms import LARGEST_ABOVE, USUAL_LEVELS, Terms
from proxy.rules.key_globs import KeyGlob, none_fits

_USUAL = Terms()
_LEAST = 64
"""Bytes; no codec pays below, and GLIDE compresses no smaller values either."""
_HIGHEST = 9
"""Higher levels take many times as long, in which no other client is served."""
_CODECS = {"zstd": Codec.ZSTD, "lz4": Codec.LZ4}
_SCRIPTS = {"refuse": False, "trusted": True}
_MOST_DICTIONARIES = 16
_DICTIONARY = (
    f"a zstd dictionary of at most {LARGEST >> 10} KB, in a file below the folder of this one, such as doc-1.zdict"
)


class _File(NamedTuple):
    dictionary: Dictionary
    path: str


def read_compress(value: Value, rule: Fields) -> CompressSettings | None:
    fields = read_fields(value, rule.problems)
    if fields is None:
        return None
    codec = fields.read("codec", choice(_CODECS), _USUAL.codec)
    written, also_read = _read_dictionaries(fields, codec)
    terms = Terms(
        keys=fields.require("keys", read_key_patterns, (), "a list of key patterns, such as [doc:*]"),
        above=fields.read("above", _read_above, _USUAL.above),
        codec=codec,
        level=fields.read("level", integer(1, _HIGHEST), USUAL_LEVELS[codec]),
        trusts_scripts=fields.read("scripts", choice(_SCRIPTS), _USUAL.trusts_scripts),
        dictionary=None if written is None else written.dictionary,
        also_read=tuple(each.dictionary for each in also_read),
        files=tuple(each.path for each in ((written,) if written else ()) + also_read),
    )
    fields.finish()
    if terms.keys and none_fits(frozenset(map(KeyGlob.of, terms.keys))) is None:
        rule.problems.add(fields.line_of("keys"), fields.path_of("keys"), "too many patterns", "fewer, or shorter ones")
    package = missing()
    if package:
        found = f"a rule that compresses, without the package {package}"
        rule.problems.add(fields.where, fields.path, found, f"{EXTRA} to be installed: pip install '{EXTRA}'")
    return CompressSettings(terms)


def _read_dictionaries(fields: Fields, codec: Codec) -> tuple[_File | None, tuple[_File, ...]]:
    # The one to compress with, and the others.
    written = fields.maybe("dictionary", _read_dictionary)
    also_read = fields.maybe("also_read", one_or_more(_read_dictionary)) or ()
    if codec is Codec.LZ4 and "dictionary" in fields:
        found, expected = "a dictionary with codec: lz4", "codec: zstd; lz4 has no dictionaries here"
        fields.problems.add(fields.line_of("dictionary"), fields.path_of("dictionary"), found, expected)
    if len(also_read) > _MOST_DICTIONARIES:
        found, expected = f"{len(also_read)} files", f"at most {_MOST_DICTIONARIES}"
        fields.problems.add(fields.line_of("also_read"), fields.path_of("also_read"), found, expected)
    return written, also_read


def _read_dictionary(value: Value, problems: Problems) -> _File | None:
    if note(value, type="string") or not isinstance(value, Scalar) or not value.text:
        problems.unexpected(value, _DICTIONARY)
        return None
    found = read_named_file(value, LARGEST, _DICTIONARY, problems)
    if found is None or missing():
        return None
    content, path = found
    try:
        return _File(checked(content), path)
    except DictionaryError as error:
        problems.add(value.where, value.path, f"{path} ({error})", _DICTIONARY)
        return None


def _read_above(value: Value, problems: Problems) -> int | None:
    size = read_size(value, problems)
    if size is not None and not _LEAST <= size <= LARGEST_ABOVE:
        problems.unexpected(value, "a size from 64B to 512MB")
        return None
    return size
