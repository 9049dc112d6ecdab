"""One running node: the log, its maintenance, the PostgreSQL of views if there is one, the Kafka port; the HTTP port,
captures, alerts if they are wanted.

Started in that order, stopped in reverse. While it runs, the file node.json in the data directory says where the node
can be reached, so that commands given the same directory talk to it instead of fighting it for the lock.
"""

import asyncio
import json
import logging
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from headwater.access.local_token import LocalToken
from headwater.clock import Clock, SystemClock
from headwater.errors import HeadwaterError, UnavailableError
from headwater.log.groups.member import DescribedGroup
from headwater.log.log import Log
from headwater.log.maintenance import look_after_transactions
from headwater.settings import NODE_FILE, NodeSettings
from headwater.views.own_postgres import FOLDER as POSTGRES_FOLDER
from headwater.views.own_postgres import SERVER_FILE
from headwater.wire.allocator import bound_kept_memory
from headwater.wire.event_loop import new_event_loop
from headwater.wire.group_service import GroupService
from headwater.wire.security import Security
from headwater.wire.server import KafkaServer

if TYPE_CHECKING:
    from headwater.capture.supervisor import MakeAppender
    from headwater.http_port import HttpPort

_logger = logging.getLogger(__name__)

GROUPS_SECONDS_MAX = 5
SQLITE, POSTGRESQL = "sqlite", "postgresql"
TRANSACTIONS_SECONDS = 1.0


class Node:
    """Start with `start` or `with Node(...)`; `stop` is clean and may be called twice."""

    def __init__(self, data: str | Path, settings: NodeSettings | None = None, *, clock: Clock | None = None) -> None:
        self.data = Path(data)
        self.settings = settings or NodeSettings()
        self._clock = clock or SystemClock()
        self._running = ExitStack()
        self._ended = threading.Event()
        self._failure: BaseException | None = None
        self._log: Log | None = None
        self._address = ""
        self._local_address = ""
        self._token = LocalToken(self.data)
        self._http: HttpPort | None = None
        self.views_address = ""
        """HOST:PORT of the PostgreSQL of the data directory; "" if it has none."""

    @property
    def log(self) -> Log:
        if self._log is None:
            raise RuntimeError("the node is not running")
        return self._log

    @property
    def kafka_address(self) -> str:
        """HOST:PORT where the Kafka port really listens; a configured port 0 has become a free one."""
        return self._address

    @property
    def http_url(self) -> str:
        """Where the HTTP port really listens, as http://HOST:PORT; "" if there is none."""
        return "" if self._http is None else self._http.url

    def start(self) -> None:
        """Open the log, then the port. If any step fails, what was started is stopped again."""
        bound_kept_memory()
        with ExitStack() as started:
            self._log = self._open_log()
            started.callback(self._log.close)
            # A file left by a node that was killed would send commands to an address that is no longer ours.
            (self.data / NODE_FILE).unlink(missing_ok=True)
            maintenance = MaintenanceTimer(
                self._log, interval_seconds=self.settings.log.maintenance_interval.total_seconds()
            )
            started.callback(maintenance.stop)
            started.callback(self._log.archive.stop)  # first: a large copy under way would keep us waiting for long
            maintenance.start()
            transactions = MaintenanceTimer(TransactionUpkeep(self._log), interval_seconds=TRANSACTIONS_SECONDS)
            started.callback(transactions.stop)
            transactions.start()
            self._token.open()
            started.callback(self._token.close)
            started.callback(self._start_views())
            security = Security(self._log, self.settings.security, local_token=lambda: self._token.value)
            security.start()
            started.callback(security.stop)
            port = KafkaPort(self._log, self.settings, security, ended=self._port_ended)
            started.callback(port.stop)
            host, number = port.start()
            self._address = shown_address(host, number)
            self._local_address = shown_address(*port.local_address)
            self._http = self._open_http(self._log, port, security)
            if self._http is not None:
                started.callback(self._http.stop)
                self._http.start()
            started.callback((self.data / NODE_FILE).unlink, missing_ok=True)
            self._write_node_file()
            if self.settings.captures:
                started.callback(self._start_captures(self._log))
            if self.settings.alerts:
                started.callback(self._start_alerts(self._log))
            self._running = started.pop_all()

    def _open_log(self) -> Log:
        try:
            return Log.open(self.data, settings=self.settings.log, clock=self._clock)
        except OSError as error:
            failure = UnavailableError(f"the data directory {self.data} cannot be opened: {error}")
            failure.hint = 'Look after that file; "headwater log check" reads all the others.'
            raise failure from error

    def _start_views(self) -> Callable[[], None]:
        """Starts the PostgreSQL that views are in, if they are in one; returns what stops it."""
        has = (self.data / POSTGRES_FOLDER / SERVER_FILE).exists()
        if has and self.settings.views == SQLITE:
            folder = self.data / POSTGRES_FOLDER
            raise UnavailableError(
                f"views of {self.data} are in PostgreSQL. Start the node without --views sqlite; or remove {folder} "
                f"and {self.data / 'views'}/*.postgresql, and build the views in SQLite with --rebuild"
            )
        if not has and self.settings.views != POSTGRESQL:
            return lambda: None
        try:
            from headwater.views.postgres_server import PostgresServer  # loaded only where there is one
        except ModuleNotFoundError as error:
            raise UnavailableError(
                f'views in PostgreSQL need {error.name}. Install it with: pip install "headwater[postgres-server]"'
            ) from None
        server = PostgresServer(self.data)
        server.start()
        self.views_address = server.address

        def stop() -> None:
            self.views_address = ""
            server.stop()

        return stop

    def _open_http(self, log: Log, kafka: "KafkaPort", security: Security) -> "HttpPort | None":
        if self.settings.http is None:
            return None
        # Loaded only where it is wanted: a node for a single command has no use for a web server.
        from headwater.http_port import HttpPort, KafkaSide

        side = KafkaSide(self._local_address, kafka.groups, security, self._token)
        return HttpPort(log, self.data, self.settings.http, side, ended=self._port_ended)

    def _start_captures(self, log: Log) -> Callable[[], None]:
        from headwater.capture.supervisor import Supervisor

        make = self._make_appender(log)
        if self._http is None:
            captures = Supervisor(self.data, make, self._clock)
        else:
            captures = Supervisor(self.data, make, self._clock, register=self._http.register)
        captures.start()
        return captures.stop

    def _make_appender(self, log: Log) -> "MakeAppender":
        if self.settings.cluster:
            from headwater.kafka_log import KafkaAppender

            return lambda: KafkaAppender(self.settings.cluster)
        from headwater.capture.appender import LogAppender

        return lambda: LogAppender(log)

    def _start_alerts(self, log: Log) -> Callable[[], None]:
        from headwater.alerts.supervisor import Supervisor

        publish = None
        if self.settings.cluster:
            from headwater.kafka_log import publisher

            publish = publisher(self.settings.cluster)
        alerts = Supervisor(self.data, log, self._clock, self._problems, publish=publish)
        alerts.start()
        return alerts.stop

    def _problems(self, app: str) -> list[dict[str, Any]]:
        from headwater.http_port import problems_in  # loaded only where an app asks for reports of its jobs

        return problems_in(self.data, app)

    def stop(self) -> None:
        """Refuse new requests, let running ones end, close the log. What was acknowledged stays."""
        self._ended.set()
        self._running.close()
        # Only now: a signal that comes while the node is still starting must not be forgotten.
        self._ended.clear()

    def run_forever(self, ready: Callable[["Node"], None] = lambda node: None) -> None:
        """Start, call `ready`, and serve until SIGTERM or SIGINT; then stop cleanly. Call it from the main thread.

        A second signal while stopping ends the process at once, as it would any other.
        """
        before = {number: signal.signal(number, self._end_on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            self.start()
            ready(self)
            self._ended.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self.stop()
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _end_on_signal(self, number: int, frame: FrameType | None) -> None:
        self._ended.set()

    def _port_ended(self, failure: BaseException | None) -> None:
        if failure is not None:
            _logger.error("a port has failed", exc_info=failure)
            self._failure = failure
            self._ended.set()

    def _write_node_file(self) -> None:
        fresh = self.data / f"{NODE_FILE}.new"
        said: dict[str, Any] = {"kafka": self._local_address, "process": os.getpid()}
        said["login"] = self.settings.security.demands_login
        said["decompressed_bytes_max"] = self.settings.log.decompressed_bytes_max
        said["cluster"] = self.settings.cluster
        if self._http is not None:
            said["http"] = self._http.local_url
        try:
            fresh.write_text(json.dumps(said) + "\n", encoding="utf-8")
            fresh.replace(self.data / NODE_FILE)
        except OSError as error:
            # A full disk must not keep a node from serving what is on it; only finding it becomes less easy.
            _logger.warning("%s cannot be written (%s); commands need --kafka %s", NODE_FILE, error, self._address)


class Maintained(Protocol):
    def maintain(self) -> None: ...


class TransactionUpkeep:
    """Ends transactions that take too long: soon, however long other upkeep takes."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def maintain(self) -> None:
        look_after_transactions(self._log)


class MaintenanceTimer:
    """Calls `log.maintain` on a timer. A pass that fails is reported and does not end the next one."""

    def __init__(self, log: Maintained, *, interval_seconds: float) -> None:
        self._log = log
        self._interval_seconds = interval_seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headwater-maintenance", daemon=True)
        self.failures = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_seconds):
            try:
                self._log.maintain()
            except Exception:
                self.failures += 1
                _logger.exception("maintenance failed; the next pass tries again")


class KafkaPort:
    """The Kafka server on an event loop and a thread of its own."""

    def __init__(
        self, log: Log, settings: NodeSettings, security: Security, *, ended: Callable[[BaseException | None], None]
    ) -> None:
        self._log, self._security = log, security
        self.local_address = ("", 0)
        """Where programs of this machine connect."""
        self._settings = settings
        self._ended = ended
        self._listening: Future[tuple[str, int]] = Future()
        self._stopping: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self._groups: GroupService
        self._thread = threading.Thread(target=self._run, name="headwater-kafka", daemon=True)

    def start(self) -> tuple[str, int]:
        """Returns once clients can connect, or raises what kept the port from opening."""
        self._thread.start()
        try:
            return self._listening.result()
        except BaseException:
            self._thread.join()
            raise

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()

    def groups(self) -> list[DescribedGroup]:
        """The consumer groups as they are now; may be called from any thread while the port is open."""
        answer: Future[list[DescribedGroup]] = Future()

        def collect() -> None:
            try:
                answer.set_result(self._groups.groups())
            except HeadwaterError as error:
                answer.set_exception(error)

        try:
            self._loop.call_soon_threadsafe(collect)
            return answer.result(GROUPS_SECONDS_MAX)
        except (RuntimeError, TimeoutError) as error:
            raise UnavailableError(f"the Kafka port does not answer: {error}") from error

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001  it is raised in the thread that waits, nothing is swallowed
            failure = error
        if not self._listening.done():
            self._listening.set_exception(failure or RuntimeError("the Kafka port ended before it was open"))
        else:
            self._ended(failure)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._groups = GroupService(self._log, self._settings.wire)
        server = KafkaServer(self._log, self._settings.wire, groups=self._groups, security=self._security)
        try:
            address = await server.start()
            self.local_address = server.local_address
            self._listening.set_result(address)
            await self._stopping.wait()
        finally:
            await server.stop()


def shown_address(host: str, port: int) -> str:
    """
    >>> shown_address("::1", 9092)
    '[::1]:9092'
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
