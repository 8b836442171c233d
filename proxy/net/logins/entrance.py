"""How the clients of a listener come in: who decides about their logins, and with which pool and limits they begin."""

from collections.abc import Callable

from proxy.net.config.client_auth import ClientAuth
from proxy.net.config.settings import ListenerSettings
from proxy.net.logins.logins import Logins
from proxy.net.logins.password_file import FileLogins
from proxy.net.policy.capabilities import Capabilities
from proxy.session.ports.login_port import LoginPort
from proxy.session.ports.pool_key import UNAUTHENTICATED, PoolKey
from proxy.wire.request import RequestLimits


class Entrance:
    """One listener; ``now`` is the event loop's time. Raises PasswordFileError if its password file cannot be used."""

    def __init__(
        self,
        of: ListenerSettings,
        home: PoolKey,
        capabilities: Capabilities,
        logins: Logins,
        now: Callable[[], float],
    ) -> None:
        must_log_in = of.client_auth is not ClientAuth.NONE
        file = of.password_file
        self.listener = str(of.address).partition("://")[2]
        self.home = home._replace(user=UNAUTHENTICATED) if must_log_in else home
        self._must_log_in = must_log_in
        self._capabilities = capabilities
        self.logins: LoginPort = logins if file is None else FileLogins(file, logins.refusals, logins.outcomes, now)

    @property
    def limits(self) -> RequestLimits:
        """Those that a client begins with."""
        self._capabilities.doubts_password()
        return self._capabilities.limits(authenticated=False, must_log_in=self._must_log_in)
