"""The HTTP port of a node: opens the socket, gives `serve` what the parts offer, and runs it on a thread of its own."""

import asyncio
import errno
import logging
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from headwater.access.local_token import LocalToken
from headwater.access.tls import ServerTls
from headwater.alerts.evaluation import alert_reports
from headwater.capture.definition import Definitions
from headwater.capture.http.receiver import Receiver
from headwater.capture.schemas import Registration
from headwater.errors import NoOwnCompatibility, SchemaError
from headwater.kafka_login import LOCAL_USER, NO_LOGIN, KafkaLogin
from headwater.log.groups.member import DescribedGroup
from headwater.log.log import Log
from headwater.record import TopicPartition
from headwater.registry.decoding import Decoder
from headwater.registry.journal import TopicJournal
from headwater.registry.registry import Registry
from headwater.registry.rest import Rest
from headwater.registry.words import JSON, Compatibility, SchemaText
from headwater.serve.api import Api
from headwater.serve.bodies import Bodies
from headwater.serve.enforcement import Enforcement
from headwater.serve.event_streams import EventStreams
from headwater.serve.http import Tls, build_app, serve_encrypted, server_of
from headwater.serve.operations import Sources
from headwater.serve.pages import Dashboard
from headwater.serve.queues import Queues
from headwater.serve.services import routes_of, routes_of_posts
from headwater.serve.tokens import Tokens
from headwater.settings import LOCAL_TOKEN_FILE, HttpSettings
from headwater.wire.bind import refuse_public, unavailable
from headwater.wire.event_loop import new_event_loop
from headwater.wire.port import LOOPBACK
from headwater.wire.security import Security

if TYPE_CHECKING:
    from headwater.flow.kafka.client import Client
    from headwater.flow.run.figures import JobObserver

_logger = logging.getLogger(__name__)

BACKLOG = 128
FLOWS = "flows"
REGISTRY_CONTENT = "application/vnd.schemaregistry.v1+json"


def problems_in(data: Path, app: str = "") -> list[dict[str, Any]]:
    """Flows that fail and warnings of those that run, of one app or all."""
    if not (data / FLOWS).is_dir():
        return []
    from headwater.flow.run.health import problems_in

    return problems_in(data, app)


class KafkaSide(NamedTuple):
    """What the HTTP port needs of the Kafka port of its node."""

    address: str
    """Where programs of this machine connect."""
    groups: Callable[[], Sequence[DescribedGroup]]
    security: Security
    local_token: LocalToken


class HttpPort:
    """A thread and an event loop of its own: what is slow here keeps no Kafka client waiting."""

    def __init__(
        self,
        log: Log,
        data: Path,
        settings: HttpSettings,
        kafka: KafkaSide,
        *,
        ended: Callable[[BaseException | None], None],
    ) -> None:
        self._settings, self._ended, self._security = settings, ended, kafka.security
        self.registry = Registry(TopicJournal(log))
        bodies = Bodies(settings)
        self._events = EventStreams(log)
        self._parts = PartReports(log, data, kafka)
        parts = self._parts
        sources = Sources(
            kafka.groups, parts.flows, parts.captures, parts.alerts, parts.control, parts.problems, parts.remove_capture
        )
        self._api = Api(log, data, sources, settings, decode=Decoder(self.registry).json_text)
        tokens = Tokens(data, lambda: kafka.local_token.value)
        routes = [
            *Dashboard(bodies, tokens).routes(),
            *self._api.routes(),
            *routes_of(Rest(self.registry), bodies, content_type=REGISTRY_CONTENT),
            *routes_of(Queues(log), bodies, content_type="application/json"),
            *routes_of_posts(Receiver(log, data), bodies),
            *routes_of(self._events, bodies, content_type="application/json"),
        ]
        enforcement = None
        if kafka.security.enforcing:
            security = kafka.security
            authorizer = security.another_authorizer()
            enforcement = Enforcement(authorizer, security.audit, self._api.view_name, self._subjects_of)
        self._server = server_of(build_app(routes, settings, tokens, enforcement), settings)
        self._plain: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._socket: socket.socket | None = None
        self.url = self.local_url = ""

    def start(self) -> None:
        """Clients can connect when this returns. UnsafeBind or PortUnavailable if it cannot be opened."""
        security = self._security.settings
        listening = self._socket = _listening(self._settings, public_allowed=security.public_allowed)
        self.url = self.local_url = f"http://{_shown(listening)}"
        if security.encrypted:
            # Programs of this machine need no certificate: what they say does not leave it.
            self._plain = _bound(socket.AF_INET, (LOOPBACK, 0))
            self.url, self.local_url = f"https://{_shown(listening)}", f"http://{_shown(self._plain)}"
        self._thread = threading.Thread(target=self._run, args=[listening], name="headwater-http", daemon=True)
        self._thread.start()
        self._api.history.start()
        _logger.info("listening on %s", self.url)

    def register(self, said: Registration) -> None:
        """Register the schema of a captured topic.

        A change of the table cannot be refused: so no compatibility rule applies,
        unless one was set; then a schema that breaks it is only logged."""
        try:
            self._own_rule(said.subject)
            self.registry.register(said.subject, SchemaText(said.text, JSON))
        except SchemaError as error:
            _logger.warning("the schema of %s is not registered: %s", said.subject, error)

    def _own_rule(self, subject: str) -> None:
        try:
            self.registry.own_level(subject)
        except NoOwnCompatibility:
            self.registry.set_level(subject, Compatibility.NONE)

    def stop(self) -> None:
        self._server.should_exit = True
        self._api.history.stop()
        self._api.stop()
        if self._thread is not None:
            self._thread.join()
        self._api.close()
        self._events.close()
        self._parts.close()
        for one in (self._socket, self._plain):
            if one is not None:
                one.close()

    def _subjects_of(self, schema_id: str) -> list[str]:
        if not schema_id.isdecimal() or len(schema_id) > 10:
            return []
        return [version.subject for version in self.registry.with_id(int(schema_id))]

    def _run(self, listening: socket.socket) -> None:
        failure: BaseException | None = None
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                if self._plain is None:
                    runner.run(self._server.serve(sockets=[listening]))
                else:
                    runner.run(serve_encrypted(self._server, self._plain, listening, self._tls()))
        except BaseException as error:  # noqa: BLE001  it is handed to the node, nothing is swallowed
            failure = error
        self._ended(failure)

    def _tls(self) -> Tls:
        security = self._security
        certificates = ServerTls(security.settings, lambda: security.elapsed_ms() / 1000, client_certificates=False)
        settings = security.settings
        return Tls(lambda: certificates.context, settings.unfinished_logins_max, settings.login_timeout.total_seconds())


class PartReports:
    """Reports of the parts that `serve` does not import: flows, captures, alerts, problems."""

    def __init__(self, log: Log, data: Path, kafka: KafkaSide) -> None:
        self._log, self._data, self._address = log, data, kafka.address
        self._login = NO_LOGIN
        if kafka.security.enforcing:
            self._login = KafkaLogin(LOCAL_USER, data / LOCAL_TOKEN_FILE)
        self._captures = Definitions(data)
        self._lock = threading.Lock()
        self._client: Client | None = None
        self._jobs: JobObserver | None = None

    def flows(self) -> list[dict[str, Any]]:
        if not (self._data / FLOWS).is_dir():
            return []
        # Loaded only where there are flows: it brings libraries that a node has no other use for.
        from headwater.flow.kafka.client import Client
        from headwater.flow.run.figures import JobObserver

        ends = {TopicPartition(one.topic, one.number): one.high_watermark for one in self._log.partitions()}
        with self._lock:
            if self._jobs is None:
                self._client = Client(self._address, login=self._login)
                self._jobs = JobObserver(self._data, self._client, self._log.clock)
            return [job.to_json() for job in self._jobs.look(ends)]

    def problems(self) -> list[dict[str, Any]]:
        return problems_in(self._data)

    def captures(self) -> list[dict[str, Any]]:
        return [{**self._captures.report(name), "name": name} for name in self._captures.names()]

    def remove_capture(self, name: str, force: bool) -> None:
        self._captures.remove(name, force=force)

    def control(self, flow: str, what: str) -> list[str]:
        from headwater.flow.run.control import ask

        return ask(self._data, flow, what)

    def alerts(self) -> list[dict[str, Any]]:
        return alert_reports(self._data)

    def close(self) -> None:
        with self._lock:
            if self._client is not None:
                self._client.close()


def _shown(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _listening(settings: HttpSettings, *, public_allowed: bool) -> socket.socket:
    host, port = settings.host, settings.port
    found = socket.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    if not settings.insecure_public_bind and not public_allowed:
        refuse_public(host, [str(address[0]) for *_, address in found])
    family, *_, address = found[0]
    try:
        return _bound(family, address)
    except OSError as error:
        if error.errno != errno.EADDRINUSE or not settings.port_may_differ:
            raise unavailable("HTTP", host, port, option="--http", error=error) from None
    _logger.warning("port %d is in use; HTTP takes a free one", port)
    return _bound(family, (address[0], 0, *address[2:]))


def _bound(family: int, address: tuple[Any, ...]) -> socket.socket:
    # With the protocol named: only then asyncio sends small answers at once, instead of 40 ms later.
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(BACKLOG)
    except OSError:
        opened.close()
        raise
    return opened
