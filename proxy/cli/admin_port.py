"""An HTTP client for the admin port of a running Keyrail."""

import http
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from proxy.net.config.settings import DEFAULT_ADMIN_URL


class AdminPortError(Exception):
    """The admin port does not answer, or answers an error; the text is one line that names it.

    ``status`` is the exit status: 2 for a mistake in the command line, 1 for anything else.
    """

    def __init__(self, text: str, *, mistake: bool = False) -> None:
        super().__init__(text)
        self.status = 2 if mistake else 1


class AdminPort:
    """The admin port at a URL; the token file is read for each request, as the server does."""

    def __init__(self, url: str, token_file: Path | None, seconds: float) -> None:
        self.url = url.rstrip("/")
        self._token_file = token_file
        self._seconds = seconds
        # HTTP proxies of the environment are not used.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def get(self, path: str, **parameters: object) -> dict[str, Any]:
        """Return the JSON object that a path answers. Raises AdminPortError."""
        given = {name: str(value) for name, value in parameters.items() if value is not None}
        return self._ask(f"{path}?{urllib.parse.urlencode(given)}" if given else path, None)

    def post(self, path: str, body: object) -> dict[str, Any]:
        """Post JSON, and return the JSON object of the answer. Raises AdminPortError."""
        return self._ask(path, json.dumps(body).encode())

    def delete(self, path: str) -> dict[str, Any]:
        """Delete a resource, and return the JSON object of the answer. Raises AdminPortError."""
        return self._ask(path, None, "DELETE")

    def _ask(self, path: str, body: bytes | None, method: str | None = None) -> dict[str, Any]:
        if not _is_url(self.url):
            raise AdminPortError(f"--admin: expected http://HOST:PORT, got {self.url!r}", mistake=True)
        headers = self._credentials() if body is None else {"Content-Type": "application/json", **self._credentials()}
        try:
            request = urllib.request.Request(self.url + path, body, headers, method=method)  # noqa: S310 - _is_url saw the scheme
            with self._opener.open(request, timeout=self._seconds) as answer:
                found = json.loads(answer.read())
        except (OSError, ValueError, http.client.HTTPException) as error:
            refused = isinstance(error, urllib.error.HTTPError) and error.code == http.HTTPStatus.BAD_REQUEST
            raise AdminPortError(self._reason(error), mistake=refused) from None
        if not isinstance(found, dict):
            raise AdminPortError(f"{self.url}: not the admin port of a Keyrail")
        return found

    def _credentials(self) -> dict[str, str]:
        if self._token_file is None:
            return {}
        try:
            token = self._token_file.read_bytes().strip().decode("ascii", "replace")
        except OSError as error:
            problem = f"cannot read the token in {self._token_file}: {error.strerror}"
            raise AdminPortError(problem, mistake=True) from None
        if not token.isascii() or not token.isprintable():
            raise AdminPortError(f"the token in {self._token_file} is not one line of printable ASCII", mistake=True)
        return {"Authorization": f"Bearer {token}"}

    def _reason(self, error: Exception) -> str:
        if isinstance(error, urllib.error.HTTPError):
            with error:
                try:
                    hint = "; give --token-file FILE" if error.code == http.HTTPStatus.UNAUTHORIZED else ""
                    return f"{self.url}: {json.loads(error.read())['error']}{hint}"
                except (ValueError, KeyError, TypeError, OSError):
                    return f"{self.url}: {error.code} {error.reason}"
        if isinstance(error, urllib.error.URLError):
            reason = error.reason
            return f"{self.url}: {(isinstance(reason, OSError) and reason.strerror) or reason}"
        if isinstance(error, ValueError | http.client.HTTPException):
            return f"{self.url}: not the admin port of a Keyrail"
        return f"{self.url}: {error}"


def _is_url(text: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # no number, or none that a port has
        return False


def add_options(parser: ArgumentParser, *, several: bool = False) -> None:
    """Add the options for the admin port's address and token; `several` addresses are separated by commas."""
    default = DEFAULT_ADMIN_URL
    metavar, ports = ("URL[,URL…]", "the admin ports") if several else ("URL", "the admin port")
    parser.add_argument("--admin", metavar=metavar, default=default, help=f"{ports} (default {default})")
    parser.add_argument("--token-file", metavar="FILE", type=Path, help="the admin port's token")
