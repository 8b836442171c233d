"""Private certificate authorities for tests, made with the openssl command."""

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    certificate: Path
    key: Path


def authority(folder: Path, name: str) -> Pair:
    """Make a certificate authority."""
    pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
    _openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
        *("-subj", f"/CN={name}", "-keyout", str(pair.key), "-out", str(pair.certificate)),
    )
    return pair


def issue(folder: Path, name: str, by: Pair, password: str | None = None) -> Pair:
    """Make a certificate for localhost and 127.0.0.1, signed by ``by``; with a password its key is encrypted."""
    pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
    request, names = folder / f"{name}.csr", folder / f"{name}.ext"
    names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    protection = ("-nodes",) if password is None else ("-passout", f"pass:{password}")
    _openssl(
        *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", *protection),
        *("-subj", f"/CN={name}", "-keyout", str(pair.key), "-out", str(request)),
    )
    _openssl(
        *("x509", "-req", "-in", str(request), "-CA", str(by.certificate), "-CAkey", str(by.key)),
        *("-CAcreateserial", "-days", "2", "-extfile", str(names), "-out", str(pair.certificate)),
    )
    return pair


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
