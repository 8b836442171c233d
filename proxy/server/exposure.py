"""Warnings about listeners and upstreams that anybody can reach, at the start and in `keyrail doctor`."""

from collections.abc import Iterator
from ipaddress import ip_address

from proxy.net.config.address import ListenAddress, UpstreamAddress, Verify
from proxy.net.config.client_auth import ClientAuth
from proxy.net.config.settings import RouteSettings

ASK_CLIENTS = "set --client-auth upstream or --client-password-file, or use rediss:// with client_ca"
INTERCEPTED = "ssl_cert_reqs=none: anybody on the network path can read and change all data"
GIVE_CA = "set ssl_ca_certs"


def on_this_machine(address: ListenAddress | UpstreamAddress) -> bool:
    """Whether only this machine can reach the address, as far as its text tells. A host name may be any machine."""
    if address.path is not None or address.host == "localhost":
        return True
    try:
        return ip_address(address.host).is_loopback
    except ValueError:
        return False


def lets_anybody_in(route: RouteSettings) -> list[ListenAddress]:
    """The listeners that other machines can reach and that ask clients for no login and no certificate."""
    return [
        listener.address
        for listener in route.listeners
        if listener.client_auth is ClientAuth.NONE
        and not on_this_machine(listener.address)
        and (listener.address.tls is None or listener.address.tls.client_ca is None)
    ]


def anybody_acts_as(address: ListenAddress, upstream: UpstreamAddress) -> str:
    """The warning about one of these listeners."""
    user = "default" if upstream.password is None else upstream.username or "default"
    return f"{address} asks clients for no login: any client that reaches it acts as user {user!r} of {upstream}"


def warnings(route: RouteSettings) -> Iterator[str]:
    """The warnings about a route."""
    for address in lets_anybody_in(route):
        yield f"{anybody_acts_as(address, route.upstream)}; {ASK_CLIENTS}"
    if route.upstream.tls is not None and route.upstream.tls.verify is Verify.NONE:
        yield f"{route.upstream}: {INTERCEPTED}; {GIVE_CA}"
