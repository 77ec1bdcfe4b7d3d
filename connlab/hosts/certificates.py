"""TLS of one run: an authority of its own, and a certificate per role.

Peers check only that a certificate is of this authority: whoever holds any of them can
run code on every host of the run. Keys are readable by their owner alone, and
certificates end after `DAYS`.
"""

from __future__ import annotations

import datetime
import os
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

ROLES = ("scheduler", "worker", "client")
AUTHORITY = "ca.pem"
DAYS = 7


def make(folder: Path) -> None:
    """Write ``ca.pem`` and, for each role, ``ROLE.pem`` and ``ROLE.key``.

    The authority's key is not kept: nobody can add a certificate later.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("connlab run")
    usage = x509.BasicConstraints(ca=True, path_length=0)
    _write(folder / AUTHORITY, _signed(name, name, key, usage, by=key))
    for role in ROLES:
        role_key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.BasicConstraints(ca=False, path_length=None)
        certificate = _signed(_name(role), name, role_key, usage, by=key)
        _write(folder / f"{role}.pem", certificate)
        _write(folder / f"{role}.key", _private(role_key))


def flags(folder: Path | None, role: str) -> list[str]:
    """Return the flags that give a scheduler or a worker of Dask its certificate."""
    if folder is None:
        return []
    return [
        *("--tls-ca-file", str(folder / AUTHORITY)),
        *("--tls-cert", str(folder / f"{role}.pem")),
        *("--tls-key", str(folder / f"{role}.key")),
    ]


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _signed(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    usage: x509.BasicConstraints,
    *,
    by: ec.EllipticCurvePrivateKey,
) -> bytes:
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=DAYS))
        .add_extension(usage, critical=True)
        .sign(by, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _write(path: Path, content: bytes) -> None:
    """Write a file that never was readable by others, not even for a moment."""
    path.unlink(missing_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
