"""Reads ``redis+sentinel://[user:password@]s1:26379,s2:26379/mymaster[/db]``: Sentinels, and the name of a primary.

``?sentinel_user=…&sentinel_password_file=…`` are the login at the Sentinels.
"""

import re
from dataclasses import dataclass
from urllib.parse import unquote

from proxy.net.config.cluster_address import check_login, read_seeds
from proxy.net.config.endpoint import Endpoint
from proxy.net.config.strict_url import Secret

EXPECTED = "redis+sentinel://[USER:PASSWORD@]SENTINEL1:PORT,SENTINEL2:PORT/NAME[/DATABASE] or rediss+sentinel://…"
_URL = re.compile(r"((?:redis|rediss|valkey|valkeys))\+sentinel://((?:[^/?#]*@)?)([^/?#]*)/([^/?#]+)(.*)", re.DOTALL)
_DEFAULT_PORT = 26379


@dataclass(frozen=True, slots=True)
class Sentinels:
    """The Sentinels of the primary ``name``, and the login there."""

    endpoints: tuple[Endpoint, ...]
    name: str
    username: str | None = None
    password: Secret | None = None

    def __str__(self) -> str:
        return f"{','.join(map(str, self.endpoints))}/{self.name}"


def is_sentinel_url(url: str) -> bool:
    """Whether the URL's scheme says that Sentinels know the upstream."""
    return "+sentinel://" in url.partition("?")[0]


def split_sentinels(url: str) -> tuple[str, Sentinels]:
    """Return the URL of a server at the first Sentinel's address, and the Sentinels. Raises ValueError."""
    found = _URL.fullmatch(url)
    if found is None:
        raise ValueError(f"expected {EXPECTED}")
    scheme, user, hosts, name, rest = found.groups()
    check_login(user)
    endpoints = read_seeds(hosts, _DEFAULT_PORT)
    return f"{scheme}://{user}{hosts.split(',')[0]}{rest}", Sentinels(endpoints, unquote(name))
