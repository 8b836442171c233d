"""A fault in one client's session reaches neither the upstream, nor the other client, that set it off."""

from collections.abc import Callable
from functools import update_wrapper
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from proxy.session.ports.ports import Ports


class GuardedClient(Protocol):
    """A session, as far as a fault closes it."""

    ports: Ports

    def close(self, cause: str) -> None:
        """Close the client now."""


C = TypeVar("C", bound=GuardedClient)
P = ParamSpec("P")


def guarded(step: Callable[Concatenate[C, P], None]) -> Callable[Concatenate[C, P], None]:
    """A method of a session that others call: an exception in it is reported, and closes this client alone."""

    def guarding(client: C, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            step(client, *args, **kwargs)
        except Exception:  # noqa: BLE001 - logged with its traceback; it closes this client alone
            client.ports.route.report_fault()
            client.close("internal_error")

    update_wrapper(guarding, step)
    return guarding
