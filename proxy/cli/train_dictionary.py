"""`keyrail train-dictionary`: make a zstd dictionary of stored values for a rule that compresses."""

import argparse
import asyncio
import sys
import time
from pathlib import Path

from proxy.cli.line import LineParser
from proxy.cli.scan_output import is_writable
from proxy.cli.scan_text import size
from proxy.cli.walk import FAILED, INVALID, add_walk_options, drive, load
from proxy.compression.dictionaries import DictionaryError
from proxy.compression.frames import Codec
from proxy.compression.training import Trial, try_dictionary
from proxy.policy.model import Policy
from proxy.policy.tenants import StoredNames
from proxy.policy.wording import shown_by
from proxy.rules.compress.rule import CompressSettings
from proxy.rules.compress.terms import USUAL_LEVELS, Terms
from proxy.server.stored.judging import StoredJudge
from proxy.server.stored.scanner import Options, Scanner, WallClock
from proxy.server.stored.value_sample import ValueSample
from proxy.server.whole_file import write_new_file

_WORTH = 0.05
"""A dictionary that saves less than this share more is not worth the care that it needs."""


def add_verb(verbs: "argparse._SubParsersAction[LineParser]") -> None:
    parser = verbs.add_parser(
        "train-dictionary",
        help="make a dictionary of stored values for a rule that compresses",
        allow_abbrev=False,
        description="Read values of a rule that compresses, make a zstd dictionary of what they have in common, and "
        "say what it would save. It writes nothing to Redis, and takes a share of each server's time. Exit status: 0, "
        "1 if no dictionary could be made, 2 if an option or the policy is not valid, 130 for Ctrl-C, 143 for SIGTERM.",
    )
    add_walk_options(parser)
    parser.add_argument("--rule", metavar="NAME", default="", help="needed if several rules compress")
    parser.add_argument("--replicas", action="store_true", help="read from a replica of each primary")
    parser.add_argument("--out", metavar="FILE", type=Path, required=True, help="the dictionary, a new file")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Read values, train, write the file, say what it saves, and return the exit status."""
    loaded = load(parsed)
    if loaded is None:
        return INVALID
    policy, tls = loaded
    rules = {rule.name: rule.settings.terms for rule in policy.rules if isinstance(rule.settings, CompressSettings)}
    name = parsed.rule or next(iter(rules), "")
    if name not in rules or (len(rules) > 1 and not parsed.rule):
        names = ", ".join(rules) or "none in this policy"
        return _complain(f"--rule NAME: expected a rule that compresses, one of {names}", INVALID)
    if parsed.out.exists() or parsed.out.is_symlink():
        return _complain(f"--out {parsed.out}: the file is there already, and values may need it", INVALID)
    if not is_writable(parsed.out.absolute().parent):
        return INVALID
    terms, sample = rules[name], _sample(rules[name], policy, parsed)
    options = Options(parsed.share, parsed.replicas, name="keyrail-train")
    judge = StoredJudge(policy, time.time())
    scanner = Scanner(parsed.upstream, tls, judge, shown_by(policy.redact), options, WallClock(), sample)
    status = asyncio.run(drive(scanner))
    if status:
        return status
    try:
        trial = try_dictionary(sample.values, terms.level if terms.codec is Codec.ZSTD else USUAL_LEVELS[Codec.ZSTD])
        write_new_file(parsed.out, trial.dictionary.content)
    except DictionaryError as error:
        return _complain(f"no dictionary could be made of values of {_keys(terms)}: {error}{_besides(sample)}", FAILED)
    except OSError as error:
        return _complain(f"cannot write {parsed.out}: {error.strerror}", FAILED)
    print(_text(parsed.out, trial, name, terms))
    if sample.unreadable:
        print(f"keyrail: {_left_out(sample)}", file=sys.stderr)
    return 0


def _sample(terms: Terms, policy: Policy, parsed: argparse.Namespace) -> ValueSample:
    return ValueSample(terms, parsed.upstream.database, StoredNames(policy.tenants))


def _text(file: Path, trial: Trial, rule: str, terms: Terms) -> str:
    made = f"{file}: a dictionary of {size(len(trial.dictionary.content))}, named {trial.dictionary.name.hex()}"
    trained = f"trained on {trial.trained_on:,} values of {_keys(terms)}"
    saves = (
        f"Of {trial.tried_on:,} others, zstd saves {trial.saves_without:.1%} without it, and {trial.saves:.1%} with it."
    )
    if trial.saves - trial.saves_without < _WORTH:
        saves += " That is hardly worth a dictionary, without which nobody can read the values."
    use = (
        f"Keep the file with the policy. Name it in also_read of {rule}; when all who serve these keys have that, in "
        "dictionary."
    )
    return f"{made}, {trained}\n{saves}\n{use}"


def _keys(terms: Terms) -> str:
    return f"{', '.join(terms.keys)} above {terms.above:,} bytes"


def _besides(sample: ValueSample) -> str:
    refused = f"; the server says {sample.refusal}" if sample.refusal else ""
    return f"{refused}; {_left_out(sample)}" if sample.unreadable else refused


def _left_out(sample: ValueSample) -> str:
    return f"{sample.unreadable:,} values were left out: they need a dictionary that the rule does not name"


def _complain(text: str, status: int) -> int:
    print(f"keyrail: {text}", file=sys.stderr)
    return status
