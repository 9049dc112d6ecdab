"""MariaDB as a source of changes: its binary log by GTID, one ordinary connection, one thread.

`poll` is the heart: it takes the events that have come, turns them into changes, and where the stream comes to the
position of a chunk inserts the chunk's rows. Nothing is created in the database, and nothing is confirmed to it: what
was reached is noted on our side, and the server keeps its log for as long as it is configured to.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from headwater.capture.change import CapturedTable, next_generation
from headwater.capture.mariadb_binlog.assembler import Assembler
from headwater.capture.mariadb_binlog.catalog import Catalog
from headwater.capture.mariadb_binlog.database import Database
from headwater.capture.mariadb_binlog.events import Decoder
from headwater.capture.mariadb_binlog.positions import Reached
from headwater.capture.mariadb_binlog.server_monitor import Watch, require
from headwater.capture.mariadb_binlog.source_block import SourceBlock
from headwater.capture.mariadb_binlog.stream import LogStream, server_id_of
from headwater.capture.mariadb_binlog.table_copies import Copies
from headwater.capture.mariadb_binlog.tables import TableFacts, parse_pattern
from headwater.capture.mariadb_binlog.text_values import quoted
from headwater.capture.notes import Note
from headwater.capture.source import Batch, SourceStatus
from headwater.clock import Clock
from headwater.errors import InvalidCapture, SourceGap, SourceRefused

_logger = logging.getLogger(__name__)

NOTE_INTERVAL_MS = 500
BUSY_SECONDS = 0.02
NUMBERS_PER_START = 2**20


@dataclass(frozen=True, kw_only=True)
class MariadbSettings:
    """The settings of a MariaDB source."""

    capture: str
    url: str
    tables: tuple[str, ...]
    topic: str
    """A template: {capture}, {schema} and {table} are filled in."""

    name: str
    """The id by which the server distinguishes its replicas."""

    snapshot: bool = True
    version: str = "headwater"


def schema_of(url: str) -> str:
    return unquote(urlsplit(url).path.lstrip("/"))


class MariadbSource:
    """A ChangeSource; see source.py for the contract."""

    def __init__(self, settings: MariadbSettings, clock: Clock) -> None:
        self.settings, self._clock = settings, clock
        self._patterns = [parse_pattern(table, schema_of(settings.url)) for table in settings.tables]
        self._notes: dict[str, Note | None] = {}
        self._ahead: list[bytes] = []
        self._generation = 0
        self._noted_at_ms = -(10**9)
        self._noted: Reached | None = None
        self._database: Database | None = None
        self._stream: LogStream | None = None
        self._copies: Copies | None = None
        self._source = SourceBlock(capture=settings.capture, version=settings.version)

    # -- opening and closing -----------------------------------------------------------------------------------------

    def open(self, notes: Mapping[str, Note]) -> None:
        database = self._database = Database(self.settings.url)
        server = require(database)
        self._catalog = Catalog(
            database, self._patterns, capture=self.settings.capture, topic=self.settings.topic
        )  # fmt: skip
        self._catalog.remember(notes)
        self._decoder = Decoder(self._catalog.charsets)
        copies = self._copies = Copies(self.settings.url, database, self._catalog, self._source, server=server)
        self._watch = Watch(database, self._clock)
        known = notes.get("log", {})
        self._generation = int(str(known.get("generation", 0)))
        copies.number = int(str(known.get("number", 0))) + NUMBERS_PER_START
        emitted = 0
        if "log" in notes and "renew" not in notes:
            reached, emitted = Reached.from_note(known), int(str(known.get("told", 0)))
            copies.load(notes)
        else:
            reached = self._begin(database, copies, renew="renew" in notes)
        self._start(reached, emitted=emitted)
        # Durable before anything is emitted: the generation, and the advanced numbers of chunks.
        self._note_reached()

    def _begin(self, database: Database, copies: Copies, *, renew: bool) -> Reached:
        """From where the log is now, in a new generation of positions; and every table is copied."""
        self._generation = next_generation(self._generation, self._clock.now_ms())
        now_ms = 1000 * int(database.one("SELECT UNIX_TIMESTAMP()"))
        reached = Reached(database.seen_position(), time_ms=now_ms)
        for facts in self._catalog.find():
            self._catalog.table_of(facts)
            if not self.settings.snapshot or not self._copyable(facts):
                copies.spare(facts.full_name)
            else:
                copies.want(facts, renews=self._base if renew else 0)
        if renew:
            self._notes |= {"renew": None, "confirmed": None}
        return reached

    def _copyable(self, facts: TableFacts) -> bool:
        """A snapshot knows nothing of engines without transactions. One that only a pattern names must not keep the
        others from it."""
        if facts.transactional:
            return True
        if any(not one.wild and one.matches(facts.schema, facts.name) for one in self._patterns):
            raise SourceRefused(
                f"{facts.full_name} is of engine {facts.engine}, which has no transactions: it cannot be copied while "
                "others write",
                f"Run: ALTER TABLE {quoted(facts.schema)}.{quoted(facts.name)} ENGINE = InnoDB; or use --no-snapshot.",
            )
        _logger.warning("table %s is of engine %s and cannot be copied; only its changes are emitted",
                        facts.full_name, facts.engine)  # fmt: skip
        return False

    @property
    def _base(self) -> int:
        return self._generation << 64

    def _start(self, reached: Reached, *, emitted: int) -> None:
        """Starts at the last group, to verify that it is the same one; after it, if its file was deleted."""
        hint = f'Changes are missing: copy all again with "headwater capture snapshot {self.settings.capture}".'
        server_id = server_id_of(self.settings.name)
        verify = reached.before is not None
        try:
            self._stream = LogStream(
                self.settings.url, self._clock,
                position=reached.gtid if reached.before is None else reached.before, server_id=server_id, hint=hint,
            )  # fmt: skip
        except SourceGap:
            if not verify:
                raise
            verify = False
            self._stream = LogStream(
                self.settings.url, self._clock, position=reached.gtid, server_id=server_id, hint=hint
            )  # fmt: skip
        self._assembler = Assembler(
            self._catalog.plan, self._catalog.named, self._source, base=self._base, reached=reached, verify=verify,
            emitted=emitted, copies=self.settings.snapshot,
        )  # fmt: skip

    def tables(self) -> Sequence[CapturedTable]:
        return self._catalog.known()

    def close(self) -> None:
        for one in (self._copies, self._stream, self._database):
            if one is not None:
                one.close()

    # -- changes -----------------------------------------------------------------------------------------------------

    def poll(self, timeout_seconds: float) -> Batch:
        assert self._stream is not None
        assert self._copies is not None
        if self._notes:
            return Batch(notes=self._take_notes())
        copies, assembler = self._copies, self._assembler
        if copies.reading:
            return Batch(copies.some(), self._take_notes(), inside=False)
        self._watch.look(assembler)
        copies.advance(assembler)
        copies.insert(assembler)
        if not copies.reading:
            received, self._ahead = self._ahead, []
            wait = 0.001 if assembler.changes else BUSY_SECONDS if copies.under_way else timeout_seconds
            self._take_all(received or self._stream.receive(wait))
        self._follow_tables()
        self._note_if_due()
        changes, assembler.changes = assembler.changes, []
        notes = self._take_notes()  # rows that were asked for are copied, as is noted now
        return Batch(changes, notes, safe=0, inside=assembler.inside_emitted, passed=assembler.passed)

    def _take_all(self, received: list[bytes]) -> None:
        assert self._copies is not None
        for index, data in enumerate(received, 1):
            self._assembler.take(*self._decoder.decode(data))
            if self._copies.under_way:
                self._copies.insert(self._assembler)
                if self._copies.reading:
                    self._ahead = received[index:]  # a table is read as a whole before the stream continues
                    return

    def _follow_tables(self) -> None:
        """Tables that are new, and tables whose rows have become others without a word."""
        assert self._copies is not None
        assembler, copies = self._assembler, self._copies
        for schema, name in map(self._catalog.folded, assembler.created):
            if self._catalog.matches(schema, name) and f"{schema}.{name}" not in copies:
                copies.spare(f"{schema}.{name}")
        assembler.created.clear()
        unlogged, assembler.unlogged = assembler.unlogged, {}
        rekeyed, self._catalog.rekeyed = self._catalog.rekeyed, set()
        for table in self._catalog.known():
            if table.full_name not in copies or table.full_name in rekeyed:
                unlogged.setdefault((table.schema, table.name), self._base + assembler.count)
        for (schema, name), renews in unlogged.items():
            full_name = f"{schema}.{name}"
            if self.settings.snapshot:
                _logger.warning("rows of table %s changed without an event in the log; it is copied again", full_name)
                copies.want_named(full_name, renews=renews)
            else:
                _logger.warning("rows of table %s have changed without a word in the log", full_name)
                if full_name not in copies:
                    copies.spare(full_name)

    # -- notes -------------------------------------------------------------------------------------------------------

    def _note_if_due(self) -> None:
        assert self._copies is not None
        due = self._clock.elapsed_ms() - self._noted_at_ms >= NOTE_INTERVAL_MS
        if self._copies.notes or (due and self._assembler.reached != self._noted):
            self._note_reached()

    def _note_reached(self) -> None:
        assert self._copies is not None
        reached = self._noted = self._assembler.reached
        self._noted_at_ms = self._clock.elapsed_ms()
        self._notes["log"] = {
            **reached.to_note(), "generation": self._generation, "number": self._copies.number,
            "told": self._assembler.emitted,
        }  # fmt: skip

    def _take_notes(self) -> dict[str, Note | None]:
        assert self._copies is not None
        if self._copies.notes or self._catalog.notes:
            self._note_reached()  # what is known of tables, and how far that is, are one
        notes = {**self._notes, **self._catalog.notes, **self._copies.notes}
        self._notes, self._catalog.notes, self._copies.notes = {}, {}, {}
        return notes

    # -- the rest of the contract ------------------------------------------------------------------------------------

    def confirm(self, address: int) -> None:
        """The server keeps its log for a fixed time: there is nothing to confirm."""

    def read_row(self, table: str, key: tuple[str, ...], *, moved: bool) -> None:
        """A session has logged rows without all their columns (binlog_row_image): the table is copied again."""
        assert self._copies is not None
        self._copies.want_row(table)

    def copy_again(self, tables: Sequence[str], *, where: str = "") -> None:
        assert self._copies is not None
        known = self._copies.names()
        for table in tables:
            if table not in known:
                raise InvalidCapture(
                    f"capture {self.settings.capture} has no table {table}", f"It has: {', '.join(sorted(known))}."
                )
        self._copies.again(tables or known, where=where)

    def status(self) -> SourceStatus:
        status = self._watch.status
        status.position = self._assembler.reached.gtid
        status.snapshots = self._copies.progress() if self._copies else []
        return status
