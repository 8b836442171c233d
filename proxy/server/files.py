"""Reads the files that the settings name, at the start, so that all problems are reported at once."""

import contextlib
from collections.abc import Iterator

from proxy.net.config.settings import Settings
from proxy.net.connection.tls import TlsError, listener_context, upstream_context
from proxy.net.logins.password_file import PasswordFileError, read_passwords
from proxy.policy.model import Policy
from proxy.policy_yaml.errors import PolicyError
from proxy.server.admin.token import read_token
from proxy.server.notices import notice
from proxy.server.reload import read_policies


def read_files(settings: Settings) -> tuple[tuple[Policy, ...], list[str]]:
    """The policies that the settings name, and a line for each problem with a file."""
    problems: list[str] = []
    policies: tuple[Policy, ...] = ()
    try:
        policies = read_policies(settings.routes, settings.zone)
    except PolicyError as error:
        problems += [str(problem) for problem in error.problems]
    for route in settings.routes:
        try:
            for listener in route.listeners:
                if listener.address.tls is not None:
                    listener_context(listener.address.tls, notice)
                if listener.password_file is not None:
                    read_passwords(listener.password_file)
            if route.upstream.tls is not None:
                upstream_context(route.upstream.tls, notice)
        except (PasswordFileError, TlsError) as error:
            problems.append(str(error))
        if route.upstream.password is not None:
            with _noting(problems, f"cannot read the password of {route.upstream}"):
                route.upstream.password.read()
    if settings.admin is not None and settings.admin_token_file is not None:
        try:
            read_token(settings.admin_token_file)
        except ValueError as error:
            problems.append(str(error))
    return policies, problems


@contextlib.contextmanager
def _noting(problems: list[str], what: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        problems.append(f"{what}: {reason}")
