"""TLS contexts that follow their files: the next handshake uses a renewed certificate, without a reload.

The context that the event loop holds cannot be exchanged, and OpenSSL does not remove a CA from a context. So the
listener's context stays. Its server-name callback, which runs for every handshake, selects the newest context of the
same files. New files that cannot be used are reported once, and the last good ones stay in use.

Session tickets are off: Redis clients keep their connections, and a resumed session would stay valid after its CA was
removed.
"""

import errno
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from proxy.net.config.address import ListenerTls, UpstreamTls, Verify
from proxy.net.config.strict_url import Secret
from proxy.net.connection.followed import Followed
from proxy.policy_yaml.regular_file import read_regular


class TlsError(Exception):
    """The files cannot be used for TLS. The text names the file and the reason."""


FollowedContext: TypeAlias = Followed[ssl.SSLContext]
"""A TLS context that is rebuilt when one of its files has changed."""


class ClientTls(ssl.SSLObject):
    """One client's TLS connection, which a client can half-close as it can TCP: the replies to what it has sent leave.

    asyncio and uvloop close a connection for both sides when its peer sends close_notify, and drop what is written
    later. So they never see close_notify here: ``on_close_notify`` is called instead, and who sets it closes the
    transport. It is called while data is read, so before the bytes in front of it are passed on.
    """

    on_close_notify: Callable[[], None] | None = None

    def read(self, len: int = 1024, buffer: Any = None) -> bytes:  # noqa: A002 - named so in ``ssl``
        """As ``ssl.SSLObject``, but raise SSLWantReadError behind close_notify."""
        data = super().read(len, buffer)
        if data or self.on_close_notify is None:
            return data
        self.on_close_notify()
        raise ssl.SSLWantReadError


def listener_context(tls: ListenerTls, report: Callable[[str], None]) -> ssl.SSLContext:
    """Return the context of a listener. With a client CA, the handshake of a client without its certificate fails.

    Raises TlsError. If changed files cannot be used later, ``report`` gets the reason.
    """
    password_file = tls.key_password.file if tls.key_password else None
    files = (tls.certificate, tls.key, tls.client_ca, password_file)
    followed = Followed(lambda: _build_listener(tls), files, report, TlsError)
    served = _build_listener(tls)
    served.sslobject_class = ClientTls

    def choose(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = followed.current()

    served.sni_callback = choose
    return served


def upstream_context(tls: UpstreamTls, report: Callable[[str], None]) -> FollowedContext:
    """Return the contexts for connections to an upstream. Raises TlsError."""
    password_file = tls.key_password.file if tls.key_password else None
    files = (tls.ca_file, tls.ca_path, tls.certificate, tls.key, password_file)
    return Followed(lambda: _build_upstream(tls), files, report, TlsError)


def subject_of(certificate: Mapping[str, Any]) -> str:
    """The common name of a verified certificate; empty if it has none."""
    for relative_name in certificate.get("subject", ()):
        for field, value in relative_name:
            if field == "commonName":
                return str(value)
    return ""


def _build_listener(tls: ListenerTls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    _load_chain(context, tls.certificate, tls.key, tls.key_password)
    if tls.client_ca is not None:
        _load_authorities(context, tls.client_ca, None)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _build_upstream(tls: UpstreamTls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = tls.check_hostname
    context.verify_mode = {
        Verify.REQUIRED: ssl.CERT_REQUIRED,
        Verify.OPTIONAL: ssl.CERT_OPTIONAL,
        Verify.NONE: ssl.CERT_NONE,
    }[tls.verify]
    if tls.ca_file is None and tls.ca_path is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _load_authorities(context, tls.ca_file, tls.ca_path)
    if tls.certificate is not None:
        _load_chain(context, tls.certificate, tls.key or tls.certificate, tls.key_password)
    return context


def _load_chain(context: ssl.SSLContext, certificate: Path, key: Path, password: Secret | None) -> None:
    for what, file in (("certificate", certificate), ("key", key)):
        _check_readable(what, file)
    try:
        text = password.read() if password is not None else ""
    except (OSError, ValueError) as error:
        raise TlsError(f"cannot read the password of key {key}: {_reason(error)}") from None
    try:
        # Without this password OpenSSL would ask for one on the terminal.
        context.load_cert_chain(certificate, key, password=lambda: text)
    except (OSError, ValueError) as error:
        raise TlsError(f"cannot use certificate {certificate} with key {key}: {_reason(error)}") from None


def _load_authorities(context: ssl.SSLContext, file: Path | None, folder: Path | None) -> None:
    if file is not None:
        _check_readable("CA certificates", file)
    try:
        context.load_verify_locations(file, folder)
    except OSError as error:
        raise TlsError(f"cannot use CA certificates {file or folder}: {_reason(error)}") from None


_NAME_ITS_CA = "name the CA that has signed it: ca=FILE in the URL of the upstream"
_OTHER_NAME = "connect to a name that it is for, or set check_hostname=false in the URL of the upstream"
_UNVERIFIED = {
    **dict.fromkeys((2, 18, 19, 20, 21), _NAME_ITS_CA),  # no issuer is known, or it is signed by itself
    **dict.fromkeys((62, 64), _OTHER_NAME),  # host name, IP address
}
"""What helps, by OpenSSL's code (x509_vfy.h, X509_V_ERR_…)."""
_NO_TLS = "this port does not speak TLS, write redis:// for rediss://"
_IF_NO_TLS = f"if {_NO_TLS}"
_SHOW_ONE = "it wants a certificate of its clients: certificate=FILE&key=FILE in the URL of the upstream"
_SHOW_ANOTHER = "it does not know the CA of Keyrail's certificate: see tls-ca-cert-file in redis.conf"
_HINTS = {
    **dict.fromkeys(("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"), _NO_TLS),
    **dict.fromkeys(("TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE"), _SHOW_ONE),
    **dict.fromkeys(("TLSV1_ALERT_UNKNOWN_CA", "SSLV3_ALERT_BAD_CERTIFICATE"), _SHOW_ANOTHER),
}


def reason_of(error: Exception, *, encrypted: bool = False) -> str:
    """Why a connection to an upstream failed, as the system, TLS or Redis says it, and what helps."""
    hint = _IF_NO_TLS if encrypted and isinstance(error, TimeoutError) and not error.args else None
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = _UNVERIFIED.get(error.verify_code)
    elif isinstance(error, ssl.SSLError):
        hint = _HINTS.get(error.reason or "")
    return _words_of(error) + (f"; {hint}" if hint else "")


def _words_of(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return f"TLS: {_reason(error)}"
    if isinstance(error, TimeoutError) and not error.args:
        return "no answer within --connect-timeout"
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def handshake_failure(error: OSError) -> tuple[str, str]:
    """Why a TLS handshake failed: a label for metrics, and a text, without advice about an upstream."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or "unknown").lower(), _words_of(error)
    if isinstance(error, ConnectionAbortedError | TimeoutError):
        return "timeout", str(error) or "it took too long"
    if isinstance(error, ConnectionError):
        return "closed", "the other side closed the connection"
    return errno.errorcode.get(error.errno or 0, "unknown"), _words_of(error)


def _check_readable(what: str, file: Path) -> None:
    """Try to read a file, because errors of OpenSSL name no file."""
    try:
        read_regular(file)
    except OSError as error:
        raise TlsError(f"cannot read {what} {file}: {_reason(error)}") from None


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason.lower().replace("_", " ") if error.reason else "not PEM"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)
