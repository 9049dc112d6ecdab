"""What decides who may do what on the Kafka port: logins, permissions, quotas, certificates, and the audit."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from cryptography import x509

from headwater.access.audit import Audit
from headwater.access.authorizer import Authorizer
from headwater.access.oauth import TokenVerifier
from headwater.access.principals import Principal, parse_principal, parse_rules, principal_of_subject
from headwater.access.quotas import Quotas
from headwater.access.store import AccessStore
from headwater.access.tls import ServerTls
from headwater.access.tls_listener import Unfinished
from headwater.errors import InvalidSetting
from headwater.settings import SecuritySettings, milliseconds
from headwater.wire.authentication.mechanisms import ALL, OAUTHBEARER, PLAIN, Exchange, LocalExchange, exchanges
from headwater.wire.authentication.session import Session

if TYPE_CHECKING:
    from headwater.log.log import Log

LOGIN_THREADS = 2
"""A password costs a few milliseconds of hashes; a flood of them must leave the cores to others."""


class Security:
    """Of one node. Made before its ports are opened; InvalidSetting where settings do not fit together."""

    def __init__(self, log: "Log", settings: SecuritySettings, *, local_token: Callable[[], str] = str) -> None:
        unknown = [name for name in settings.mechanisms if name not in ALL]
        if unknown:
            raise InvalidSetting("login", ", ".join(unknown), f"there are {', '.join(ALL)}")
        _check_certificates(settings)
        self.settings, self._clock = settings, log.clock
        self._rules = parse_rules(settings.principal_mapping)
        self.store = AccessStore(log)
        self.store.load()
        self.audit = Audit(log)
        self.quotas = Quotas()
        self.enforcing = settings.demands_login
        self.authorizer = self.another_authorizer()
        verifier = TokenVerifier(settings, log.clock) if OAUTHBEARER in settings.mechanisms else None
        self._executor = ThreadPoolExecutor(LOGIN_THREADS, thread_name_prefix="headwater-login")
        self._exchanges = exchanges(settings.mechanisms, self.store, verifier, self._executor)
        self._local: Mapping[str, Callable[[], Exchange]] = {PLAIN: lambda: LocalExchange(local_token)}
        self.tls = self._tls() if settings.encrypted else None
        self.unfinished = Unfinished(settings.unfinished_logins_max)
        self._quotas_version = -1

    def another_authorizer(self) -> Authorizer:
        """For another event loop: each keeps its own decisions."""
        supers = [parse_principal(name) for name in self.settings.super_users]
        return Authorizer(self.store, supers, without_acl=self.settings.allowed_without_acl)

    def _tls(self) -> ServerTls:
        return ServerTls(self.settings, lambda: self.elapsed_ms() / 1000, client_certificates=True)

    def start(self) -> None:
        self.audit.start()

    def stop(self) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)
        self.audit.stop()

    def elapsed_ms(self) -> int:
        return self._clock.elapsed_ms()

    def lifetime_ms(self, expires_ms: int | None) -> int | None:
        """How long a login counts, if it does not for ever; `expires_ms`: when what it rests on expires."""
        limits = [milliseconds(self.settings.session_lifetime_max)] if self.settings.session_lifetime_max else []
        if expires_ms is not None:
            limits.append(max(1, expires_ms - self._clock.now_ms()))
        return min(limits, default=None)

    def session(self, host: str, transport: Any, *, local: bool) -> Session | None:
        """Of a connection that was just made; None if its certificate maps to no principal."""
        if local:
            return Session(self, self._local, host)
        certified = None
        secure = transport.get_extra_info("ssl_object")
        shown = secure.getpeercert(binary_form=True) if secure is not None else None
        if shown:
            certified = self._certified(shown)
        if certified is None and not self.settings.mechanisms:
            return None
        return Session(self, self._exchanges, host, certified)

    def _certified(self, certificate: bytes) -> Principal | None:
        try:
            subject = x509.load_der_x509_certificate(certificate).subject.rfc4514_string()
        except ValueError:
            return None
        return principal_of_subject(subject, self._rules)

    def fresh_quotas(self) -> Quotas:
        if self.store.version != self._quotas_version:
            self._quotas_version = self.store.version
            self.quotas.replace(self.store.quotas())
        return self.quotas


def _check_certificates(settings: SecuritySettings) -> None:
    """InvalidSetting for certificates that would be demanded and never looked at."""
    clients = settings.client_certificate_required or settings.client_authority is not None
    if clients and settings.certificate is None:
        raise InvalidSetting(
            "certificate", "", "clients can show a certificate only on an encrypted port: give --certificate too"
        )
    if settings.client_certificate_required and settings.client_authority is None:
        raise InvalidSetting(
            "client authority", "", "it says whose client certificates are believed: give --client-authority too"
        )
