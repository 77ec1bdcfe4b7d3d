"""TLS of one run: an authority of its own, and a certificate per role.

Peers check only that a certificate is of this authority: whoever holds any of them can
run code on every host of the run. Keys are readable by their owner alone, and
certificates end after `DAYS`.
"""

import datetime
import os
from functools import partial
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

ROLES = ("scheduler", "worker", "client")
AUTHORITY = "ca.pem"
DAYS = 7
_AUTHORITY_NAME = "connlab run"


def make(folder: Path) -> None:
    """Write ``ca.pem`` and, for each role, ``ROLE.pem`` and ``ROLE.key``.

    The authority's key is not kept: nobody can add a certificate later. Its certificate
    comes last: one that is there, `last` takes for a sign that the others are.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / AUTHORITY).unlink(missing_ok=True)
    authority = ec.generate_private_key(ec.SECP256R1())
    for role in ROLES:
        key = ec.generate_private_key(ec.SECP256R1())
        _write(folder / f"{role}.pem", _signed(role, key, by=authority))
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        _write(folder / f"{role}.key", private)
    content = _signed(_AUTHORITY_NAME, authority, by=authority)
    _write(folder / AUTHORITY, content)


def last(folder: Path) -> bool:
    """Whether there are certificates that last until tomorrow."""
    path = folder / AUTHORITY
    if not path.exists():
        return False
    ends = x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc
    return ends > datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)


def flags(folder: Path | None, role: str) -> list[str]:
    """Return the flags that give a scheduler or a worker of Dask its certificate."""
    if folder is None:
        return []
    return [
        *("--tls-ca-file", str(folder / AUTHORITY)),
        *("--tls-cert", str(folder / f"{role}.pem")),
        *("--tls-key", str(folder / f"{role}.key")),
    ]


def _signed(
    name: str, key: ec.EllipticCurvePrivateKey, *, by: ec.EllipticCurvePrivateKey
) -> bytes:
    """Return a certificate with all that RFC 5280 asks for, as Python 3.13 checks it.

    The one that a key signs itself is an authority's.
    """
    now, authority = datetime.datetime.now(datetime.UTC), key is by
    kinds = ("content_commitment", "key_encipherment", "data_encipherment")
    kinds += ("key_agreement", "crl_sign", "encipher_only", "decipher_only")
    usage = x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        **dict.fromkeys(kinds, False),
    )
    basic = x509.BasicConstraints(ca=authority, path_length=0 if authority else None)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key())
    subject = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name.from_rfc4514_string(f"CN={name}"))
        .issuer_name(x509.Name.from_rfc4514_string(f"CN={_AUTHORITY_NAME}"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=DAYS))
        .add_extension(basic, critical=True)
        .add_extension(usage, critical=True)
        .add_extension(subject, critical=False)
        .add_extension(issuer, critical=False)
        .sign(by, hashes.SHA256())
    )
    return certificate.public_bytes(Encoding.PEM)


def _write(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all, that never was readable by others."""
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    with open(part, "xb", opener=partial(os.open, mode=0o600)) as file:
        file.write(content)
    part.replace(path)
