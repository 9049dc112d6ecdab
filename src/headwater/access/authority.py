"""A small authority of one's own: certificates to try encryption with, and for a network that has no other authority.

    authority.pem authority.key      believed by clients, and by the node for client certificates
    NAME.pem NAME.key                of a server or a client, signed by the authority

Keys are of the curve P-256, readable by their owner alone.
"""

import ipaddress
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from headwater.clock import Clock
from headwater.errors import UsageError

AUTHORITY = "authority"
AUTHORITY_DAYS = 3650
BACKDATED = timedelta(minutes=5)
"""Clocks of other machines may be behind."""


class Authority:
    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder, self._clock = folder, clock

    def make(self, *, days: int = AUTHORITY_DAYS) -> Path:
        """UsageError if there is one already: certificates rest on it."""
        path = self._folder / f"{AUTHORITY}.pem"
        if path.exists():
            raise UsageError(
                f"there is an authority in {self._folder} already; remove {path} and all it has signed first"
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        key, name = ec.generate_private_key(ec.SECP256R1()), _name("headwater authority")
        usage = x509.KeyUsage(
            digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
            key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        built = (
            self._builder(name, name, key.public_key(), days)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        _write_pair(path, built.sign(key, hashes.SHA256()), key)
        return path

    def issue(self, name: str, hosts: Sequence[str] = (), *, days: int, client: bool) -> Path:
        """A certificate for a server under these hosts, or for a client of this name. One that is there is replaced."""
        if name == AUTHORITY or not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
            raise UsageError(f"{name[:80]!r} cannot name a certificate; use letters, digits, dots and hyphens")
        issuer, issuer_key = self._loaded()
        key = ec.generate_private_key(ec.SECP256R1())
        purpose = ExtendedKeyUsageOID.CLIENT_AUTH if client else ExtendedKeyUsageOID.SERVER_AUTH
        built = (
            self._builder(_name(name), issuer.subject, key.public_key(), days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        )
        if hosts:
            built = built.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        path = self._folder / f"{name}.pem"
        _write_pair(path, built.sign(issuer_key, hashes.SHA256()), key)
        return path

    def _loaded(self) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        try:
            certificate = x509.load_pem_x509_certificate((self._folder / f"{AUTHORITY}.pem").read_bytes())
            key = serialization.load_pem_private_key((self._folder / f"{AUTHORITY}.key").read_bytes(), None)
        except FileNotFoundError:
            raise UsageError(f'there is no authority in {self._folder}; "headwater cert authority" makes one') from None
        except ValueError as error:
            raise UsageError(f"the authority in {self._folder} cannot be read: {error}") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise UsageError(f"the authority in {self._folder} was not made here: its key is of another kind")
        return certificate, key

    def _builder(
        self, subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
    ) -> x509.CertificateBuilder:
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - BACKDATED if days > 0 else now - timedelta(days=2 - days))
            .not_valid_after(now + timedelta(days=days))
        )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_pair(path: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    """The key first: a node that looks in between sees a pair that does not fit, keeps the old one and looks again."""
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    _replace(path.with_suffix(".key"), secret, 0o600)
    _replace(path, certificate.public_bytes(pem), 0o644)


def _replace(path: Path, content: bytes, mode: int) -> None:
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
