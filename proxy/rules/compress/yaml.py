"""``compress: {keys: ["doc:*"], above: 4KB, codec: zstd|lz4, level: 3, scripts: refuse|trusted}``."""

from proxy.compression.frames import EXTRA, Codec, missing
from proxy.policy_yaml.fields import Fields, choice, integer, read_fields, read_size
from proxy.policy_yaml.globs import read_key_patterns
from proxy.policy_yaml.yaml_source import Problems, Value
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


def read_compress(value: Value, rule: Fields) -> CompressSettings | None:
    fields = read_fields(value, rule.problems)
    if fields is None:
        return None
    codec = fields.read("codec", choice(_CODECS), _USUAL.codec)
    terms = Terms(
        keys=fields.require("keys", read_key_patterns, (), "a list of key patterns, such as [doc:*]"),
        above=fields.read("above", _read_above, _USUAL.above),
        codec=codec,
        level=fields.read("level", integer(1, _HIGHEST), USUAL_LEVELS[codec]),
        trusts_scripts=fields.read("scripts", choice(_SCRIPTS), _USUAL.trusts_scripts),
    )
    fields.finish()
    if terms.keys and none_fits(frozenset(map(KeyGlob.of, terms.keys))) is None:
        rule.problems.add(fields.line_of("keys"), fields.path_of("keys"), "too many patterns", "fewer, or shorter ones")
    package = missing()
    if package:
        found = f"a rule that compresses, without the package {package}"
        rule.problems.add(fields.where, fields.path, found, f"{EXTRA} to be installed: pip install '{EXTRA}'")
    return CompressSettings(terms)


def _read_above(value: Value, problems: Problems) -> int | None:
    size = read_size(value, problems)
    if size is not None and not _LEAST <= size <= LARGEST_ABOVE:
        problems.unexpected(value, "a size from 64B to 512MB")
        return None
    return size
