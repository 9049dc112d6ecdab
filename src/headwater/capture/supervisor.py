"""All captures of a node: each on a thread of its own, started, restarted and ended as their definitions say.

The folder of definitions is the order: whoever writes there (a command, an app) is obeyed within a second. A capture
that meets a failure of the database or the log goes on by itself when that is over; one that meets a gap stops and says
so until somebody asks for a new copy.
"""

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

from headwater.capture.appender import Appender
from headwater.capture.definition import (
    FILES,
    MARIADB,
    POSTGRES,
    SQLITE,
    STATSD,
    STATUS,
    Definition,
    Definitions,
    address_of,
    kind_of,
    pattern_of,
    write_privately,
)
from headwater.capture.notes import Notes
from headwater.capture.relay import Relay
from headwater.capture.runner import Point, Register, Runner
from headwater.capture.source import ChangeSource, Guarded, SourceStatus
from headwater.clock import Clock
from headwater.errors import HeadwaterError, InvalidCapture, SourceGap, SourceRefused, UndecodableChange

_logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
POLL_SECONDS = 0.2
STATUS_INTERVAL_MS = 1_000
PAUSE_MIN_SECONDS, PAUSE_MAX_SECONDS = 0.25, 15.0
ATTEMPTS_AT_A_CHANGE, ATTEMPTS_APART_MS = 3, 600_000
"""What cannot be decoded is tried so often; what comes later than this after the last time is something else."""

STARTING, COPYING, STREAMING, WAITING, REFUSED, GAP, PAUSED, STOPPED = (
    "starting", "copying", "streaming", "waiting", "refused", "gap", "paused", "stopped",
)  # fmt: skip

MakeSource = Callable[[Definition, Clock], ChangeSource]
MakeAppender = Callable[[], Appender]


def source_of(definition: Definition, clock: Clock) -> ChangeSource:
    """The source that a definition names. The driver is loaded only where it is needed."""
    found = MAKERS[kind_of(definition.url)](definition, clock)
    if not definition.outbox:
        return found
    return Relay(found, key_column=definition.key_column, value_column=definition.value_column)


def _postgres(definition: Definition, clock: Clock) -> ChangeSource:
    from headwater.capture.postgresql.setup import object_name
    from headwater.capture.postgresql.source import PostgresSettings, PostgresSource
    from headwater.capture.postgresql.wal_budget import AtLimit

    settings = PostgresSettings(
        capture=definition.name,
        url=definition.url,
        tables=definition.tables,
        topic=definition.topic_template,
        name=object_name(definition.name, definition.token),
        snapshot=definition.snapshot and not definition.outbox,
        transactions=f"{definition.name}.transaction" if definition.transactions else "",
        heartbeat=timedelta(seconds=definition.heartbeat_seconds),
        retained_bytes_max=definition.retained_bytes_max,
        at_limit=AtLimit(definition.at_limit),
        version=version("headwater"),
    )
    return PostgresSource(settings, clock)


def _mariadb(definition: Definition, clock: Clock) -> ChangeSource:
    from headwater.capture.mariadb_binlog.source import MariadbSettings, MariadbSource

    settings = MariadbSettings(
        capture=definition.name,
        url=definition.url,
        tables=definition.tables,
        topic=definition.topic_template,
        name=f"{definition.name}/{definition.token}",
        snapshot=definition.snapshot and not definition.outbox,
        version=version("headwater"),
    )
    return MariadbSource(settings, clock)


def _sqlite(definition: Definition, clock: Clock) -> ChangeSource:
    from headwater.capture.sqlite_outbox.source import SqliteSettings, SqliteSource, object_name, path_of

    settings = SqliteSettings(
        capture=definition.name,
        path=path_of(definition.url),
        tables=definition.tables,
        topic=definition.topic_template,
        name=object_name(definition.name, definition.token),
        snapshot=definition.snapshot and not definition.outbox,
        version=version("headwater"),
    )
    return SqliteSource(settings, clock)


def _statsd(definition: Definition, clock: Clock) -> ChangeSource:
    from headwater.capture.statsd_udp.source import StatsdSettings, StatsdSource

    settings = StatsdSettings(
        capture=definition.name,
        address=address_of(definition.url),
        topic=definition.topic_template.format(capture=definition.name),
        interval_seconds=definition.interval_seconds,
    )
    return StatsdSource(settings, clock)


def _files(definition: Definition, clock: Clock) -> ChangeSource:
    from headwater.capture.followed_files.source import FilesSettings, FilesSource

    settings = FilesSettings(
        capture=definition.name,
        pattern=pattern_of(definition.url),
        topic=definition.topic_template.format(capture=definition.name),
        encoding=definition.encoding,
        from_start=definition.snapshot,
    )
    return FilesSource(settings, clock)


MAKERS: dict[str, MakeSource] = {
    POSTGRES: _postgres, MARIADB: _mariadb, SQLITE: _sqlite, STATSD: _statsd, FILES: _files,
}  # fmt: skip


class Supervisor:
    """`start` returns at once; `stop` returns when every capture has let go of its database and of the log."""

    def __init__(
        self,
        data: Path,
        make_appender: MakeAppender,
        clock: Clock,
        *,
        make_source: MakeSource = source_of,
        point: Point = lambda name: None,
        register: Register = lambda registration: None,
    ) -> None:
        self._register = register
        self._definitions = Definitions(data)
        self._make_appender, self._make_source, self._clock, self._point = make_appender, make_source, clock, point
        self._stopping = threading.Event()
        self._pressed: set[str] = set()
        self._workers: dict[str, Worker] = {}
        self._thread = threading.Thread(target=self._run, name="headwater-captures", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    self._look()
                except (HeadwaterError, OSError, ValueError, TypeError):
                    _logger.exception("the definitions of captures cannot be read; trying again")
                self._stopping.wait(LOOK_SECONDS)
        finally:
            for worker in self._workers.values():
                worker.ask_to_stop()
            for worker in self._workers.values():
                worker.join()

    def _look(self) -> None:
        wanted = {definition.name: definition for definition in self._definitions.all()}
        for name, worker in list(self._workers.items()):
            if wanted.get(name) != worker.definition or not worker.alive:
                worker.ask_to_stop()
                worker.join()
                del self._workers[name]
        for name, definition in wanted.items():
            if name not in self._workers and not (definition.removing and self._removed(definition)):
                self._workers[name] = Worker(self, definition)
                self._workers[name].start()

    def _removed(self, definition: Definition) -> bool:
        """Whether all that was made for it is gone."""
        try:
            remove(definition, self._definitions, self._make_appender())
        except HeadwaterError as error:
            _logger.warning("capture %s cannot be removed yet: %s", definition.name, error)
            return False
        _logger.info("capture %s was removed", definition.name)
        return True

    # -- for workers ---------------------------------------------------------------------------------------------------

    def runner(self, definition: Definition, source: ChangeSource) -> Runner:
        appender = self._make_appender()
        folder = self._definitions.of(definition.name)
        return Runner(
            source, appender, Notes(appender, definition.name),
            folder=folder, clock=self._clock, partitions=definition.partitions, point=self._point,
            register=self._register,
        )  # fmt: skip

    def notes(self, definition: Definition) -> Notes:
        return Notes(self._make_appender(), definition.name)

    def source(self, definition: Definition) -> ChangeSource:
        return self._make_source(definition, self._clock)

    def press(self, name: str, pressed: bool) -> None:
        """A capture says whether the others have to wait for it."""
        (self._pressed.add if pressed else self._pressed.discard)(name)

    def pausing(self, name: str) -> str:
        """The capture for which another has to wait; "" for none. Two that are pressed do not wait for each other."""
        return "" if name in self._pressed else next(iter(sorted(self._pressed)), "")

    @property
    def definitions(self) -> Definitions:
        return self._definitions

    @property
    def clock(self) -> Clock:
        return self._clock


class Worker:
    """One capture on its thread."""

    def __init__(self, supervisor: Supervisor, definition: Definition) -> None:
        self.definition = definition
        self._supervisor, self._definitions = supervisor, supervisor.definitions
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"headwater-capture-{definition.name}", daemon=True)
        self._state, self._said = STARTING, ""
        self._status_at_ms = -(10**9)
        self._pause_seconds = PAUSE_MIN_SECONDS
        self._last_told, self._last_told_ms, self._repeated = "", 0, 0

    def start(self) -> None:
        self._thread.start()

    def ask_to_stop(self) -> None:
        self._stopping.set()

    def join(self) -> None:
        self._thread.join()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping.is_set() and not self.definition.removing:
            try:
                if first := self._supervisor.pausing(self.definition.name):
                    self._give_way(first)
                else:
                    self._capture()
            except HeadwaterError as error:
                self._failed(self._judged(error))
            except Exception:
                _logger.exception("capture %s has met a bug; trying again", self.definition.name)
                self._set(WAITING, "it has met a bug of headwater; the node's log tells more")
                self._pause()
        self._supervisor.press(self.definition.name, False)  # nobody waits for one that is gone
        self._set(STOPPED, "")

    def _judged(self, error: HeadwaterError) -> HeadwaterError:
        """What cannot be decoded may have been damaged on its way, and then comes right. What comes the same again and
        again does not: only a new copy goes on behind it."""
        told, now_ms = str(error), self._supervisor.clock.elapsed_ms()
        same = told == self._last_told and now_ms - self._last_told_ms < ATTEMPTS_APART_MS
        self._repeated = self._repeated + 1 if same else 1
        self._last_told, self._last_told_ms = told, now_ms
        if not isinstance(error, UndecodableChange) or self._repeated < ATTEMPTS_AT_A_CHANGE:
            return error
        self._repeated = 0
        hint = f'{error.hint} Copy all anew with "headwater capture snapshot {self.definition.name}".'
        return SourceGap(f"a change cannot be read, and all behind it waits: {error.args[0]}", hint.lstrip())

    def _give_way(self, first: str) -> None:
        """Another capture is over its limit, and was declared to come first. What waits for us is looked after."""
        kept = self._guarded()
        self._supervisor.press(self.definition.name, kept.pause_others)
        self._set(PAUSED, f"capture {first} has to catch up first", asdict(kept))
        self._stopping.wait(LOOK_SECONDS)

    def _guarded(self) -> SourceStatus:
        source = self._supervisor.source(self.definition)
        return source.guard() if isinstance(source, Guarded) else SourceStatus()

    def _alarm(self, error: HeadwaterError) -> None:
        """It cannot run; what is kept for it grows all the same, and its limit holds all the same."""
        try:
            kept = self._guarded()
        except SourceGap as gap:
            self._failed(gap)
            return
        except HeadwaterError:
            return  # nor does the database answer
        self._set(self._state, f"{error}; {kept.warning}" if kept.warning else str(error), asdict(kept))

    def _failed(self, error: HeadwaterError) -> None:
        if isinstance(error, SourceGap):
            self._set(GAP, str(error))
            _logger.error("capture %s: %s", self.definition.name, error)
            self._wait_for_request()
        elif isinstance(error, SourceRefused | InvalidCapture):
            self._set(REFUSED, str(error))
            _logger.error("capture %s: %s", self.definition.name, error)
            self._pause_seconds = PAUSE_MAX_SECONDS
            self._alarm(error)
            self._pause()
        else:
            self._set(WAITING, str(error))
            _logger.warning("capture %s waits: %s", self.definition.name, error)
            self._alarm(error)
            self._pause()

    def _pause(self) -> None:
        self._stopping.wait(self._pause_seconds)
        self._pause_seconds = min(PAUSE_MAX_SECONDS, self._pause_seconds * 2)

    def _wait_for_request(self) -> None:
        """After a gap nothing goes on by itself: only a request to copy all tables anew does."""
        while not self._stopping.wait(LOOK_SECONDS):
            for path in self._definitions.requests(self.definition.name):
                what = json.loads(path.read_text(encoding="utf-8"))
                if not what.get("tables"):
                    self._supervisor.notes(self.definition).write({"renew": {"asked": True}})
                    path.unlink()
                    return

    def _capture(self) -> None:
        source = self._supervisor.source(self.definition)
        runner = self._supervisor.runner(self.definition, source)
        try:
            runner.open()
            _logger.info("capture %s has begun", self.definition.name)
            while not self._stopping.is_set() and not self._supervisor.pausing(self.definition.name):
                taken = self._take_requests(source)
                runner.step(POLL_SECONDS)
                for path in taken:
                    path.unlink()
                self._pause_seconds = PAUSE_MIN_SECONDS
                self._tell(runner, source.status())
        except BaseException:
            runner.abandon()
            raise
        finally:
            self._supervisor.press(self.definition.name, False)
        runner.close()

    def _take_requests(self, source: ChangeSource) -> list[Path]:
        """Do as asked; the requests may go once that is written down."""
        taken = self._definitions.requests(self.definition.name)
        for path in taken:
            what = json.loads(path.read_text(encoding="utf-8"))
            try:
                source.copy_again(what.get("tables", []), where=what.get("where", ""))
            except InvalidCapture as error:
                _logger.warning("capture %s: %s", self.definition.name, error)
        return taken

    # -- how it is -------------------------------------------------------------------------------------------------

    def _tell(self, runner: Runner, status: SourceStatus) -> None:
        now_ms = self._supervisor.clock.elapsed_ms()
        if now_ms - self._status_at_ms < STATUS_INTERVAL_MS:
            return
        self._status_at_ms = now_ms
        self._supervisor.press(self.definition.name, status.pause_others)
        copying = any(not table.done for table in status.snapshots)
        self._state, self._said = COPYING if copying else STREAMING, status.warning
        self._write({"counts": asdict(runner.counts), **asdict(status)})

    def _set(self, state: str, said: str, more: dict[str, object] | None = None) -> None:
        self._state, self._said = state, said
        self._write(more or {})

    def _write(self, more: dict[str, object]) -> None:
        content = {"state": self._state, "said": self._said, "at_ms": self._supervisor.clock.now_ms(), **more}
        try:
            # Written every second, and worth nothing after a power cut: changes should not wait for it.
            path = self._definitions.of(self.definition.name) / STATUS
            write_privately(path, json.dumps(content).encode(), durable=False)
        except OSError as error:
            _logger.debug("the status of capture %s cannot be written: %s", self.definition.name, error)


def remove(definition: Definition, definitions: Definitions, appender: Appender) -> None:
    """Take away what was made at the database, then what is remembered. The topics stay."""
    if kind_of(definition.url) in DROPPERS:
        DROPPERS[kind_of(definition.url)](definition)
    Notes(appender, definition.name).forget()
    definitions.delete(definition.name)


def _drop_postgres(definition: Definition) -> None:
    from headwater.capture.postgresql.database import Database
    from headwater.capture.postgresql.setup import drop, object_name

    database = Database(definition.url)
    try:
        drop(database, object_name(definition.name, definition.token))
    finally:
        database.close()


def _drop_sqlite(definition: Definition) -> None:
    from headwater.capture.sqlite_outbox.source import drop, object_name, path_of

    drop(path_of(definition.url), object_name(definition.name, definition.token))


DROPPERS: dict[str, Callable[[Definition], None]] = {POSTGRES: _drop_postgres, SQLITE: _drop_sqlite}
