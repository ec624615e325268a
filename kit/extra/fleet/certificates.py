"""The fleet's own certificate authority, and the certificates of each side."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from kit.core.errors import UsageError, not_installed
from kit.core.private import make_private
from kit.extra.fleet.address import CA, SIDES, certificate, key

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

#: Days of the authority; the other certificates last as long as requested.
_CA_DAYS = 3650


def make_certificates(directory: Path, days: int) -> list[Path]:
    """Replace the certificates of all sides, for N days; make the authority if it is missing. Returns the files. Raises
    UsageError, MachineError."""
    _require()
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        make_private(directory)
        if not key(directory, CA).exists():
            private_key = ec.generate_private_key(ec.SECP256R1())
            _write(directory, CA, private_key, _signed(CA, private_key, private_key, _CA_DAYS))
        authority = _read_key(key(directory, CA))
        for side in SIDES:
            private_key = ec.generate_private_key(ec.SECP256R1())
            _write(directory, side, private_key, _signed(side, private_key, authority, days))
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}", "name a directory that you may write to") from None
    return [make(directory, side) for side in (CA, *SIDES) for make in (certificate, key)]


def _require() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise not_installed("certificates need", "cryptography", "fleet") from None


def _signed(
    side: str, private_key: EllipticCurvePrivateKey, authority: EllipticCurvePrivateKey, days: int
) -> x509.Certificate:
    """Return a side's certificate, signed by the authority. A client's can't serve a scheduler or worker. Dask does not
    check the role of a connecting side."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"kit fleet {text}")])

    now = datetime.now(UTC)
    ours = x509.SubjectKeyIdentifier.from_public_key(private_key.public_key())
    theirs = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    builder = (
        x509.CertificateBuilder()
        .subject_name(name(side))
        .issuer_name(name(CA))
        .public_key(private_key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # machines' clocks differ
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=side == CA, path_length=0 if side == CA else None), critical=True)
        .add_extension(ours, critical=False)
        .add_extension(theirs, critical=False)
        .add_extension(_usage(side == CA), critical=True)
    )
    if side != CA:
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH]
        uses += [] if side == "client" else [ExtendedKeyUsageOID.SERVER_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    return builder.sign(authority, hashes.SHA256())


def _usage(authority: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not authority, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=authority, crl_sign=authority, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _read_key(path: Path) -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    try:
        private_key = serialization.load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError):
        raise UsageError(
            f"{path} is not a key without a password", "remove it, then make all certificates again"
        ) from None
    if not isinstance(private_key, EllipticCurvePrivateKey):
        raise UsageError(f"{path} is a key of another kind", "remove it, then make all certificates again")
    return private_key


def _write(directory: Path, side: str, private_key: EllipticCurvePrivateKey, signed: x509.Certificate) -> None:
    """Write a private key, readable only by its user from its creation on."""
    from cryptography.hazmat.primitives import serialization

    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    secret = private_key.private_bytes(pem, form, serialization.NoEncryption())
    for path, mode, data in ((key(directory, side), 0o600, secret),
                             (certificate(directory, side), 0o644, signed.public_bytes(pem))):  # fmt: skip
        new = path.with_name(f"{path.name}.{os.getpid()}")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        new.replace(path)
