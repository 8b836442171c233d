"""The replies to SET and MSETEX, as the replies to the commands that they replace."""


def reply_of_setnx(frame: bytes) -> bytes:
    if frame == b"+OK\r\n":
        return b":1\r\n"
    if frame in (b"$-1\r\n", b"_\r\n"):
        return b":0\r\n"
    return frame


def reply_of_mset(frame: bytes) -> bytes:
    return b"+OK\r\n" if frame == b":1\r\n" else frame
