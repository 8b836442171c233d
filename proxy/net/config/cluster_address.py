"""Reads ``redis+cluster://[user:password@]host1:7000,host2:7001``: the seeds of a cluster, and a map for NAT.

``?map=FILE`` names a file with a line for each node that announces an address at which it cannot be reached from here:

    10.0.0.1:7000  203.0.113.5:17000    # announced, reachable
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

from proxy.net.config.endpoint import Endpoint
from proxy.policy_yaml.regular_file import read_regular
from proxy.wire.numbers import read_digits

EXPECTED = "redis+cluster://[USER:PASSWORD@]HOST1:PORT,HOST2:PORT or rediss+cluster://…"
_URL = re.compile(r"((?:redis|rediss|valkey|valkeys))\+cluster://((?:[^/?#]*@)?)([^/?#]*)(.*)", re.DOTALL)
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\[\]:@\s]+)(?::([0-9]{1,5}))?")
_DEFAULT_PORT = 6379


def is_cluster_url(url: str) -> bool:
    """Whether the URL's scheme says that the upstream is a cluster."""
    return "+cluster://" in url.partition("?")[0]


def split_seeds(url: str) -> tuple[str, tuple[Endpoint, ...]]:
    """Return the URL of the first seed alone, and all seeds. Raises ValueError."""
    found = _URL.fullmatch(url)
    if found is None:
        raise ValueError(f"expected {EXPECTED}")
    scheme, user, hosts, rest = found.groups()
    check_login(user)
    return f"{scheme}://{user}{hosts.split(',')[0]}{rest}", read_seeds(hosts, _DEFAULT_PORT)


def check_login(user: str) -> None:
    """``USER:PASSWORD@`` stands once, before all hosts. Raises ValueError where it may be one host's."""
    if re.search("@.*,", user):
        raise ValueError(
            "expected one USER:PASSWORD@ before all hosts, with %40 for each @ of the user and the password"
        )


def read_seeds(hosts: str, default_port: int) -> tuple[Endpoint, ...]:
    """Read ``HOST:PORT,HOST``. Raises ValueError."""
    seeds = tuple(_read_host(text, default_port) for text in hosts.split(","))
    if len(set(seeds)) < len(seeds):
        raise ValueError("a host is given twice")
    return seeds


def _read_host(text: str, default_port: int = _DEFAULT_PORT) -> Endpoint:
    found = _HOST.fullmatch(text)
    port = None if found is None else read_digits(found[2] or str(default_port))
    if found is None or port is None or not 0 < port < 65536:
        raise ValueError(f"{text!r}: expected HOST:PORT, several separated by commas")
    return Endpoint(unquote(found[1].strip("[]")), port)


def read_map(text: str) -> Mapping[Endpoint, Endpoint]:
    """Read the file of announced and reachable addresses. Raises ValueError with the file and its line."""
    path = Path(text)
    try:
        lines = read_regular(path).decode("utf-8").splitlines()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ValueError(f"cannot read {text!r}: {reason}") from None
    found: dict[Endpoint, Endpoint] = {}
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            announced, reachable = _read_pair(words)
        except ValueError as error:
            raise ValueError(f"{path}:{number}: {error}") from None
        if announced in found:
            raise ValueError(f"{path}:{number}: {announced} is mapped twice")
        found[announced] = reachable
    return found


def _read_pair(words: Sequence[str]) -> tuple[Endpoint, Endpoint]:
    if len(words) != 2:
        raise ValueError(f"expected two addresses, ANNOUNCED REACHABLE, got {len(words)} words")
    return _read_host(words[0]), _read_host(words[1])
