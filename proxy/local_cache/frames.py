"""The frames in the bytes of a tracking connection."""

from proxy.wire.reply import ReplyScanner


class OutOfStepError(Exception):
    """Redis answered what cannot be the reply."""


class Frames:
    """The frames in the bytes of a connection. Of a large reply, the bytes are dropped while they come."""

    def __init__(self) -> None:
        self._scanner = ReplyScanner()
        self._data = b""
        self._position = 0
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, data: bytes) -> None:
        self._data = self._data[self._position :] + data
        self._position = 0

    def within_push(self) -> bool:
        """Whether the frame under way is no reply."""
        begun = self._pieces[0] if self._pieces else self._data[self._position : self._position + 1]
        return begun.startswith(b">")

    def next(self, wanted: int) -> bytes | None:
        """The next whole frame, empty if it is a reply of more bytes than are wanted; None until one has come."""
        data, scanner = self._data, self._scanner
        while self._position < len(data):
            end = scanner.walk(data, self._position, len(data))
            if end < 0:
                raise OutOfStepError("no reply of Redis")
            if end == self._position:
                return None
            self._size += end - self._position
            self._pieces.append(data[self._position : end])
            self._position = end
            if self._size > wanted and not self._pieces[0].startswith(b">"):
                # The first byte tells a push from a reply.
                self._pieces[:] = [self._pieces[0][:1]]
            if scanner.elements == 0:
                frame = b"".join(self._pieces)
                if len(frame) < self._size:
                    frame = b""
                self._pieces.clear()
                self._size = 0
                return frame
        return None
