"""An argument parser whose errors are one line, like every other error of this program."""

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

from proxy.net.config.address import parse_listen
from proxy.net.config.settings import PolicyKind
from proxy.policy.networks import address_of
from proxy.policy_yaml.misspelt import did_you_mean
from proxy.policy_yaml.shipped import packaged
from proxy.server.option_readers import count, read_policy


class LineParser(argparse.ArgumentParser):
    """argparse, but an error prints one line without the usage, and names the verb whose `--help` to read."""

    def parse_known_args(self, args: Iterable[str] | None = None, namespace: Any = None) -> Any:
        """Parse; an unknown argument is an error of this verb."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            flag = next((each.partition("=")[0] for each in unknown if each.startswith("--")), "")
            meant = did_you_mean(flag, self._option_string_actions) if flag else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{meant}")
        return parsed, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """As argparse does; for a misspelt word, suggest the choice that it resembles."""
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            meant = did_you_mean(str(value), [str(choice) for choice in action.choices or ()])
            raise argparse.ArgumentError(action, f"{error.message}{meant}") from None

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with status 2."""
        print(f"keyrail: {message} (see {self.prog} --help)", file=sys.stderr)
        sys.exit(2)


def policy_file(text: str) -> Path:
    """Return the file of a policy, named as for `serve --policy`. Raises ArgumentTypeError."""
    try:
        source = read_policy(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if source.kind is PolicyKind.NONE:
        raise argparse.ArgumentTypeError("expected a policy, got none")
    return packaged(source.name) if source.path is None else source.path


def listener(text: str) -> str:
    """Return a listener, named as for `serve --listen`, in the form that policies use. Raises ArgumentTypeError."""
    try:
        return str(parse_listen(text)).partition("://")[2]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def ip(text: str) -> str:
    """Return an IP address. Raises ArgumentTypeError."""
    if address_of(text) is None:
        raise argparse.ArgumentTypeError(f"expected an IP address, such as 10.0.1.7 or fd00:1::7, got {text!r}")
    return text


def number(least: int, most: int) -> Callable[[str], int]:
    """Return a reader of whole numbers from ``least`` to ``most``, which raises ArgumentTypeError."""
    read_count = count(least, most)

    def read(text: str) -> int:
        try:
            return read_count(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read
