"""An argument parser whose errors are one line, like every other error of this program."""

import argparse
import sys
from collections.abc import Iterable
from typing import Any, NoReturn


class LineParser(argparse.ArgumentParser):
    """argparse, but an error prints one line, without the usage; it names the verb whose help would have told."""

    def parse_known_args(self, args: Iterable[str] | None = None, namespace: Any = None) -> Any:
        """Parse, and take what is not known for the mistake of this verb."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with status 2."""
        print(f"keyrail: {message} (see {self.prog} --help)", file=sys.stderr)
        sys.exit(2)
