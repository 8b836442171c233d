"""An argument parser whose errors are one line, like every other error of this program."""

import argparse
import sys
from typing import NoReturn


class LineParser(argparse.ArgumentParser):
    """argparse, but an error prints one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with status 2."""
        print(f"keyrail: {message} (see {self.prog} --help)", file=sys.stderr)
        sys.exit(2)
