"""Whole lines at the end of a file, also after the disk was full."""

import os


class LineWriter:
    """Writes lines to one file. The next line after one that was written in part begins on a line of its own."""

    def __init__(self) -> None:
        self._cut = False

    def write(self, descriptor: int, line: bytes) -> None:
        """Write a line to the end of the file. Raises OSError, also if only a part of the line was written."""
        data = b"\n" + line if self._cut else line
        written = 0
        while written < len(data):
            written += os.write(descriptor, data[written:])
            self._cut = written < len(data)
