"""Reads of some keys that Keyrail answers from memory.

The rule has no verdict: whether a read is answered from memory is decided when all rules have let it pass unchanged.
The local cache (``proxy.local_cache``) asks the rule which keys it is about.
"""

from dataclasses import dataclass
from enum import StrEnum

from proxy.commands.cached_reads import CACHED_READS
from proxy.commands.command import Command
from proxy.commands.spec import Spec
from proxy.rules.context import Context
from proxy.rules.key_globs import KeyGlob
from proxy.rules.lowering import Lowering
from proxy.rules.one_key import OneKey
from proxy.rules.rule import BY_APP, Binding, InScripts, Needs, Rule, RuleSettings, Wording
from proxy.rules.verdict import PASS, Verdict


class When(StrEnum):
    """Which of the keys are cached."""

    HOT = "hot"
    """Those that are read often now."""
    ALWAYS = "always"
    """All of them."""


@dataclass(frozen=True, slots=True)
class LocalCacheSettings(RuleSettings):
    """The patterns of `keys`, or the one `key` of a remedy; how old a reply may become, in seconds, and how large, in
    bytes; and the `memory` for replies in each worker, in bytes."""

    keys: tuple[str, ...] = ()
    when: When = When.HOT
    max_age: int = 5
    max_value: int = 64 << 10
    memory: int = 64 << 20
    key: OneKey | None = None

    @property
    def globs(self) -> tuple[KeyGlob, ...]:
        """The patterns of its keys; of one key, all names by which clients may know it."""
        return self.key.globs if self.key is not None else tuple(map(KeyGlob.of, self.keys))

    @property
    def takes(self) -> frozenset[str]:
        """Its keys are its own, and the memory knows no others."""
        return BY_APP

    @property
    def beyond_acl(self) -> str:
        return ""

    def bind(self, name: str, _wording: Wording, _binding: Binding) -> "LocalCacheRule":
        return LocalCacheRule(name, self)


class LocalCacheRule(Rule):
    """One rule about the local cache."""

    needs = Needs(history=True, in_scripts=InScripts.NOTHING)

    def __init__(self, name: str, settings: LocalCacheSettings) -> None:
        self.name = name
        self.settings = settings
        self._globs = settings.globs

    def fits(self, own: bytes, name: bytes) -> bool:
        """Whether it is about a key, by the name that a client knows and that in Redis."""
        key = self.settings.key
        return name == key.name if key is not None else self._is_named(own)

    def _is_named(self, own: bytes) -> bool:
        return any(glob.fits(own) for glob in self._globs)

    def touches(self, spec: Spec) -> bool:
        return spec.name in CACHED_READS

    def judge(self, _command: Command, _context: Context) -> Verdict:
        return PASS

    def remark(self, command: Command, acts: bool) -> str:
        if len(command.known_keys) != 1 or not self._is_named(command.known_keys[0].name):
            return ""
        hot = " while its key is hot" if self.settings.when is When.HOT else ""
        return f"{'may' if acts else 'would'} answer it from memory{hot}"

    def lower(self, _spec: Spec, _lowering: Lowering) -> None:
        """The plan lets every command pass."""
