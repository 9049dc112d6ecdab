"""All captures of a node: each on a thread of its own, started, restarted and ended as their definitions say.

The folder of definitions is the order: a change there (by a command, an app) takes effect within a second. A capture
that meets a failure of the database or the log resumes by itself when that is over; one that meets a gap stops and says
so until an operator requests a new copy.
"""

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

from headwater.capture.appender import Appender
from headwater.capture.commit_points import CommitPoints
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
from headwater.small_file import unseal

_logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
POLL_SECONDS = 0.2
STATUS_INTERVAL_MS = 1_000
PAUSE_MIN_SECONDS, PAUSE_MAX_SECONDS = 0.25, 15.0
ATTEMPTS_AT_A_CHANGE, ATTEMPTS_APART_MS = 3, 600_000
"""How often an undecodable change is retried; a failure later than this after the last one counts as a new one."""

STARTING, COPYING, STREAMING, WAITING, REFUSED, GAP, PAUSED, REMOVING, STOPPED = (
    "starting", "copying", "streaming", "waiting", "refused", "gap", "paused", "removing", "stopped",
)  # fmt: skip
TAKE_AWAY = 'what cannot be reached is left as it is by "headwater capture remove {} --force"'

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
            if name not in self._workers:
                self._workers[name] = Worker(self, definition)
                self._workers[name].start()

    # -- for workers ---------------------------------------------------------------------------------------------------

    def runner(self, definition: Definition, source: ChangeSource) -> Runner:
        appender = self._make_appender()
        folder = self._definitions.of(definition.name)
        return Runner(
            source, appender, Notes(appender, definition.name),
            folder=folder, clock=self._clock, partitions=definition.partitions, point=self._point,
            register=self._register,
        )  # fmt: skip

    def remove(self, definition: Definition) -> str:
        return remove(definition, self._definitions, self._make_appender())

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
        self._last_error, self._last_error_ms, self._repeated = "", 0, 0
        self._logged, self._said_often, self._failures = "", 0, 0

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
        if self.definition.removing:
            self._remove()
            return
        while not self._stopping.is_set():
            try:
                if first := self._supervisor.pausing(self.definition.name):
                    self._give_way(first)
                else:
                    self._capture()
            except HeadwaterError as error:
                self._failed(self._permanent_if_repeated(error))
            except Exception:
                _logger.exception("capture %s has met a bug; trying again", self.definition.name)
                self._set_failed(WAITING, "it has met a bug of headwater; see the node's log")
                self._pause()
        self._supervisor.press(self.definition.name, False)  # no caller waits for a removed one
        self._set(STOPPED, "")

    def _remove(self) -> None:
        """On this thread: a database that does not answer keeps no other capture waiting."""
        while not self._stopping.is_set():
            try:
                left = self._supervisor.remove(self.definition)
            except HeadwaterError as error:
                self._set_failed(REMOVING, f"{error} ({TAKE_AWAY.format(self.definition.name)})")
                self._log(logging.WARNING, f"cannot be removed yet: {error}")
                self._pause()
                continue
            _logger.info("capture %s was removed%s", self.definition.name, f"; {left}" if left else "")
            return

    def _log(self, level: int, said: str) -> None:
        """Logs a repeated failure the second, the fourth, the eighth time, so that it fills no disk."""
        self._said_often = self._said_often + 1 if said == self._logged else 1
        self._logged = said
        if self._said_often & (self._said_often - 1) == 0:
            times = f" ({self._said_often} times by now)" if self._said_often > 1 else ""
            _logger.log(level, "capture %s %s%s", self.definition.name, said, times)

    def _set_failed(self, state: str, said: str) -> None:
        """Counted, so that a caller that waits for it can give up."""
        self._failures += 1
        self._set(state, said)

    def _permanent_if_repeated(self, error: HeadwaterError) -> HeadwaterError:
        """What cannot be decoded may have been damaged on its way, and then comes right. What comes the same again and
        again does not: only a new copy can continue after it."""
        text, now_ms = str(error), self._supervisor.clock.elapsed_ms()
        same = text == self._last_error and now_ms - self._last_error_ms < ATTEMPTS_APART_MS
        self._repeated = self._repeated + 1 if same else 1
        self._last_error, self._last_error_ms = text, now_ms
        if not isinstance(error, UndecodableChange) or self._repeated < ATTEMPTS_AT_A_CHANGE:
            return error
        self._repeated = 0
        hint = f'{error.hint} Copy all again with "headwater capture snapshot {self.definition.name}".'
        return SourceGap(f"a change cannot be read, and all later changes wait: {error.args[0]}", hint.lstrip())

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
        """Checks a capture that cannot run: the WAL kept for it still grows, and its limit still applies."""
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
            self._set_failed(REFUSED, str(error))
            self._log(logging.ERROR, f"cannot run: {error}")
            self._pause_seconds = PAUSE_MAX_SECONDS
            self._alarm(error)
            self._pause()
        else:
            self._set_failed(WAITING, str(error))
            self._log(logging.WARNING, f"waits: {error}")
            self._alarm(error)
            self._pause()

    def _pause(self) -> None:
        self._stopping.wait(self._pause_seconds)
        self._pause_seconds = min(PAUSE_MAX_SECONDS, self._pause_seconds * 2)

    def _wait_for_request(self) -> None:
        """After a gap a capture does not resume by itself: only a request to copy all tables again resumes it."""
        while not self._stopping.wait(LOOK_SECONDS):
            for path in self._definitions.requests(self.definition.name):
                what = self._asked(path)
                if what is not None and not what.get("tables"):
                    self._supervisor.notes(self.definition).write({"renew": {"asked": True}})
                    path.unlink()
                    return

    def _capture(self) -> None:
        source = self._supervisor.source(self.definition)
        runner = self._supervisor.runner(self.definition, source)
        try:
            runner.open()
            self._definitions.begun(self.definition.name)  # before the first record: from now on there is data of it
            self._failures = 0
            _logger.info("capture %s has begun", self.definition.name)
            while not self._stopping.is_set() and not self._supervisor.pausing(self.definition.name):
                taken = self._take_requests(source)
                runner.step(POLL_SECONDS)
                for path in taken:
                    path.unlink(missing_ok=True)
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
            what = self._asked(path)
            if what is None:
                continue
            try:
                source.copy_again(what.get("tables", []), where=what.get("where", ""))
            except InvalidCapture as error:
                _logger.warning("capture %s: %s", self.definition.name, error)
        return taken

    def _asked(self, path: Path) -> dict[str, Any] | None:
        """Returns the content of a request; one that cannot be read is removed, with a warning."""
        try:
            what, _ = unseal(path.read_bytes())
        except (OSError, ValueError):
            what = None
        if isinstance(what, dict):
            return what
        _logger.warning("capture %s: the request in %s is damaged; ask again", self.definition.name, path)
        if path.is_file():
            path.unlink()
        return None

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
        content = {
            "state": self._state, "said": self._said, "failures": self._failures, "revision": self.definition.revision,
            "at_ms": self._supervisor.clock.now_ms(), **more,
        }  # fmt: skip
        try:
            # Written every second, and worth nothing after a power cut: changes should not wait for it.
            path = self._definitions.of(self.definition.name) / STATUS
            write_privately(path, json.dumps(content).encode(), durable=False)
        except OSError as error:
            _logger.debug("the status of capture %s cannot be written: %s", self.definition.name, error)


def remove(definition: Definition, definitions: Definitions, appender: Appender) -> str:
    """Take away what was made at the database, then what is remembered. The topics stay. Returns what is left at the
    database; nothing, unless it was asked to force it."""
    left = ""
    if kind_of(definition.url) in DROPPERS:
        try:
            DROPPERS[kind_of(definition.url)](definition)
        except HeadwaterError as error:
            if not definition.forced:
                raise
            left = left_behind(definition, str(error))
    CommitPoints(appender, definition.name).remove()
    Notes(appender, definition.name).forget()
    definitions.delete(definition.name)
    return left


def left_behind(definition: Definition, why: str) -> str:
    """The objects that a capture may have created in its database, and their removal."""
    if kind_of(definition.url) == POSTGRES:
        from headwater.capture.postgresql.setup import object_name

        name = object_name(definition.name, definition.token)
        return (
            f"{definition.shown_url} was not cleaned up ({why}); while a slot is left there, the database keeps its "
            f"log: SELECT pg_drop_replication_slot('{name}'); DROP PUBLICATION IF EXISTS {name};"
        )
    return f"{definition.shown_url} was not cleaned up ({why}); its triggers and its outbox table may be left there"


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
