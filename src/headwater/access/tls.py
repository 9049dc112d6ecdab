"""Encryption: which versions and ciphers, whose certificates, and new ones without a restart.

The files are looked at once a second at most, when a client connects. A new certificate counts for clients that
connect from then on; those that are connected stay. Files that do not fit together are reported, and the old ones
stay in use.
"""

import logging
import ssl
from collections.abc import Callable
from pathlib import Path

from headwater.errors import InvalidSetting
from headwater.settings import SecuritySettings

logger = logging.getLogger("headwater.access")

LOOK_SECONDS = 1.0
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Of TLS 1.2: with forward secrecy and authenticated encryption. TLS 1.3 has no others."""

Seen = tuple[object, ...]


class ServerTls:
    def __init__(self, settings: SecuritySettings, now: Callable[[], float], *, client_certificates: bool) -> None:
        """`now` gives seconds of any clock. InvalidSetting if the files cannot be used."""
        self._settings, self._now, self._clients = settings, now, client_certificates
        self._seen = self._look()
        self._context = self._made()
        self._looked_at = now()

    @property
    def context(self) -> ssl.SSLContext:
        """For a client that connects now."""
        if self._now() - self._looked_at >= LOOK_SECONDS:
            self._looked_at = self._now()
            self._renew()
        return self._context

    def _renew(self) -> None:
        seen = self._look()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._context = self._made()
        except InvalidSetting as error:
            logger.error("the new certificate is not used, and the old one stays: %s", error)
        else:
            logger.info("a new certificate is in use, from %s", self._settings.certificate)

    def _files(self) -> list[Path]:
        settings = self._settings
        return [file for file in (settings.certificate, settings.certificate_key, settings.client_authority) if file]

    def _look(self) -> Seen:
        return tuple(map(_identity, self._files()))

    def _made(self) -> ssl.SSLContext:
        settings = self._settings
        assert settings.certificate is not None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
        # A session that is resumed keeps what was said of certificates before. With tickets it could be for long; what
        # OpenSSL itself remembers of TLS 1.2 cannot be switched off from here, and ends with the context.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        context.set_ciphers(CIPHERS)
        key = settings.certificate_key or settings.certificate
        try:
            context.load_cert_chain(settings.certificate, key, password=_no_password)
        except (OSError, ValueError) as error:
            raise InvalidSetting("certificate", str(settings.certificate), _why(error, key)) from None
        if settings.client_authority is not None and self._clients:
            try:
                context.load_verify_locations(settings.client_authority)
            except (OSError, ValueError) as error:
                raise InvalidSetting("client authority", str(settings.client_authority), _why(error)) from None
            required = settings.client_certificate_required
            context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
        return context


def _no_password() -> str:
    # Without it OpenSSL would ask on the terminal, and a node that starts would stand still.
    raise ValueError("the private key is encrypted")


def _why(error: Exception, key: Path | None = None) -> str:
    if isinstance(error, ssl.SSLError):
        fits = "" if key is None else f", or the key in {key} belongs to another certificate"
        return f"it is no certificate in PEM form{fits} ({error.reason or 'unreadable'})"
    if isinstance(error, OSError):
        return f"{error.filename or 'the file'} cannot be read: {error.strerror}"
    return str(error)


def _identity(file: Path) -> object:
    try:
        about = file.stat()
    except OSError:
        return None
    return about.st_mtime_ns, about.st_ino, about.st_size
